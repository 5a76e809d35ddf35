"""Where material that lies beside the repository is, for tests that read it in place."""

from __future__ import annotations

import gzip
import lzma
import re
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


def shared(*parts: str) -> Path:
    """Return a path below the shared folder; the test is skipped where there is none."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(parts)} beside this repository")
    return path


def names(pattern: str) -> list[str]:
    """Return the sorted relative names of shared files, for parametrize; empty where there are none."""
    return sorted(str(path.relative_to(SHARED)) for path in SHARED.glob(pattern))


def read(path: Path) -> str:
    """Return a text as it was captured: carriage returns kept, .xz and .gz unpacked."""
    content = path.read_bytes()
    if path.suffix == ".xz":
        content = lzma.decompress(content)
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return content.decode("utf-8", "replace")


def help_texts() -> list[str]:
    """Return the names of the captured full help texts of `vllm bench serve`, one for each version."""
    full = names("captures/cpu/help/v*_bench_serve_help_all.txt")
    return full + names("captures/cpu/help/v0.10.*_bench_serve_help.txt")


def version_of(name: str) -> str:
    """Given the name of a captured help text, return its version."""
    return re.findall(r"/v([\d.]+)_", name)[-1]

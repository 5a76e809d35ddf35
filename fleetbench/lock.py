"""A lock: every package of a venv with its exact version, so that two hosts get the same.

Made on the controller by `uv pip compile` for the *host's* Python and C library, kept as a text file beside
the inventory, and committed by the operator. Its name carries a digest of everything that it was made from:
a changed build has another file, so a lock is never out of date.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fleetbench.errors import NotPossible, Unreadable, one_line
from fleetbench.resolution import Resolution
from fleetbench.whole_file import write_whole

_LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]+\])?(===?\S+| @ \S+)( ;.*| \\)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The exact text, and the hash that a finished venv is stamped with."""

    text: str
    path: str = ""

    @property
    def hash(self) -> str:
        """Hash over the requirement lines only: a comment or a header does not make another venv."""
        lines = [
            line for line in self.text.splitlines() if line.strip() and not line.lstrip().startswith("#")
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    @property
    def hashed(self) -> bool:
        """Whether the lines carry hashes of the wheels."""
        return "--hash=" in self.text


class LockFile:
    """Locks of one directory (`inventory/locks`), each made at most once however many hosts ask for it."""

    def __init__(
        self, directory: Path, *, wheelhouse: Path | None = None, keep: bool = True, timeout_s: float = 900
    ) -> None:
        """Use `directory` for locks.

        Args:
            directory: where locks are read and written; made when the first lock is written.
            wheelhouse: the host's wheelhouse as the controller sees it, when it has one too.
            keep: write a new lock to the directory; False under `--check`.
            timeout_s: longest time for making one lock.
        """
        self._directory = directory
        self._wheelhouse = wheelhouse
        self._keep = keep
        self._timeout_s = timeout_s
        self._made: dict[str, Lock] = {}
        self._guard = threading.Lock()

    def lock(self, want: Resolution) -> Lock:
        """Return the lock of a resolution: from its file when there is one, else newly made."""
        path = self._directory / want.file_name
        with self._guard:  # hosts with the same build wait for one resolution instead of making it each
            if want.file_name not in self._made:
                if path.is_file():
                    text = path.read_text("utf-8")
                    check_text(text, str(path))
                else:
                    text = make(want, wheelhouse=self._wheelhouse, timeout_s=self._timeout_s)
                    if self._keep:
                        _write(path, text)
                self._made[want.file_name] = Lock(text=text, path=str(path))
            return self._made[want.file_name]


def make(want: Resolution, *, wheelhouse: Path | None = None, timeout_s: float = 900) -> str:
    """Resolve and return the lock's text. NotPossible with the resolver's own reason and what to do.

    With a wheelhouse that the controller can see, only that is looked at; otherwise the indexes.
    """
    here = wheelhouse or (Path(want.wheelhouse) if want.wheelhouse else None)
    with tempfile.TemporaryDirectory(prefix="fleetbench-lock-") as scratch:
        inputs, overrides = Path(scratch, "requirements.in"), Path(scratch, "overrides.in")
        inputs.write_text("".join(f"{line}\n" for line in want.requirements), "utf-8")
        overrides.write_text("".join(f"{line}\n" for line in want.overrides), "utf-8")
        argv = command(want, inputs, overrides, here if here is not None and here.is_dir() else None)
        try:
            done = subprocess.run(
                argv,
                env={**_environment(), **want.env},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                cwd=scratch,
            )
        except FileNotFoundError as exc:
            raise NotPossible(
                f"cannot make the lock {want.file_name}: uv is not installed on the controller",
                next_step="pip install uv, or put a lock of that name into inventory/locks",
            ) from exc
        except subprocess.TimeoutExpired as exc:
            raise NotPossible(
                f"cannot make the lock {want.file_name}: no end after {timeout_s:g} s",
                next_step="is the index reachable from the controller? (proxy =, index_url =)",
            ) from exc
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise _refusal(want, said)
    text = _header(want) + done.stdout.decode("utf-8", "replace")
    check_text(text, want.file_name)
    return text


def command(
    want: Resolution, inputs: Path, overrides: Path, wheelhouse: Path | None = None
) -> tuple[str, ...]:
    """Return the uv command line that resolves.

    PyTorch's index carries old copies of common packages, so all indexes are compared by version
    (`unsafe-best-match`) as pip does; uv's default would take those copies.
    """
    argv = [
        *(_uv(), "pip", "compile", str(inputs), "--quiet", "--no-header", "--no-annotate"),
        # Without --python uv asks every interpreter on PATH first, shims included; that took ten seconds.
        *("--python", sys.executable, "--python-version", want.python, "--python-platform", want.platform),
        *("--index-strategy", "unsafe-best-match"),
    ]
    for package in want.only_binary:
        argv += ["--only-binary", package]
    if want.overrides:
        argv += ["--override", str(overrides)]
    if wheelhouse is not None:
        return (*argv, "--no-index", "--find-links", str(wheelhouse))
    if want.index_url:
        argv += ["--index-url", want.index_url]
    for url in want.extra_index_urls:
        argv += ["--extra-index-url", url]
    for place in want.find_links:
        argv += ["--find-links", place]
    return tuple(argv)


def check_text(text: str, where: str) -> None:
    """Raise Unreadable when a lock holds a line that pins nothing: it would mean other packages tomorrow."""
    lines = text.splitlines()
    for position, line in enumerate(lines, start=1):
        plain = line.split(" #")[0].rstrip()
        if not plain or plain.lstrip().startswith(("#", "--hash=")):
            continue
        if _LINE.fullmatch(plain) is None:
            raise Unreadable(
                f"{where} line {position} pins no version: {one_line(line, 80)}",
                next_step="delete the file to have it made again",
            )
    if not any(_LINE.fullmatch(line.split(" #")[0].rstrip()) for line in lines):
        raise Unreadable(f"{where} names no package", next_step="delete the file to have it made again")


@cache
def uv_program() -> bytes:
    """Return uv's own program for hosts that have none, empty when the controller has none either."""
    found = shutil.which(_uv())
    return Path(found).read_bytes() if found else b""


def _uv() -> str:
    """uv beside the running Python (our own dependency), else the one on PATH."""
    own = Path(sysconfig.get_path("scripts")) / "uv"
    return str(own) if own.is_file() else "uv"


def _environment() -> dict[str, str]:
    """Environment of uv: the caller's, without colours; the system's certificates where pip has some."""
    env = {name: value for name, value in os.environ.items() if name not in ("UV_OVERRIDE", "UV_CONSTRAINT")}
    certificates = env.get("PIP_CERT") or env.get("REQUESTS_CA_BUNDLE")
    if certificates and "SSL_CERT_FILE" not in env:
        env["SSL_CERT_FILE"] = certificates
    return {**env, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}


def _refusal(want: Resolution, said: str) -> NotPossible:
    lines = [line.strip(" ×╰─▶│") for line in said.splitlines() if line.strip(" ×╰─▶│")]
    unreachable = re.search(r"dns error|failed to lookup|error sending request|Connection refused", said)
    certificate = re.search(r"certificate|UnknownIssuer", said)
    if certificate:
        step = "set SSL_CERT_FILE (or PIP_CERT) to the site's certificate bundle"
    elif unreachable:
        step = "give the controller an index (index_url =, proxy =), or copy the lock from one that has it"
    else:
        step = "correct the build in the inventory: version, extras, overrides, indexes"
    decisive = [line for line in lines if re.match(r"(cause|Because|And because|hint)", line)] or lines
    shown = [line for line in decisive if not line.startswith("hint")] or decisive
    return NotPossible(
        f"no set of packages for {' '.join(want.requirements)} (Python {want.python}, {want.platform})",
        cause=" ".join(shown[-3:] if unreachable else shown[:3]),
        next_step=step,
    )


def _header(want: Resolution) -> str:
    return (
        f"# fleetbench lock of {want.name} for Python {want.python}, {want.platform}.\n"
        "# Commit this file: hosts with this build get exactly these packages.\n"
    )


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as exc:
        raise NotPossible(
            f"cannot write the lock {path}", cause=str(exc), next_step=f"make {path.parent} writable"
        ) from exc

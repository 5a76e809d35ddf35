"""Running this machine's own tools: an argument list in, text out, one error type."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleetbench.lab.settings import LabError
from fleetbench.whole_file import write_whole

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float = 120,
    env: Mapping[str, str] | None = None,
    accept: Sequence[int] = (0,),
) -> str:
    """Run a command and return its standard output; LabError with its last line when it fails."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=timeout_s,
            env={"PATH": PATH, "LC_ALL": "C.UTF-8"} if env is None else dict(env),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{argv[0]} could not be run to its end", cause=str(error)) from error
    if done.returncode not in accept:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LabError(
            f"{' '.join(argv[:4])} ended with status {done.returncode}", cause=said[-1] if said else ""
        )
    return done.stdout


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a small file whole, with its directories, never half and never wider than `mode`."""
    write_whole(path, text.encode(), mode=mode)


def mounts(below: Path) -> tuple[Path, ...]:
    """Return the mount points at or below a directory, the deepest first."""
    found = []
    for line in (
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    ):
        point = Path(line.split(" ")[4].replace("\\040", " "))
        if point == below or below in point.parents:
            found.append(point)
    return tuple(sorted(found, key=lambda point: len(point.parts), reverse=True))


def unmount(below: Path) -> None:
    """Detach every mount at or below a directory."""
    for point in mounts(below):
        run(["umount", "--lazy", str(point)])


def remove_tree(directory: Path) -> None:
    """Remove a directory and what is in it, but never through a mount into another file system."""
    unmount(directory)
    if directory.exists():
        shutil.rmtree(directory)

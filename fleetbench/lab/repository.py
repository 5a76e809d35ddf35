"""The dnf repository of the lab: `python3.12` and its companions, made from this machine's CPython."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fleetbench.lab import interpreter as interpreters
from fleetbench.lab import libraries as libraries_module
from fleetbench.lab import spec, stage
from fleetbench.lab.commands import remove_tree, run, write
from fleetbench.lab.interpreter import Interpreter
from fleetbench.lab.libraries import Libraries

Progress = Callable[[str], None]


def key(found: Interpreter, old: Interpreter | None) -> str:
    """Return what identifies a repository: the recipe's own text and the interpreters that go in."""
    digest = hashlib.sha256()
    for module in (spec, stage, libraries_module):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    for one in filter(None, (found, old)):
        digest.update(f"{one.version} {one.executable} {one.has_headers} {one.has_wheels}".encode())
    return digest.hexdigest()[:12]


def _build_rpm(text: str, name: str, work: Path, packages: Path) -> None:
    file = work / f"{name}.spec"
    write(file, text)
    run(
        [
            *(
                "rpmbuild",
                "-bb",
                "--quiet",
                "--define",
                f"_topdir {work}/top",
                "--define",
                f"_dbpath {work}/db",
            ),
            *("--define", f"_rpmdir {packages}", "--define", f"_tmppath {work}"),
            *("--define", "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", str(file)),
        ],
        timeout_s=600,
    )


def _package(found: Interpreter, libraries: Libraries, work: Path, packages: Path) -> None:
    directory = work / f"stage-{found.name}"
    present = stage.stage(found, libraries, directory)
    _build_rpm(spec.python(found, directory, present), found.name, work, packages)
    shutil.rmtree(directory)


def build(images: Path, progress: Progress) -> tuple[Path, tuple[str, ...]]:
    """Make the repository unless it is there already.

    Returns its directory, and the distribution packages that the interpreters in it need on a host. Its
    `base/` holds packages that belong into the base image rather than into the repository.
    """
    found, old = interpreters.find(), interpreters.find_old()
    target = images / f"repository-{key(found, old)}"
    required = target / "requires.txt"
    if required.exists():
        return target, tuple(required.read_text(encoding="utf-8").split())
    progress(f"repository: packaging {found.name} from {found.executable} ({found.version})")
    images.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=images, prefix="build-"))
    try:
        result = work / "repository"
        (result / "Packages").mkdir(parents=True)
        (result / "base").mkdir()
        needs = libraries_module.needed_by(found)
        _package(found, needs, work, result / "Packages")
        _build_rpm(spec.ROCKY_RELEASE, "rocky-release", work, result / "Packages")
        run(["createrepo_c", "--quiet", "--no-database", "--excludes", "base/*", str(result)])
        packages = set(needs.packages)
        if old is not None:
            needs = libraries_module.needed_by(old)
            _package(old, needs, work, result / "base")
            packages |= set(needs.packages)
            for unused in (*(result / "base").glob("*-devel-*"), *(result / "base").glob("*-pip-[0-9]*")):
                unused.unlink()
        write(result / "requires.txt", "\n".join(sorted(packages)) + "\n")
        write(result / "python-name.txt", found.name + "\n")
        result.chmod(0o755)
        remove_tree(target)
        result.rename(target)
    finally:
        remove_tree(work)
    return target, tuple(sorted(packages))

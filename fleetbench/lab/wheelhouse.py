"""The packages of vLLM's CPU build for lab hosts, which have no internet: fetched once, kept, shared.

`<cache>/wheels/<key>/` holds the wheels; the key is made from all that decides which they are, so that
another fleetbench with other pins has another directory. `<cache>/uv/<key>/` is a cache of uv that all hosts
share: there the wheels are unpacked and compiled once, and a host's venv is made of links into it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from fleetbench.errors import UsageError, one_line
from fleetbench.lab import download, unpack, wheels
from fleetbench.lab.commands import write
from fleetbench.lab.host import Bind
from fleetbench.lab.interpreter import first
from fleetbench.lab.inventory import Value, toml
from fleetbench.lab.lock import locked
from fleetbench.lab.repository import Progress
from fleetbench.lab.settings import LabError
from fleetbench.lab.wheels import CpuBuild, Wheel

WHEELS_ON_HOST = "/srv/wheels"
CACHE_ON_HOST = "/srv/uv"
_MANIFEST = "manifest.json"
_GLIBC = "manylinux_2_31"  # the newest that one of the packages asks for (llguidance); Debian 11 has it
_UNPACKED = 1.9  # bytes on disk for each byte of wheel, as uv unpacks them
_SPARE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheelhouse:
    """What a lab needs so that its hosts can be provisioned with real vLLM.

    Attributes:
        directory: the wheels, on this machine; a resolver on the controller looks here.
        uv_cache: the cache that hosts share; hosts write to it.
        build_toml: text of `[builds.cpu]` for the lab's inventory.
        host_defaults: keys for each host of that inventory: build, env, install_env.
    """

    directory: Path
    uv_cache: Path
    build_toml: str
    host_defaults: Mapping[str, Value]

    @property
    def binds(self) -> tuple[Bind, ...]:
        """Directories that lab hosts see; the key stays part of the path, so pins can change below them."""
        return (
            Bind(source=str(self.directory.parent), target=WHEELS_ON_HOST),
            Bind(source=str(self.uv_cache), target=CACHE_ON_HOST, read_only=False),
        )


def prepare(cache: Path, *, python_version: str, progress: Progress) -> Wheelhouse:
    """Make sure that the wheels for Python `python_version` ("3.12") are in `cache`, and describe them.

    The second call does nothing but look. A call that was interrupted goes on where it stopped.

    Raises:
        LabError: the index does not answer, a file is not to be had, or the disk is too small.
    """
    if re.fullmatch(r"3\.\d{1,2}", python_version) is None:
        raise UsageError(f"not a version of Python: {python_version!r}", next_step="use for example 3.12")
    build = wheels.cpu_build()
    torch = wheels.cpu_torch(build, python_version)
    target = f"{platform.machine()}-{_GLIBC}"
    name = key(build, python=python_version, target=target, torch=torch)
    directory = cache / "wheels" / name
    try:
        with locked(cache / "wheels" / "lock", progress):
            if not _complete(directory):
                _fill(directory, build, python_version, target, torch, progress)
            uv_cache = cache / "uv" / name
            _share(uv_cache)
            _unpack(directory, uv_cache, python_version, progress)
    except OSError as error:
        raise LabError(
            f"cannot keep packages in {cache}",
            cause=str(error),
            next_step="set FLEETBENCH_CACHE to another place",
        ) from error
    return _describe(build, directory, uv_cache)


def key(build: CpuBuild, *, python: str, target: str, torch: Path | None) -> str:
    """Return a name for the set of wheels: the same pins, Python and platform give the same."""
    parts = (
        *(build.requirement, *build.overrides, build.constraints, python, target),
        torch.name if torch is not None else "",
    )
    return f"cp{python.replace('.', '')}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


def on_controller(path: str, cache: Path) -> Path | None:
    """Given a wheelhouse as a lab host names it, return it on this machine; None: not one of ours."""
    name = path.removeprefix(f"{WHEELS_ON_HOST}/")
    if name == path or re.fullmatch(r"cp3\d{1,2}-[0-9a-f]{12}", name) is None:
        return None
    directory = cache / "wheels" / name
    return directory if directory.is_dir() else None


def _describe(build: CpuBuild, directory: Path, uv_cache: Path) -> Wheelhouse:
    table: dict[str, Value] = {**build.table, "wheelhouse": f"{WHEELS_ON_HOST}/{directory.name}"}
    lines = "".join(f"{name} = {toml(value)}\n" for name, value in table.items())
    defaults: dict[str, Value] = {
        "build": "cpu",
        "env": dict(build.env),
        "install_env": dict(build.install_env),
    }
    return Wheelhouse(
        directory=directory,
        uv_cache=uv_cache,
        build_toml=f"[builds.cpu]\n{lines}",
        host_defaults=MappingProxyType(defaults),
    )


def _complete(directory: Path) -> bool:
    wanted = _manifest(directory)
    return bool(wanted) and all(download.present(wheel, directory) for wheel in wanted)


def _fill(
    directory: Path, build: CpuBuild, python: str, target: str, torch: Path | None, progress: Progress
) -> None:
    """Fetch into a directory beside the final one, which takes its name once all is there."""
    partial = directory.with_name(f".{directory.name}.partial")
    if directory.exists():  # something was deleted from it
        shutil.rmtree(partial, ignore_errors=True)
        directory.replace(partial)
    wanted = _manifest(partial)
    if not wanted:
        progress(f"packages: resolving {build.requirement} for Python {python}")
        wanted = wheels.resolve(build, python=python, platform=target, torch=torch)
        write(partial / _MANIFEST, json.dumps([asdict(wheel) for wheel in wanted], indent=1) + "\n")
    _refuse_small_disk(wanted, partial)
    started = time.monotonic()
    total = sum(wheel.size for wheel in wanted) / 1e9
    progress(f"packages: {len(wanted)} wheels, {total:.1f} GB, needed once")
    download.fetch(wanted, partial, progress)
    partial.replace(directory)
    progress(f"packages: ready after {time.monotonic() - started:.0f} s")


def _unpack(directory: Path, uv_cache: Path, python: str, progress: Progress) -> None:
    """Unpack and compile for all hosts; where that is not possible, the hosts do it, each for itself."""
    interpreter = first((python,))
    if interpreter is None or unpack.done(uv_cache, interpreter):
        return
    started = time.monotonic()
    progress("packages: unpacking and compiling for all hosts, needed once (about a minute)")
    try:
        unpack.unpack(directory, uv_cache, _manifest(directory), interpreter)
    except LabError as error:
        progress(f"packages: the hosts unpack them themselves ({one_line(error.cause or error.what)})")
        return
    _share(uv_cache)
    progress(f"packages: unpacked after {time.monotonic() - started:.0f} s")


def _manifest(directory: Path) -> tuple[Wheel, ...]:
    """Return what belongs into a directory; nothing when that is not known."""
    file = directory / _MANIFEST
    if not file.is_file():
        return ()
    return tuple(Wheel(**entry) for entry in json.loads(file.read_text("utf-8")))


def _refuse_small_disk(wanted: Sequence[Wheel], directory: Path) -> None:
    missing = sum(wheel.size for wheel in wanted if not download.present(wheel, directory))
    need = missing + sum(wheel.size for wheel in wanted) * _UNPACKED + _SPARE_BYTES
    free = shutil.disk_usage(directory).free
    if free < need:
        raise LabError(
            f"the packages of vLLM need {need / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free",
            cause=f"they go to {directory.parent}",
            next_step="free some, or set FLEETBENCH_CACHE to a larger disk",
        )


def _share(uv_cache: Path) -> None:
    """Let every host write: installers run as a service user, whose number may differ from host to host.

    On this machine nobody but the owner gets as far as here. What hosts wrote is opened without following
    links; below `archive-*` are unpacked packages, which are only ever read.
    """
    uv_cache.mkdir(parents=True, exist_ok=True)
    uv_cache.parent.chmod(0o700)
    for _, directories, files, opened in os.fwalk(uv_cache):
        os.fchmod(opened, 0o777)
        archives = [name for name in directories if name.startswith("archive-")]
        for name in archives:
            directories.remove(name)
            _allow(name, opened, 0o777)
        for name in files:
            _allow(name, opened, 0o666)


def _allow(name: str, within: int, mode: int) -> None:
    """Set the mode of a file or directory; links are left alone."""
    if stat.S_ISLNK(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode):
        return
    entry = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
    try:
        os.fchmod(entry, mode)
    finally:
        os.close(entry)

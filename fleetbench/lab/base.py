"""The base image: a directory tree that every host's file system is a layer on top of."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fleetbench.lab import repository, sources
from fleetbench.lab.commands import PATH, remove_tree, run
from fleetbench.lab.lock import locked
from fleetbench.lab.repository import Progress
from fleetbench.lab.settings import LabError, Settings
from fleetbench.lab.sources import Mirror

RECIPE = Path(__file__).with_name("base.sh")
UNUSED_DAYS = 14

# Its own mounts and process ids, and ended by the kernel when this process ends, however that happens.
ALONE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
)

# libnuma1 and libgomp1 are what vLLM's CPU build loads; libfaketime serves clock-skew tests.
PACKAGES = (
    *(
        "systemd",
        "systemd-sysv",
        "dbus",
        "libpam-systemd",
        "openssh-server",
        "sudo",
        "ca-certificates",
        "tzdata",
    ),
    *("iproute2", "iputils-ping", "nftables", "procps", "dnf", "rpm", "curl"),
    *("libnuma1", "libgomp1", "libfaketime"),
    "nginx",  # taken out again and offered to hosts as a package; the libraries that it needs stay
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What hosts boot from: the tree, the dnf repository, and the command name of its Python."""

    tree: Path
    repository: Path
    python: str


def source_line(mirror: Mirror) -> str:
    """Return the sources.list line for mmdebstrap; empty when it shall use its own default."""
    return f"deb {mirror.url} {mirror.suite} {' '.join(mirror.components)}" if mirror.url else ""


def key(recipe: bytes, packages: tuple[str, ...], mirror: Mirror, repository_name: str) -> str:
    """Return what identifies a base tree: a changed recipe or input gives another key, hence another tree."""
    digest = hashlib.sha256(recipe)
    for part in (*packages, mirror.suite, *mirror.components, repository_name):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:12]


def ensure(settings: Settings, progress: Progress) -> Image:
    """Return the base image, building it when there is none for the present recipe (one to two minutes).

    Image and hosts' disks hold set-user-ID programs, those of a host whatever its root put there: on this
    machine nobody but root gets as far as them, wherever the cache is.
    """
    images = settings.images
    with locked(images / "lock", progress):
        images.parent.chmod(0o700)
        packages_repository, needed = repository.build(images, progress)
        mirror = sources.read()
        packages = tuple(sorted({*PACKAGES, *needed}))
        tree = images / f"base-{key(RECIPE.read_bytes(), packages, mirror, packages_repository.name)}"
        if not tree.exists():
            started = time.monotonic()
            progress("base image: building, needed once (one to two minutes)")
            _build(tree, packages_repository, packages, mirror, progress)
            progress(f"base image: ready after {time.monotonic() - started:.0f} s")
        for used in (tree, packages_repository):
            os.utime(used)
        _forget_unused(images, keep=(tree, packages_repository))
    python = (packages_repository / "python-name.txt").read_text(encoding="utf-8").strip()
    return Image(tree=tree, repository=packages_repository, python=python)


def _apt_proxy() -> str:
    """Return this machine's apt proxy as an option for the new tree's apt, or nothing."""
    answer = run(["apt-config", "shell", "PROXY", "Acquire::http::Proxy"]).strip()
    proxy = answer.removeprefix("PROXY='").removesuffix("'")
    return f'Acquire::http::Proxy "{proxy}"' if proxy and proxy != answer else ""


def _build(
    tree: Path, packages_repository: Path, packages: tuple[str, ...], mirror: Mirror, progress: Progress
) -> None:
    downloads = tree.parent / "downloads"
    downloads.mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=tree.parent, prefix="build-"))
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    environment = {
        **proxies,
        "PATH": PATH,
        "LC_ALL": "C.UTF-8",
        "TREE": str(work / "tree"),
        "REPOSITORY": str(packages_repository),
        "DOWNLOADS": str(downloads),
        "SUITE": mirror.suite,
        "SOURCE": source_line(mirror),
        "PACKAGES": ",".join(packages),
        "PROXY": _apt_proxy(),
    }
    log = tree.parent / "base.log"
    try:
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [*ALONE, "bash", str(RECIPE)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
            try:
                for line in process.stdout or ():
                    if line.startswith("stage: "):
                        progress(f"base image: {line.removeprefix('stage: ').strip()}")
                status = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if status != 0:
            said = [
                line
                for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
                if line.strip()
            ]
            raise LabError(
                "the base image could not be built",
                cause=said[-1] if said else f"status {status}",
                next_step=f"read {log}",
            )
        (work / "tree").rename(tree)
    finally:
        remove_tree(work)


def _forget_unused(images: Path, keep: tuple[Path, ...]) -> None:
    """Remove what no host uses and nobody asked for in two weeks, and broken builds."""
    mounted = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    for old in (*images.glob("base-*"), *images.glob("repository-*"), *images.glob("build-*")):
        if old in keep or not old.is_dir() or str(old) in mounted:
            continue
        if old.name.startswith("build-") or time.time() - old.stat().st_mtime > UNUSED_DAYS * 86400:
            remove_tree(old)


def size_mib(image: Image) -> int:
    """Return the size of the tree on disk in MiB."""
    return int(run(["du", "-sm", str(image.tree)]).split()[0])


def free_mib(directory: Path) -> int:
    """Return the free space in MiB of the file system that holds a directory."""
    return shutil.disk_usage(directory).free // 2**20

"""What the lab needs of this machine, and the one command that gets what is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from fleetbench.lab.commands import PATH, run
from fleetbench.lab.interpreter import Interpreter, debian_packages, find
from fleetbench.lab.settings import LabError

# A program that each distribution package brings.
PROGRAMS: Mapping[str, str] = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "rpm": "rpmbuild",
    "createrepo-c": "createrepo_c",
    "nftables": "nft",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
}
MINIMUM_KERNEL = (5, 14)  # first with cgroup.kill, which is how a host's power is cut
MINIMUM_SYSTEMD = 250  # first whose nspawn knows --suppress-sync


def missing_packages(interpreter: Interpreter | None = None) -> tuple[str, ...]:
    """Return the distribution packages to install; empty when all are there."""
    absent = [package for package, program in PROGRAMS.items() if shutil.which(program, path=PATH) is None]
    return (*absent, *debian_packages(interpreter if interpreter is not None else find()))


def obstacle() -> str:
    """Return in one line what keeps this machine from running a lab for good; empty when nothing does."""
    if platform.system() != "Linux" or not Path("/etc/debian_version").exists():
        return "the lab runs on Debian and Ubuntu only"
    if os.geteuid() != 0:
        return "the lab needs root: it mounts file systems and makes network namespaces"
    release = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    if release < MINIMUM_KERNEL:
        return f"the lab needs Linux 5.14 or newer, this is {platform.release()}"
    if not any(os.access(path, os.W_OK) for path in control_group_roots()):
        return "the lab needs a writable cgroup2 hierarchy below /sys/fs/cgroup"
    return ""


def control_group_roots() -> tuple[Path, ...]:
    """Return the mounted hierarchies that hold processes: cgroup2 first, then systemd's own v1 one if any."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return (root,)
    return tuple(path for path in (root / "unified", root / "systemd") if (path / "cgroup.procs").exists())


def missing() -> str:
    """Return in one line what is missing and the command that mends it; empty when the lab can run."""
    reason = obstacle()
    if reason:
        return reason
    packages = missing_packages()
    if packages:
        return f"the lab needs: {install_command(packages)}"
    version = re.search(r"systemd (\d+)", run(["systemd-nspawn", "--version"]))
    if version is None or int(version[1]) < MINIMUM_SYSTEMD:
        return f"the lab needs systemd-nspawn {MINIMUM_SYSTEMD} or newer"
    return ""


def install_command(packages: tuple[str, ...]) -> str:
    """Return the command that installs distribution packages."""
    return "apt-get install -y --no-install-recommends " + " ".join(packages)


def require() -> None:
    """Raise LabError when the lab cannot run here."""
    reason = missing()
    if reason:
        what, _, command = reason.partition("the lab needs: ")
        raise LabError(what or "packages are missing on this machine", next_step=command)


def install_requirements() -> tuple[str, ...]:
    """Install what is missing from the distribution (as root); returns the packages installed."""
    reason = obstacle()
    if reason:
        raise LabError(reason)
    packages = missing_packages()
    if packages:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        run(["apt-get", "-q", "update"], env=env, timeout_s=600)
        run(install_command(packages).split(), env=env, timeout_s=1200)
    return packages

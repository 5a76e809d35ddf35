"""Says no before anything is installed: can this build of vLLM run on this host, and what would?"""

from __future__ import annotations

import re

from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts, Missing, Os
from fleetbench.model import Build, Device, Host
from fleetbench.release_needs import Problem, interpreter, known_release, not_from_pypi, unknown
from fleetbench.releases import table

# Without these a plan would want to create what is there already.
_NEEDED_SECTIONS = ("os", "pythons", "venvs", "files", "packages", "accounts", "machine")


def check(build: Build, facts: HostFacts, host: Host) -> tuple[Problem, ...]:
    """Return everything that stands against a build on a host, refusals first.

    A release that is not in the table is a remark, never a refusal: it may well work.
    """
    problems = [*_readable(facts)]
    if not problems:
        problems += [*_system(facts, host), *_gpus(build, facts, host), *_room(build, facts, host)]
        release = table().release(build)
        if build.package != "vllm" or build.device is not Device.CUDA:
            problems += not_from_pypi(build, facts, host)
        elif release is None:
            problems += unknown(build)
        else:
            problems += known_release(release, build, facts, host)
    return tuple(sorted(problems, key=lambda problem: not problem.refuses))


def refuse(problems: tuple[Problem, ...], host: Host) -> None:
    """Raise NotPossible when one of the problems refuses; all refusals are in its cause."""
    refusals = [problem for problem in problems if problem.refuses]
    if refusals:
        first = refusals[0]
        raise NotPossible(
            first.what,
            host=host.name,
            cause="; also: ".join(problem.what for problem in refusals[1:]),
            next_step=first.next_step,
        )


def _readable(facts: HostFacts) -> list[Problem]:
    missing = [f"{name}: {facts.missing[name]}" for name in _NEEDED_SECTIONS if name in facts.missing]
    if missing:
        return [
            Problem(
                what=f"facts cannot be read: {'; '.join(missing)}",
                next_step="mend that on the host; nothing is planned on facts that are not there",
            )
        ]
    if not facts.root:
        return [
            Problem(
                what="no root rights",
                next_step="allow the login `sudo -n` without a password (NOPASSWD in /etc/sudoers.d)",
            )
        ]
    return []


def _system(facts: HostFacts, host: Host) -> list[Problem]:
    problems = []
    system = facts.os
    python = interpreter(facts, host.python)
    if python is None and not re.fullmatch(r"python3\.\d{1,2}", host.python):
        problems.append(
            Problem(
                what=f"{host.python} is not there, and its name is no package's",
                next_step='set python = "python3.12" for this host',
            )
        )
    elif python is None and isinstance(system, Os):
        problems += _without_python(system, host)
    enforcing = facts.selinux == "Enforcing"
    if enforcing and host.prefix.startswith(("/home/", "/root/")):
        problems.append(
            Problem(
                what=f"SELinux does not let systemd run programs below {host.prefix} (user_home_t)",
                next_step='set prefix = "/opt/vllm" for this host',
            )
        )
    if python is not None and python.path.startswith(("/home/", "/root/")) and host.user != "root":
        problems.append(
            Problem(
                what=f"{host.python} is {python.path}: a service cannot use a Python in a home directory",
                next_step=f"install the distribution's {host.python}, or set python = for this host",
                refuses=enforcing or python.path.startswith("/root/"),
            )
        )
    return problems


def _without_python(system: Os, host: Host) -> list[Problem]:
    minor = host.python.removeprefix("python")
    if not system.package_manager:
        return [
            Problem(
                what=f"{host.python} is not there, and {system.name} has neither dnf nor apt",
                next_step=f"install {host.python} with its headers and venv module, then run this again",
            )
        ]
    offered = table().pythons_of(system.id, system.version)
    if offered and minor not in offered:
        return [
            Problem(
                what=f"{system.name} itself offers Python {', '.join(offered)}, not {host.python}",
                next_step=f'set python = "python{offered[-1]}", or add a repository that has {host.python}',
                refuses=False,
            )
        ]
    return []


def _gpus(build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    if build.device is Device.CPU:
        return []
    if isinstance(facts.gpus, Missing) or not facts.gpus:
        reason = facts.gpus.reason if isinstance(facts.gpus, Missing) else "the host has none"
        return [
            Problem(
                what=f"a {build.device.value} build needs a GPU, and none can be seen: {reason}",
                next_step='install the GPU driver, or give this host a build with device = "cpu"',
            )
        ]
    problems = []
    vendor = "nvidia" if build.device is Device.CUDA else "amd"
    strangers = sorted({gpu.name for gpu in facts.gpus if gpu.vendor != vendor})
    if strangers:
        problems.append(
            Problem(
                what=f"a {build.device.value} build does not run on {', '.join(strangers)}",
                next_step=f'set device = "{"rocm" if vendor == "nvidia" else "cuda"}" and its package',
            )
        )
    others = sorted({gpu.name for gpu in facts.gpus if host.gpu.lower() not in gpu.name.lower()})
    if others:
        problems.append(
            Problem(
                what=f"the inventory says {host.gpu}, the host has {', '.join(others)}",
                next_step=f"correct gpu = for {host.name} in the inventory, or the host name",
            )
        )
    if host.gpu_count is not None and len(facts.gpus) != host.gpu_count:
        problems.append(
            Problem(
                what=f"the inventory says {host.gpu_count} GPUs, the host shows {len(facts.gpus)}",
                next_step="a GPU has fallen off the bus (dmesg | grep -i xid), or gpu_count = is wrong",
            )
        )
    return problems


def _room(build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    venvs = {} if isinstance(facts.venvs, Missing) else facts.venvs
    there = venvs.get(host.venv)
    if isinstance(facts.disks, Missing) or (there is not None and there.complete):
        return []
    disk = next((disk for disk in facts.disks if disk.path == host.prefix), None)
    if disk is None or disk.free_mib >= build.disk_mib:
        return []
    return [
        Problem(
            what=f"{host.prefix} has {disk.free_mib:,} MiB free, the venv needs {build.disk_mib:,} MiB",
            next_step=f"free some (du -xm -d2 {host.prefix} | sort -n | tail), or correct disk_mib",
        )
    ]

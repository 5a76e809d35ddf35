"""Says no before anything is installed: can this build of vLLM run on this host, and what would?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fleetbench.accelerators import capabilities, nvidia_gpus, torch_cuda
from fleetbench.errors import NotPossible
from fleetbench.facts.values import HostFacts, Missing, Os, Python
from fleetbench.model import Build, Device, Host
from fleetbench.releases import Release, number, table

# Without these a plan would want to create what is there already.
_NEEDED_SECTIONS = ("os", "pythons", "venvs", "files", "packages", "accounts", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a build cannot work on a host, and what would. With `refuses` false it is only a remark."""

    what: str
    next_step: str = ""
    refuses: bool = True


def check(build: Build, facts: HostFacts, host: Host) -> tuple[Problem, ...]:
    """Return everything that stands against a build on a host, refusals first.

    A release that is not in the table is a remark, never a refusal: it may well work.
    """
    problems = [*_readable(facts)]
    if not problems:
        problems += [*_system(facts, host), *_gpus(build, facts, host), *_room(build, facts, host)]
        release = table().release(build)
        if build.package != "vllm" or build.device is not Device.CUDA:
            problems += _not_from_pypi(build, facts, host)
        elif release is None:
            problems += _unknown(build)
        else:
            problems += _release(release, build, facts, host)
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


def _not_from_pypi(build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    """CPU and ROCm wheels follow vLLM's Python range; everything else about them is unknown here."""
    same = table().release(replace(build, package="vllm", version=build.version.partition("+")[0]))
    return [] if same is None else _against_python(same, facts, host)


def _unknown(build: Build) -> list[Problem]:
    newest = table().releases[-1].version
    return [
        Problem(
            what=f"vllm {build.version} is not in the table (newest there: {newest}): its needs are unknown",
            next_step="its own requirements decide; a failure shows in the installer's output",
            refuses=False,
        )
    ]


def _release(release: Release, build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    problems = _against(release, build, facts, host)
    fitting = [
        row.version
        for row in table().releases
        if not [p for p in _against(row, replace(build, version=row.version), facts, host) if p.refuses]
    ]
    choice = f"choose vllm {fitting[-1]}" if fitting else ""
    return [
        replace(problem, next_step=", or ".join(filter(None, (choice, problem.next_step))))
        if problem.refuses
        else problem
        for problem in problems
    ]


def _against(release: Release, build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    """What stands against one release here; `next_step` names the way that keeps the release."""
    problems = _against_system(release, facts, host)
    if build.device is Device.CUDA:
        problems += _against_gpus(release, facts)
    return problems


def _against_system(release: Release, facts: HostFacts, host: Host) -> list[Problem]:
    problems = []
    system = facts.os
    if isinstance(system, Os):
        if system.architecture not in ("", "x86_64"):
            problems.append(
                Problem(
                    what=f"the table is for x86_64, this is {system.architecture}: its needs are unknown",
                    refuses=False,
                )
            )
        elif system.glibc and number(system.glibc) < number(release.glibc):
            problems.append(
                Problem(
                    what=f"{system.name} has glibc {system.glibc}, the wheel of vllm {release.version} needs"
                    f" {release.glibc}",
                    next_step=f"a distribution with glibc >= {release.glibc}",
                )
            )
    return [*problems, *_against_python(release, facts, host)]


def _against_python(release: Release, facts: HostFacts, host: Host) -> list[Problem]:
    python = interpreter(facts, host.python)
    version = number(python.version if python else host.python)[:2]
    first, last = release.python
    if version and not number(first) <= version <= number(last):
        return [
            Problem(
                what=f"vllm {release.version} needs Python {first} to {last}, the host uses {host.python}",
                next_step=f'set python = "python{_usual(first, last)}"',
            )
        ]
    return []


def _against_gpus(release: Release, facts: HostFacts) -> list[Problem]:
    problems = []
    needed = torch_cuda(release, facts)
    least = table().driver_for(needed)
    for driver in sorted({gpu.driver for gpu in nvidia_gpus(facts) if number(gpu.driver)}):
        if not least or number(driver) >= number(least):
            continue
        newest = table().newest_cuda(driver)
        runs = f"runs CUDA <= {newest}.x" if newest else "is older than every CUDA in the table"
        wheel = f'version = "{release.version}+cu129" from vLLM\'s GitHub releases (find_links)'
        source = f"vllm {release.version} from PyPI" if release.cuda else f"vllm {release.version}"
        problems.append(
            Problem(
                what=f"driver {driver} {runs}; {source} is CUDA {needed.partition('.')[0]}",
                next_step=f"driver >= {least}"
                + (f", or {wheel}" if release.cuda and newest and needed.startswith("13") else ""),
            )
        )
    weak = [text for text in capabilities(facts) if number(text) < number(release.min_capability)]
    if weak:
        names = sorted({gpu.name for gpu in nvidia_gpus(facts) if gpu.compute_capability in weak})
        problems.append(
            Problem(
                what=f"{', '.join(names)} has compute capability {weak[0]}, vllm {release.version} needs"
                f" {release.min_capability}",
            )
        )
    return problems


def interpreter(facts: HostFacts, name: str) -> Python | None:
    """Return the interpreter of that name on PATH, None when it is not there."""
    pythons = () if isinstance(facts.pythons, Missing) else facts.pythons
    return next((python for python in pythons if name in (python.name, python.path)), None)


def _usual(first: str, last: str) -> str:
    """The Python to recommend out of a range: 3.12, which every distribution of the last years has."""
    return "3.12" if number(first) <= (3, 12) <= number(last) else last

"""What stands against one vLLM release on one host, by the table, and which release would do instead."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetbench.accelerators import capabilities, nvidia_gpus, torch_cuda
from fleetbench.facts.values import HostFacts, Missing, Os, Python
from fleetbench.model import Build, Device, Host
from fleetbench.releases import Release, number, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a build cannot work on a host, and what would. With `refuses` false it is only a remark."""

    what: str
    next_step: str = ""
    refuses: bool = True


def not_from_pypi(build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    """CPU and ROCm wheels follow vLLM's Python range; everything else about them is unknown here."""
    same = table().release(replace(build, package="vllm", version=build.version.partition("+")[0]))
    return [] if same is None else _against_python(same, facts, host)


def unknown(build: Build) -> list[Problem]:
    """A release that is not in the table: said, never refused."""
    newest = table().releases[-1].version
    return [
        Problem(
            what=f"vllm {build.version} is not in the table (newest there: {newest}): its needs are unknown",
            next_step="its own requirements decide; a failure shows in the installer's output",
            refuses=False,
        )
    ]


def known_release(release: Release, build: Build, facts: HostFacts, host: Host) -> list[Problem]:
    """What stands against a release of the table, and the newest one that nothing stands against here."""
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

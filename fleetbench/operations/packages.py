"""Distribution packages: Python with headers and venv, and the libraries that a build needs beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from fleetbench.errors import NotPossible
from fleetbench.facts.values import File, HostFacts, Missing, Os, Python
from fleetbench.model import Device
from fleetbench.steps import Operation, Outcome, Run, Step

# Where libnuma lies when something else than the package put it there.
LIBNUMA_PATHS = ("/usr/lib64/libnuma.so.1", "/usr/lib/x86_64-linux-gnu/libnuma.so.1")
_LIBNUMA = {"dnf": "numactl-libs", "apt": "libnuma1"}
_COMPILERS = {"dnf": ("gcc",), "apt": ("gcc",)}
NGINX = "nginx"
INSTALL_UNIT = "fleetbench-packages"
# Configuration questions would wait for an answer that never comes; a held lock (unattended-upgrades after a
# boot) is waited for.
_APT = "apt-get -qq -o DPkg::Lock::Timeout=300"
_APT_SCRIPT = f'{_APT} update && {_APT} -y --no-install-recommends install -- "$@"'
# Debian starts and enables what it installs, here a web server on port 80; on the Red Hat family nobody does.
_APT_QUIET = f"systemctl mask --runtime --quiet nginx.service; {_APT_SCRIPT}; status=$?"
_APT_QUIET += "; systemctl unmask --runtime --quiet nginx.service; systemctl disable --quiet nginx.service"
_APT_QUIET += "; exit $status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages that belong together; `why` is what they are for, `there` says whether it is fulfilled."""

    names: tuple[str, ...]
    why: str
    there: Callable[[HostFacts], bool]
    expect: Callable[[HostFacts], HostFacts]


def python_packages(python: str, manager: str) -> tuple[str, ...]:
    """Return the packages of an interpreter: itself, its headers (Triton compiles with them), venv.

    Empty when the name is no package's (`/usr/local/bin/python3.12`).
    """
    if re.fullmatch(r"python3\.\d{1,2}", python) is None:
        return ()
    return (python, f"{python}-devel") if manager == "dnf" else (python, f"{python}-dev", f"{python}-venv")


def candidates(python: str) -> tuple[str, ...]:
    """Return every package name whose presence has to be probed, on any distribution."""
    names = [
        *python_packages(python, "dnf"),
        *python_packages(python, "apt"),
        *_LIBNUMA.values(),
        *(name for compilers in _COMPILERS.values() for name in compilers),
        NGINX,
    ]
    return tuple(dict.fromkeys(names))


def installed(
    python: str, device: Device, proxy: tuple[tuple[str, str], ...] = (), *, balancer: bool = False
) -> Operation:
    """The interpreter makes venvs and has headers; libnuma (CPU) or a C compiler (GPU) is there; nginx where
    a `balancer` is wanted.

    What is fulfilled by other means than a package counts: a pyenv Python, a gcc of the site's own.
    """

    def operation(facts: HostFacts) -> Outcome:
        manager = facts.os.package_manager if isinstance(facts.os, Os) else ""
        wanted = [_python(python, manager), _library(manager) if device is Device.CPU else _compiler(manager)]
        wanted += [_balancer()] if balancer else []
        lacking = [packages for packages in wanted if not packages.there(facts)]
        if not lacking:
            return Outcome((), facts)
        names = tuple(name for packages in lacking for name in packages.names)
        if not names or not manager:
            raise NotPossible(
                f"cannot install {' or '.join(packages.why for packages in lacking)}",
                host=facts.host,
                cause="no dnf and no apt on this distribution" if not manager else f"{python} is no package",
                next_step="install it by hand, then run this again",
            )
        step = Step(
            summary=f"install {' '.join(names)}",
            reason="; ".join(f"{packages.why} is not there" for packages in lacking),
            action=Run(argv=_install(manager, names), timeout_s=1200, unit=INSTALL_UNIT, env=proxy),
        )
        left = facts
        for packages in lacking:
            left = packages.expect(left)
        versions = {**left.packages, **dict.fromkeys(names, "latest")}
        return Outcome((step,), replace(left, packages=MappingProxyType(versions)))

    return operation


def _install(manager: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if manager == "dnf":
        return ("dnf", "-y", "install", *names)
    script = _APT_QUIET if NGINX in names else _APT_SCRIPT
    return ("env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script, "apt", *names)


def _python(python: str, manager: str) -> Packages:
    def found(facts: HostFacts) -> Python | None:
        pythons = () if isinstance(facts.pythons, Missing) else facts.pythons
        return next((item for item in pythons if python in (item.name, item.path)), None)

    def there(facts: HostFacts) -> bool:
        item = found(facts)
        return item is not None and item.venv and item.headers

    def expect(facts: HostFacts) -> HostFacts:
        others = () if isinstance(facts.pythons, Missing) else facts.pythons
        item = found(facts) or Python(name=python, version=python.removeprefix("python"))
        kept = tuple(other for other in others if other.name != item.name)
        return replace(facts, pythons=(*kept, replace(item, venv=True, headers=True)))

    return Packages(
        names=python_packages(python, manager),
        why=f"{python} with venv and headers",
        there=there,
        expect=expect,
    )


def _library(manager: str) -> Packages:
    """vLLM's CPU kernels do not load without libnuma, and the line that says so is far above the last one."""
    name = _LIBNUMA.get(manager, "")
    return Packages(
        names=(name,) if name else (),
        why="libnuma",
        there=lambda facts: name in facts.packages or any(path in facts.files for path in LIBNUMA_PATHS),
        expect=lambda facts: facts.with_file(File(path=LIBNUMA_PATHS[0], kind="link")),
    )


def _compiler(manager: str) -> Packages:
    """Triton compiles its launcher with the host's C compiler at the first start of a server."""
    return Packages(
        names=_COMPILERS.get(manager, ()),
        why="a C compiler",
        there=lambda facts: "gcc" in facts.tools or "gcc" in facts.packages,
        expect=lambda facts: replace(facts, tools=_with(facts.tools, "gcc", "/usr/bin/gcc")),
    )


def _balancer() -> Packages:
    """The program only: neither its configuration nor its service is used."""
    return Packages(
        names=(NGINX,),
        why="nginx",
        there=lambda facts: NGINX in facts.tools,
        expect=lambda facts: replace(facts, tools=_with(facts.tools, NGINX, "/usr/sbin/nginx")),
    )


def _with(mapping: Mapping[str, str], key: str, value: str) -> Mapping[str, str]:
    return MappingProxyType({**mapping, key: value})

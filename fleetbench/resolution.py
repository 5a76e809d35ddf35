"""What a lock is made from: requirements, indexes, Python and C library. Pure; resolving it is `lock`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleetbench.accelerators import torch_index
from fleetbench.facts.values import HostFacts, Os
from fleetbench.model import Build, Device, Host
from fleetbench.release_needs import interpreter
from fleetbench.releases import number, table

# manylinux levels that uv knows beyond its oldest; the host's glibc is rounded down to one of them.
_OLDEST, _NEWEST = 28, 40

_HOST_ONLY = frozenset(("UV_CACHE_DIR", "UV_LINK_MODE", "PIP_CACHE_DIR", "TMPDIR", "HOME"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a lock is made from. `platform` is uv's name for the host's C library and processor.

    `glibc` is part of the platform so that no wheel is chosen that the host cannot load.
    """

    name: str
    requirements: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    python: str = "3.12"
    platform: str = "x86_64-manylinux_2_28"
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    wheelhouse: str = ""
    only_binary: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def digest(self) -> str:
        """Short hash over everything that decides which packages come out (not over proxies and caches)."""
        parts = [
            sorted(self.requirements),
            self.overrides,
            self.python,
            self.platform,
            self.index_url,
            self.extra_index_urls,
            self.find_links,
            self.wheelhouse,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]

    @property
    def file_name(self) -> str:
        """Name of the lock's file: `cuda-0.19.1-3f2a….txt`."""
        return re.sub(r"[^A-Za-z0-9._+-]", "_", f"{self.name}-{self.digest}") + ".txt"


def resolution(host: Host, facts: HostFacts) -> Resolution:
    """Given a host and its facts, return what its lock is made from.

    vLLM at the pinned version, flashinfer at the version that this vLLM pins, the build's extras; the
    PyTorch index that stands for `"auto"`.
    """
    build = host.build
    found = interpreter(facts, host.python)
    version = number(found.version if found else host.python)[:2]
    indexes = tuple(
        url
        for entry in build.extra_index_urls
        if (url := torch_index(build, facts) if entry == "auto" else entry)
    )
    return Resolution(
        name=f"{build.name}-{build.version}",
        requirements=requirements(build),
        overrides=build.overrides,
        python=".".join(map(str, version)) if len(version) == 2 else "3.12",
        platform=_platform(build, facts),
        index_url=build.index_url,
        extra_index_urls=indexes,
        find_links=build.find_links,
        wheelhouse=build.wheelhouse,
        only_binary=(build.package,),
        env=MappingProxyType({**_resolver_env(host), **proxy_env(host.proxy)}),
    )


def _resolver_env(host: Host) -> dict[str, str]:
    """The installer's environment without paths that mean something on the host only."""
    return {name: value for name, value in host.install_env.items() if name not in _HOST_ONLY}


def requirements(build: Build) -> tuple[str, ...]:
    """Return the requirement lines of a build, before their dependencies."""
    lines = [f"{build.package}=={build.version}"]
    if build.device is Device.CUDA and build.flashinfer:
        release = table().release(build)
        automatic = build.flashinfer == "auto"
        version = (release.flashinfer if release else "") if automatic else build.flashinfer
        lines += [f"flashinfer-python=={version}"] if version else []
        if version and automatic and release is not None and release.cubin:
            lines.append(f"flashinfer-cubin=={version}")
    plain = replace(build, package="vllm", version=build.version.partition("+")[0])
    known = table().release(plain)
    return tuple(dict.fromkeys((*lines, *(known.constraints if known else ()), *build.extras)))


def proxy_env(proxy: str) -> dict[str, str]:
    """Return the variables by which pip, uv, dnf and apt find a proxy; both spellings are in use."""
    if not proxy:
        return {}
    return dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)


def _platform(build: Build, facts: HostFacts) -> str:
    """The oldest C library that the release needs, so that hosts of different age share one lock.

    Where the table does not know the release, the host's own.
    """
    system = facts.os
    architecture = system.architecture if isinstance(system, Os) and system.architecture else "x86_64"
    release = table().release(build) if build.device is Device.CUDA else None
    glibc = release.glibc if release else (system.glibc if isinstance(system, Os) else "")
    minor = number(glibc)[1] if len(number(glibc)) > 1 else _OLDEST
    level = _OLDEST if minor < 31 else min(minor, _NEWEST)
    return f"{architecture}-manylinux_2_{level}"

"""Which wheels vLLM's CPU build takes, and from where: resolved by uv, read as values."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from fleetbench.errors import FleetbenchError
from fleetbench.lab.commands import run
from fleetbench.lab.settings import LabError
from fleetbench.lock import command
from fleetbench.resolution import Resolution

WHEEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,200}\.whl")
_REACH = "proxy, PIP_INDEX_URL, SSL_CERT_FILE"
_ENVIRONMENT = {"UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE_NEWER"}  # would change what is resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBuild:
    """Content of data/cpu_build.toml and data/cpu_constraints.txt.

    Attributes:
        table: keys of `[builds.cpu]`, as the inventory takes them.
        env, install_env: environment of units and of installers on lab hosts.
        constraints: an exact version for each package that may be needed, as requirement lines.
    """

    table: Mapping[str, str | int | tuple[str, ...]]
    env: Mapping[str, str]
    install_env: Mapping[str, str]
    constraints: str

    @property
    def requirement(self) -> str:
        """The package with its version."""
        return f"{self.table['package']}=={self.table['version']}"

    @property
    def overrides(self) -> tuple[str, ...]:
        """Requirement lines that replace what packages ask for."""
        lines = self.table["overrides"]
        return lines if isinstance(lines, tuple) else ()

    @property
    def torch(self) -> str:
        """Version of torch, without the part that tells CPU from CUDA."""
        pins = (re.fullmatch(r"torch==([0-9.]+)", line) for line in self.overrides)
        return next(pin[1] for pin in pins if pin is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One file to fetch; `size` in bytes, 0 where the index does not say."""

    name: str
    url: str
    sha256: str
    size: int = 0


def cpu_build() -> CpuBuild:
    """Read the build that is shipped with fleetbench."""
    data = resources.files("fleetbench").joinpath("data")
    content = tomllib.loads(data.joinpath("cpu_build.toml").read_text("utf-8"))
    table = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content["build"].items()
    }
    return CpuBuild(
        table=MappingProxyType(table),
        env=MappingProxyType(content["env"]),
        install_env=MappingProxyType(content["install_env"]),
        constraints=data.joinpath("cpu_constraints.txt").read_text("utf-8"),
    )


def cpu_torch(build: CpuBuild, python: str) -> Path | None:
    """Return the wheel of torch's CPU variant for Python `python` ("3.12"), where pip is configured with one.

    It is looked for in the local directories that pip's `find-links` names (environment and files).
    """
    tag = f"cp{python.replace('.', '')}"
    for place in _pip_setting("find-links").split():
        directory = Path(unquote(urlsplit(place).path) if place.startswith("file:") else place)
        found = (
            sorted(directory.glob(f"torch-{build.torch}+cpu-{tag}-*.whl")) if directory.is_absolute() else []
        )
        if found:
            return found[-1]
    return None


def resolve(build: CpuBuild, *, python: str, platform: str, torch: Path | None) -> tuple[Wheel, ...]:
    """Ask uv for every wheel of the build; LabError with what to do when the index does not answer.

    `platform` is uv's name of it (`x86_64-manylinux_2_28`); `torch` a local wheel to be preferred.
    """
    want = Resolution(
        name="cpu",
        requirements=(build.requirement,),
        overrides=build.overrides,
        python=python,
        platform=platform,
        find_links=(str(torch.parent),) if torch is not None else (),
        only_binary=(":all:",),
    )
    with tempfile.TemporaryDirectory(prefix="fleetbench-wheels-") as scratch:
        inputs, overrides, constraints, out = (
            Path(scratch, name) for name in ("wanted.in", "overrides.in", "constraints.txt", "pylock.toml")
        )
        inputs.write_text(f"{build.requirement}\n", "utf-8")
        overrides.write_text("".join(f"{line}\n" for line in build.overrides), "utf-8")
        constraints.write_text(build.constraints, "utf-8")
        argv = (
            *command(want, inputs, overrides),
            *("--constraints", str(constraints), "--format", "pylock.toml", "--output-file", str(out)),
        )
        try:
            run(argv, env=environment(), timeout_s=600)
        except LabError as error:
            refused = re.search(r"\bhint\b|\brequire|\bdepend|\bversion", error.cause)
            step = "take another Python, or other versions in fleetbench/data/cpu_build.toml"
            raise LabError(
                f"no set of packages for {build.requirement} on Python {python}, {platform}",
                cause=error.cause.removeprefix("cause: ") or str(error),
                next_step=step if refused else f"make PyPI reachable ({_REACH}), then the same command again",
            ) from error
        return read(out.read_text("utf-8"))


def uv() -> str:
    """Return uv's path: beside the running Python (a dependency of fleetbench), else the one on PATH."""
    own = Path(sysconfig.get_path("scripts")) / "uv"
    return str(own) if own.is_file() else "uv"


def environment() -> dict[str, str]:
    """Return uv's environment: the caller's, with pip's index and certificates where uv is told of none."""
    env = {name: value for name, value in os.environ.items() if name not in _ENVIRONMENT}
    index = _pip_setting("index-url")
    if index and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & env.keys():
        env["UV_DEFAULT_INDEX"] = index
    certificates = _pip_setting("cert")
    if certificates and "SSL_CERT_FILE" not in env:
        env["SSL_CERT_FILE"] = certificates
    return {"UV_SYSTEM_CERTS": "1", **env, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}


def read(lock: str) -> tuple[Wheel, ...]:
    """Given a pylock.toml (PEP 751), return its wheels, the largest first.

    uv lists those that fit the platform. Where several do, all are taken: which one is best is decided on the
    host. LabError when a package has none, or a name that is no file name.
    """
    wheels = []
    for package in tomllib.loads(lock)["packages"]:
        listed = package.get("wheels", [])
        if not listed:
            raise LabError(f"{package['name']} {package.get('version', '')} has no wheel for this platform")
        for wheel in listed:
            url = str(wheel["url"])
            name = unquote(urlsplit(url).path).rpartition("/")[2]
            if WHEEL_NAME.fullmatch(name) is None or urlsplit(url).scheme not in ("https", "http", "file"):
                raise LabError(
                    f"the index offers something that is no wheel for {package['name']}", cause=url
                )
            wheels.append(
                Wheel(name=name, url=url, sha256=wheel["hashes"]["sha256"], size=int(wheel.get("size", 0)))
            )
    return tuple(sorted(wheels, key=lambda wheel: (-wheel.size, wheel.name)))


def _pip_setting(key: str) -> str:
    """Return one of pip's settings, from its environment variable or its files; empty when it has none."""
    direct = os.environ.get(f"PIP_{key.replace('-', '_').upper()}")
    if direct is not None:
        return direct
    try:
        argv = [sys.executable, "-m", "pip", "config", "list"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetbenchError("cannot ask pip for its settings", cause=str(error)) from error
    # Without pip (a venv made by uv) there are no settings: the status is 1 and nothing is printed.
    found = re.search(rf"^(?:install|global)\.{key}=(.*)$", done.stdout, re.MULTILINE)
    return str(ast.literal_eval(found[1])).strip() if found else ""

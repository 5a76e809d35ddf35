"""What each vLLM release needs, from `data/releases.toml`: the table that refusals and indexes come from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from fleetbench.model import Build


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One vLLM release on PyPI (x86_64).

    Attributes:
        cuda: CUDA version of the torch that PyPI serves for it; empty for a wheel that PyPI does not have.
        cuda_indexes: CUDA versions of torch on PyTorch's own index that go with it too.
        flashinfer: version that vLLM pins, empty when none; `cubin`: flashinfer-cubin is pinned as well.
        constraints: requirement lines that its own metadata lacks.
        python: first and last minor version.
        glibc, min_capability: lower bounds.
    """

    version: str
    torch: str
    cuda: str
    cuda_indexes: tuple[str, ...]
    flashinfer: str
    cubin: bool
    constraints: tuple[str, ...]
    python: tuple[str, str]
    glibc: str
    min_capability: str

    @property
    def cudas(self) -> tuple[str, ...]:
        """CUDA versions of all torch builds that go with it, lowest first."""
        return tuple(sorted({*filter(None, (self.cuda,)), *self.cuda_indexes}, key=number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Which Python minors a Linux distribution offers without a further repository."""

    ids: tuple[str, ...]
    version: str
    pythons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The whole file: releases oldest first, the lowest driver per CUDA major, Pythons per distribution."""

    releases: tuple[Release, ...]
    minimum_driver: Mapping[str, str]
    distributions: tuple[Distribution, ...]

    def release(self, build: Build) -> Release | None:
        """Return the row of a build's vLLM; None when it is newer, other, or not the `vllm` package.

        A local version (`0.21.0+cu129`, the wheels on GitHub) names its CUDA; PyPI's torch does not fit it.
        """
        if build.package != "vllm":
            return None
        plain, _, local = build.version.partition("+")
        row = next((release for release in self.releases if release.version == plain), None)
        match = re.fullmatch(r"cu(\d+)(\d)", local)
        if row is None or match is None:
            return row
        return replace(row, version=build.version, cuda="", cuda_indexes=(f"{match[1]}.{match[2]}",))

    def driver_for(self, cuda: str) -> str:
        """Return the lowest driver branch for a CUDA version, empty when the table does not know."""
        return self.minimum_driver.get(cuda.partition(".")[0], "")

    def newest_cuda(self, driver: str) -> str:
        """Return the newest CUDA major that a driver runs, empty when none."""
        fitting = [major for major, least in self.minimum_driver.items() if number(driver) >= number(least)]
        return max(fitting, key=number, default="")

    def pythons_of(self, system_id: str, version: str) -> tuple[str, ...]:
        """Return the Python minors that a distribution offers by itself, empty when it is unknown."""
        for known in self.distributions:
            if system_id in known.ids and f"{version}.".startswith(f"{known.version}."):
                return known.pythons
        return ()


def number(version: str) -> tuple[int, ...]:
    """Given `2.34` or `580.159.04`, return its numbers for comparing; text without numbers gives ()."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


@cache
def table() -> Table:
    """Return the table that comes with this package."""
    data = tomllib.loads((resources.files("fleetbench") / "data" / "releases.toml").read_text("utf-8"))
    releases = [
        Release(
            version=version,
            torch=row["torch"],
            cuda=row["cuda"],
            cuda_indexes=tuple(row.get("cuda_indexes", ())),
            flashinfer=row["flashinfer"],
            cubin=row.get("cubin", False),
            constraints=tuple(row.get("constraints", ())),
            python=(row["python"][0], row["python"][1]),
            glibc=row["glibc"],
            min_capability=row["min_capability"],
        )
        for row in data["releases"]
        for version in row["versions"]
    ]
    return Table(
        releases=tuple(sorted(releases, key=lambda release: number(release.version))),
        minimum_driver=data["minimum_driver"],
        distributions=tuple(
            Distribution(ids=tuple(row["id"]), version=row["version"], pythons=tuple(row["pythons"]))
            for row in data["distributions"]
        ),
    )

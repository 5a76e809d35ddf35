"""Which vLLM version has which flag, and what the same words meant in it: one table, and versions to ask it.

Facts only; `bench_command` and `units` decide what to do with them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, total_ordering
from importlib import resources
from typing import Any

from fleetbench.errors import UsageError, one_line

_VERSION = re.compile(
    r"v?(?P<release>\d{1,6}(?:\.\d{1,6}){0,5})"
    r"(?:[._-]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[._-]?(?P<pre_number>\d{0,6}))?"
    r"(?:[._-]?(?P<post>post|rev|r)[._-]?(?P<post_number>\d{0,6}))?"
    r"(?:[._-]?(?P<dev>dev)[._-]?(?P<dev_number>\d{0,6}))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[._-][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_PRE_RANK = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_BEFORE_ALL_PRE, _FINAL = -1, 3
_NO_DEV = 10**9


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A vLLM version in the order of PEP 440; the local part (`+cpu`, `+cu129`) does not count.

    `text` is what was given: `0.6.6.post1`, `0.23.1rc1.dev5+g1a2b3c`, `0.10.1.1`.
    """

    text: str
    key: tuple[tuple[int, ...], int, int, int, int]
    local: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text


def parse_version(text: str) -> Version:
    """Given a version as pip or `vllm --version` prints it, return it comparable; UsageError otherwise."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{one_line(text, 60)}' is no vLLM version",
            next_step="write it as pip does: 0.10.1.1, 0.6.6.post1, 0.23.1rc1.dev5",
        )
    release = tuple(int(part) for part in match["release"].split("."))
    while len(release) > 1 and release[-1] == 0:  # 0.11 and 0.11.0 are the same version
        release = release[:-1]
    post = int(match["post_number"] or 0) if match["post"] else -1
    dev = int(match["dev_number"] or 0) if match["dev"] else _NO_DEV
    if match["pre"]:
        rank, number = _PRE_RANK[match["pre"].lower()], int(match["pre_number"] or 0)
    else:  # 0.23.1.dev5 comes before 0.23.1rc1, but 0.23.1.post1.dev5 after 0.23.1
        rank, number = (_BEFORE_ALL_PRE if match["dev"] and post < 0 else _FINAL), 0
    return Version(text.strip(), (release, rank, number, post, dev), match["local"] or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A flag or dataset: in every version from `since` on (empty: always), until it was `removed`.

    A `switch` takes no value.
    """

    name: str
    since: str = ""
    removed: str = ""
    switch: bool = False

    def in_version(self, version: Version) -> bool:
        """True when `version` has it."""
        return not (self.since and version < parse_version(self.since)) and not (
            self.removed and version >= parse_version(self.removed)
        )

    @property
    def span(self) -> str:
        """In words: `vLLM >= 0.10.2`, `vLLM >= 0.8.5 and < 0.11.1`."""
        parts = [f">= {self.since}"] if self.since else []
        parts += [f"< {self.removed}"] if self.removed else []
        return f"vLLM {' and '.join(parts)}" if parts else "every vLLM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Feature):
    """A dataset of the bench client: its flags for input and output length (empty: it has none)."""

    input_flag: str = ""
    output_flag: str = ""
    needs_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RustFacts:
    """How the Rust client differs: `datasets` that it sends as the Python client does, `same_with` a flag
    those that it then sends so too, `ignored` options that it takes and does not heed."""

    datasets: tuple[str, ...]
    same_with: Mapping[str, str]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """The whole table. `flags` by command (`bench_serve`, `serve`) and name; `reserved` are those flags
    that `bench_command` writes itself; `serve_releases` were asked for the flags of `serve`, in order."""

    commands: Mapping[str, Feature]
    flags: Mapping[str, Mapping[str, Feature]]
    datasets: Mapping[str, Dataset]
    behaviours: Mapping[str, tuple[tuple[Version, str], ...]]
    reserved: tuple[str, ...]
    serve_releases: tuple[Version, ...]
    rust: RustFacts

    def serve_flag(self, option: str) -> Feature | None:
        """Return the flag of `vllm serve` that an option is, also as `--no-…`, `--a_b` or `--json.key`."""
        name = option.partition("=")[0].partition(".")[0].rstrip("+").replace("_", "-")
        known = self.flags["serve"]
        if name in known:
            return known[name]
        positive = known.get(f"--{name[5:]}") if name.startswith("--no-") else None
        return positive if positive is not None and positive.switch else None

    def serve_refuses(self, flag: Feature, version: Version) -> bool:
        """True when a version is known to refuse a flag: the releases nearest to it on both sides do."""
        older = [known for known in self.serve_releases if known <= version][-1:]
        newer = [known for known in self.serve_releases if known >= version][:1]
        return not any(flag.in_version(known) for known in (*older, *newer))

    def refused(self, command: str, flags: Iterable[str], version: Version) -> tuple[Feature, ...]:
        """Return those of `flags` that `version` is known to refuse; unknown flags are not judged."""
        known = self.flags[command]
        return tuple(known[f] for f in flags if f in known and not known[f].in_version(version))

    def behaviour(self, name: str, version: Version) -> str:
        """Return what `name` (a key of the table) was in `version`; of the oldest one for older versions."""
        rows = self.behaviours[name]
        fitting = [value for since, value in rows if since <= version]
        return fitting[-1] if fitting else rows[0][1]


@cache
def feature_table() -> FeatureTable:
    """Return the table, read from the package's data on first use."""
    data, serve = _data("vllm_features.toml"), _data("serve_flags.toml")
    commands = ("bench_serve", "serve")
    flags = {"bench_serve": data["bench_serve"]["flag"], "serve": serve["flag"]}
    datasets = (
        Dataset(
            name=row["name"],
            since=row.get("since", ""),
            removed=row.get("removed", ""),
            input_flag=row["length_flags"][0],
            output_flag=row["length_flags"][1],
            needs_file=row.get("file", False),
        )
        for row in data["bench_serve"]["dataset"]
    )
    return FeatureTable(
        commands={name: Feature(name=name, since=data[name]["since"]) for name in commands},
        flags={name: {row["name"]: Feature(**row) for row in flags[name]} for name in commands},
        datasets={dataset.name: dataset for dataset in datasets},
        behaviours={
            name: tuple((parse_version(row["since"]), row["value"]) for row in rows)
            for name, rows in data["behaviour"].items()
        },
        reserved=tuple(data["bench_serve"]["reserved"]),
        serve_releases=tuple(map(parse_version, serve["releases"])),
        rust=RustFacts(
            datasets=tuple(data["rust_client"]["datasets"]),
            same_with=data["rust_client"]["same_with"],
            ignored=tuple(data["rust_client"]["ignored"]),
        ),
    )


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("fleetbench").joinpath("data", name).read_text(encoding="utf-8"))

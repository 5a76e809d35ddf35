"""Entries of several runs as those of one report. Pure.

Names get what tells two entries apart, and nothing else. What may not be compared is kept apart by its load
(other requests, another kind of client) or by its series (another version of vLLM, the same work done twice).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fleetbench.errors import one_line
from fleetbench.model import Workload
from fleetbench.report.entry import Entry
from fleetbench.report.gpu_names import short_gpus
from fleetbench.report.loads import apart
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report

Of = Callable[[Entry], str]

# What a name may begin with, in this order.
_VERSION: Of = lambda entry: f"vLLM {entry.vllm_version}" if entry.vllm_version else ""  # noqa: E731
_DIMENSIONS: dict[str, Of] = {
    "gpu": lambda entry: entry.gpu,
    "version": _VERSION,
    "client": lambda entry: f"{kind} client" if (kind := client_kind(entry)) else "",
    "host": lambda entry: entry.host,
    "run": lambda entry: entry.run,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Several runs as one report; `name` says which, and is safe as the name of a directory."""

    name: str
    reports: tuple[Report, ...]
    entries: tuple[Entry, ...]

    @property
    def models(self) -> dict[str, tuple[Entry, ...]]:
        """The entries of each model, in the order in which the models first appear."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.model, []).append(entry)
        return {model: tuple(entries) for model, entries in found.items()}


def joined(reports: Iterable[Report]) -> Joined:
    """Given the reports of different runs, in the order in which they are to stand, return them as one."""
    reports = tuple(reports)
    name = name_of(report.run.id for report in reports)
    entries = [entry for report in reports for entry in _completed(entries_of_run(report))]
    by_model: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        by_model.setdefault(entry.model, []).append(place)
    for places in by_model.values():
        alike = _named(_in_series(_by_load([entries[place] for place in places])))
        for place, entry in zip(places, alike, strict=True):
            entries[place] = replace(entry, source=name)
    return Joined(name=name, reports=reports, entries=tuple(entries))


def name_of(runs: Iterable[str]) -> str:
    """Return the name of a report on some runs, whatever their order: `3-runs-1f2e3d4c`."""
    ids = sorted(runs)
    return f"{len(ids)}-runs-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:8]}"


def client_kind(entry: Entry) -> str:
    """Return which clients measured an entry, without their versions: `rust`; empty where unknown."""
    kinds = (words.strip().partition(" ")[0] for words in entry.client.split(";"))
    return ", ".join(sorted({kind for kind in kinds if kind}))


def _completed(entries: Sequence[Entry]) -> list[Entry]:
    """Return a run's entries with what the run knows of them: one that never started has no version."""
    versions = {entry.vllm_version for entry in entries} - {""}
    clients = {entry.client for entry in entries} - {""}
    gpus = {host: {e.gpu for e in entries if e.host == host} - {""} for host in {e.host for e in entries}}

    def only(found: set[str]) -> str:
        return next(iter(found)) if len(found) == 1 else ""

    return [
        replace(
            entry,
            gpu=entry.gpu or only(gpus[entry.host]),
            vllm_version=entry.vllm_version or only(versions),
            client=entry.client or only(clients),
        )
        for entry in entries
    ]


def _by_load(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with loads that are different wherever something else was sent, or counted."""
    workloads: dict[str, list[Workload]] = {}
    kinds: dict[str, set[str]] = {}
    for entry in entries:
        known = workloads.setdefault(_called(entry), [])
        if entry.workload not in known:
            known.append(entry.workload)
        kinds.setdefault(_called(entry), set()).add(client_kind(entry))
    return [
        replace(entry, load=one_line(_load(entry, workloads[_called(entry)], kinds[_called(entry)]), 200))
        for entry in entries
    ]


def _called(entry: Entry) -> str:
    """Return what its load is called before it is told from others: a run alone tells its own apart only."""
    return one_line(entry.workload.label)


def _load(entry: Entry, workloads: Sequence[Workload], kinds: set[str]) -> str:
    load = apart(_called(entry), entry.workload, workloads)
    kind = client_kind(entry)
    if len(kinds) > 1 and kind and f"{kind} client" not in load:
        load = f"{load} {kind} client"
    return load


def _in_series(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with their series: of each kind of GPU the version, and host or run if need be."""
    by_gpu: dict[str, list[Entry]] = {}
    for entry in entries:
        by_gpu.setdefault(entry.gpu, []).append(entry)
    series = {}
    for group in by_gpu.values():
        known = {key: {_DIMENSIONS[key](entry) for entry in group} - {""} for key in ("version", "client")}
        told = [key for key, values in known.items() if len(values) > 1]
        for key in ("host", "run"):
            if any(_several(twice, key) for twice in _twice(group, told)):
                told.append(key)
        for entry in group:
            series[id(entry)] = ", ".join(filter(None, (_DIMENSIONS[key](entry) for key in told)))
    return [replace(entry, series=series[id(entry)]) for entry in entries]


def _twice(entries: Iterable[Entry], told: Sequence[str]) -> list[list[Entry]]:
    """Return what several runs did alike, as far as is told."""
    found: dict[object, list[Entry]] = {}
    for entry in entries:
        same = (entry.config, entry.load, *(_DIMENSIONS[key](entry) for key in told))
        found.setdefault(same, []).append(entry)
    return [group for group in found.values() if len({entry.run for entry in group}) > 1]


def _named(entries: Sequence[Entry]) -> list[Entry]:
    gpus = short_gpus(entry.gpu for entry in entries)
    dimensions: dict[str, Of] = {**_DIMENSIONS, "gpu": lambda entry: gpus[entry.gpu]}
    told: list[str] = []

    def name(entry: Entry) -> str:
        return " ".join(filter(None, (*(dimensions[key](entry) for key in told), entry.config.label)))

    def alike() -> list[list[Entry]]:
        found: dict[object, list[Entry]] = {}
        for entry in entries:
            found.setdefault((entry.load, name(entry)), []).append(entry)
        return [group for group in found.values() if len(group) > 1]

    versions = any(_VERSION(entry) and _VERSION(entry) in entry.series for entry in entries)
    for key in _DIMENSIONS:
        if (key == "version" and versions) or any(_several(group, key) for group in alike()):
            told.append(key)
    numbered = {id(entry) for group in alike() for entry in group}
    names = [f"{name(entry)} #{entry.trial}" if id(entry) in numbered else name(entry) for entry in entries]
    return [replace(entry, name=one_line(text, 160)) for entry, text in zip(entries, names, strict=True)]


def _several(entries: Iterable[Entry], key: str) -> bool:
    return len({_DIMENSIONS[key](entry) for entry in entries}) > 1

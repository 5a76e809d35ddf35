"""Which entries can stand for each other: one model on one kind of GPU under one shape of requests. Pure.

A choice is made among the entries of one question. Concurrency and rate do not part them: at which of them to
run is a part of the choice. The series of a report on several runs does: another version of vLLM, another
client or the same work once more is another question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.model import Config, Workload
from fleetbench.report.entry import Entry, traffic
from fleetbench.report.finding import brief

Same = tuple[Config, str]
_OPEN = (math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Entries of which one may be chosen.

    Attributes:
        words: what they have in common: `org/model on NVIDIA H200, random 128/128`.
        loads: what tells each load from the others, by the load in words, the lightest first; no two alike.
    """

    words: str
    entries: tuple[Entry, ...]
    loads: dict[str, str]


def questions(entries: Iterable[Entry]) -> tuple[Question, ...]:
    """Return the entries by what they are about, in the order in which that first appears."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        found.setdefault(_key(entry), []).append(entry)
    return tuple(_question(group) for group in found.values())


def configuration(entry: Entry) -> Same:
    """Return what two entries have in common that are the same configuration."""
    return entry.config, "" if entry.split_known and not entry.imported else entry.name


def gpus_of(entry: Entry) -> int | None:
    """Return how many GPUs it takes: those of its split where nobody says, None without either."""
    if entry.gpus is None and not entry.split_known:
        return None
    return entry.gpus if entry.gpus is not None else entry.config.gpus


def lightness(workload: Workload) -> tuple[float, float]:
    """Return where a load stands on the ladder: rate and concurrency, without either at the end."""
    return workload.request_rate or math.inf, workload.max_concurrency or math.inf


def _key(entry: Entry) -> tuple[object, ...]:
    """Return what is equal within a question; imported rows stand for each other within a source only."""
    source = entry.source if entry.imported else ""
    return (
        *(source, entry.model, entry.gpu, entry.series, entry.config.max_model_len),
        traffic(entry.workload),
    )


def _question(entries: list[Entry]) -> Question:
    first = entries[0]
    load = first.workload
    lengths = f" {load.input_len}/{load.output_len}" if load.input_len or load.output_len else ""
    context = f", len={first.config.max_model_len}" if first.config.max_model_len else ""
    on_gpu = f" on {first.gpu}" if first.gpu else ""
    series = f", {first.series}" if first.series else ""
    client = f", {load.client_program} client" if load.client_program != "auto" else ""
    words = one_line(f"{first.model}{on_gpu}{series}, {load.dataset}{lengths}{context}{client}", 300)
    return Question(words=words, entries=tuple(entries), loads=_loads(entries))


def _loads(entries: Sequence[Entry]) -> dict[str, str]:
    """Return a name for each load: a short one, or the load in words where that is not enough or too much."""
    workloads = {entry.load: entry.workload for entry in entries}
    order = sorted(workloads, key=lambda load: lightness(workloads[load]))
    if len(order) == 1:
        return {order[0]: ""}
    among = tuple(dict.fromkeys(workloads.values()))
    short = {load: brief(workloads[load], among) for load in order}
    names = Counter(short.values())
    # A source that names neither concurrency nor rate does not say that there was no limit.
    silent = {entry.load for entry in entries if entry.imported and lightness(entry.workload) == _OPEN}
    whole = {load for load in order if names[short[load]] > 1 or short[load] == workloads[load].label}
    return {load: load if load in whole | silent else short[load] for load in order}

"""Which entries of two sides belong together: those that agree in what tells entries of a side apart. Pure.

What all entries of a side have in common is not asked for: when one side is tp=2 throughout and the other
tp=4, that is what is compared, and its rows pair by what is left, the load for instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetbench.errors import one_line
from fleetbench.report.compare.conditions import Value, with_values
from fleetbench.report.entry import Entry, Status

Key = tuple[object, ...]
Part = Callable[[Entry], object]

_ORDER = tuple(Status)
# What tells entries apart. The later ones only where entries would be alike without.
_PARTS: Mapping[str, Part] = {
    "model": lambda entry: entry.model or None,
    "gpu": lambda entry: entry.gpu or None,
    "tp": lambda entry: entry.config.tp if entry.split_known else None,
    "dp": lambda entry: entry.config.dp if entry.split_known else None,
    "pp": lambda entry: entry.config.pp if entry.split_known else None,
    "ep": lambda entry: entry.config.ep,
    "units": lambda entry: entry.config.units,
    "len": lambda entry: entry.config.max_model_len or 0,
    "arguments": lambda entry: with_values(entry.config.serve_args),
    "dataset": lambda entry: (entry.workload.dataset, entry.workload.prompts, entry.workload.extra_args),
    "lengths": lambda entry: (entry.workload.input_len, entry.workload.output_len),
    "concurrency": lambda entry: _limit(entry, entry.workload.max_concurrency),
    "rate": lambda entry: _limit(entry, entry.workload.request_rate),
    "temperature": lambda entry: entry.workload.temperature,
}
_IF_NEEDED: Mapping[str, Part] = {
    "requests": lambda entry: entry.workload.num_prompts,
    "client": lambda entry: entry.workload.client_program,
    "variant": lambda entry: entry.config.variant,
    "build": lambda entry: entry.config.build,
    "vllm": lambda entry: entry.vllm_version or None,
    "host": lambda entry: entry.host or None,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """An entry, what it was measured with, and when its source was made (UTC, sorts as text).

    `beside` are others of the same side that it stands for, too: starts that failed, an older run.
    `over`: nothing more of it will be measured; else its run has not ended, and may still come to it.
    """

    entry: Entry
    conditions: Mapping[str, Value] = field(default_factory=dict)
    made_at: str = ""
    beside: tuple[Subject, ...] = ()
    over: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Two entries that are compared; the first is the baseline.

    `within` names what else tells it from other pairs: a GPU, a host.
    """

    baseline: Subject
    other: Subject
    within: str = ""

    @property
    def name(self) -> str:
        """What is compared: the configuration, or both where they differ."""
        one, two = (_name(subject.entry) for subject in (self.baseline, self.other))
        both = one if one == two else f"{one} → {two}"
        return f"{self.within} {both}" if self.within else both

    @property
    def load(self) -> str:
        """The workload, or both where they differ."""
        one, two = self.baseline.entry.load, self.other.entry.load
        return one if one == two else f"{one} → {two}"

    @property
    def short_load(self) -> str:
        """Concurrency or rate, which mostly tell the loads of a sweep apart."""
        one, two = (_short(subject.entry) for subject in (self.baseline, self.other))
        return one if one == two else f"{one} → {two}"

    @property
    def same_row(self) -> bool:
        """Whether both are one and the same row."""
        one, two = self.baseline.entry, self.other.entry
        return (one.source, one.imported, one.place) == (two.source, two.imported, two.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """An entry that has no counterpart, and why where more than that is known."""

    subject: Subject
    why: str = ""

    @property
    def name(self) -> str:
        """Its configuration and load."""
        return f"{_name(self.subject.entry)}, {self.subject.entry.load}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The pairs of two sides, and what is left of each; in the order of the sides."""

    pairs: tuple[Pair, ...] = ()
    missing: tuple[Unpaired, ...] = ()
    added: tuple[Unpaired, ...] = ()


def paired(baseline: Sequence[Subject], other: Sequence[Subject]) -> Paired:
    """Given the subjects of two sides, return what belongs together."""
    parts = _telling_apart(baseline, other)
    one, two = (_by_key(side, parts.values()) for side in (baseline, other))
    pairs: list[Pair] = []
    missing: list[Unpaired] = []
    added: list[Unpaired] = []
    for key in dict.fromkeys((*one, *two)):
        first, second = _chosen(one.get(key, [])), _chosen(two.get(key, []))
        if isinstance(first, Subject) and isinstance(second, Subject):
            pairs.append(Pair(baseline=first, other=second, within=_within(first.entry, parts)))
            continue
        why = " and ".join(
            dict.fromkeys(found for found in (first, second) if isinstance(found, str) and found)
        )
        missing += [Unpaired(subject=subject, why=why) for subject in one.get(key, [])]
        added += [Unpaired(subject=subject, why=why) for subject in two.get(key, [])]
    return Paired(pairs=tuple(pairs), missing=tuple(missing), added=tuple(added))


def brief_names(pairs: Sequence[Pair]) -> dict[Pair, str]:
    """Return a name for each pair, as short as tells them apart: `tp=2 dp=1`, `tp=2 dp=1 c=64`."""
    ways: tuple[Callable[[Pair], str], ...] = (
        lambda pair: pair.name,
        lambda pair: f"{pair.name} {pair.short_load}",
        lambda pair: f"{pair.name}, {pair.load}",
    )
    for way in ways:
        names = {pair: way(pair) for pair in pairs}
        if len(set(names.values())) == len(pairs):
            break
    return names


def _within(entry: Entry, parts: Iterable[str]) -> str:
    """Return what a pair is named by besides its configuration."""
    named = {"model": entry.model, "gpu": entry.gpu, "vllm": entry.vllm_version, "host": entry.host}
    return one_line(" ".join(filter(None, (named.get(part, "") for part in parts))), 80)


def _telling_apart(*sides: Sequence[Subject]) -> dict[str, Part]:
    found = {name: part for name, part in _PARTS.items() if any(_varies(side, part) for side in sides)}
    for name, part in _IF_NEEDED.items():
        if not any(_varies(side, part) for side in sides):
            continue
        with_it = found | {name: part}
        if any(len(_by_key(side, with_it.values())) > len(_by_key(side, found.values())) for side in sides):
            found = with_it
    return found


def _varies(side: Iterable[Subject], part: Part) -> bool:
    """Whether it tells entries of the side apart; what is unknown tells nothing."""
    return len({value for subject in side if (value := part(subject.entry)) is not None}) > 1


def _by_key(side: Iterable[Subject], parts: Iterable[Part]) -> dict[Key, list[Subject]]:
    found: dict[Key, list[Subject]] = {}
    parts = tuple(parts)
    for subject in side:
        found.setdefault(tuple(part(subject.entry) for part in parts), []).append(subject)
    return found


def _chosen(group: Sequence[Subject]) -> Subject | str:
    """Return the one of several alike that stands for them, or why there is none.

    The best of the newest source: a start that failed does not take away the ones that were measured.
    """
    if not group:
        return ""
    newest = max(subject.made_at for subject in group)
    latest = [subject for subject in group if subject.made_at == newest]
    best = min(_ORDER.index(subject.entry.status) for subject in latest)
    fit = [subject for subject in latest if _ORDER.index(subject.entry.status) == best]
    measured = [subject for subject in fit if subject.entry.values]
    # Of several starts none of which is valid each is an entry: what became of the first is said.
    if len(measured) > 1 and any(subject.entry.valid or subject.entry.imported for subject in measured):
        places = ", ".join(subject.entry.place for subject in measured[:3])
        more = f" and {len(measured) - 3} more" if len(measured) > 3 else ""
        return f"{len(measured)} rows fit ({places}{more}): choose one"
    kept = (measured or fit)[0]
    beside = tuple(subject for subject in group if subject is not kept)
    return replace(kept, beside=beside)


def _short(entry: Entry) -> str:
    load = entry.workload
    if load.request_rate is not None:
        return f"{load.request_rate:g} req/s"
    if load.max_concurrency is not None:
        return f"c={load.max_concurrency}"
    return "c=?" if entry.imported else "no limit"


def _limit(entry: Entry, limit: float | None) -> float | None:
    """Return a limit of the load, 0 for none; None where a source says nothing of it."""
    return limit or (None if entry.imported else 0)


def _name(entry: Entry) -> str:
    return entry.name if entry.imported else one_line(entry.config.label, 120)

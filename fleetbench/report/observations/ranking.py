"""Which entry of a table is the fastest, and on which requests failed. Pure.

A source ranks all of its rows. That is repeated as its own ranking, with its digits; beside it stands which
row leads when those with an objection of their own are left out. Own rows are ranked as in `finding.py`:
valid ones only, by comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.report.entry import Entry, ranked
from fleetbench.report.finding import Ranking, about
from fleetbench.report.metrics import OUTPUT, PROMPT, Metric
from fleetbench.report.observations.said import Said, counted, listed, name
from fleetbench.report.outcome import nothing_valid
from fleetbench.report.tables.shown import number, rules_against
from fleetbench.results.rows import RunState, Verdict

TITLES = {PROMPT.key: "prompt TPS", OUTPUT.key: "generation TPS"}


def said_of_ranks(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield the sentences about a table's entries: highest of both rates, errors, objections."""
    if all(entry.imported for entry in entries):
        yield from _as_the_source(entries)
        yield from _objections(entries)
        return
    for metric in (PROMPT, OUTPUT):
        if order := ranked(entries, metric):
            ranking = Ranking(name="", order=order, among=len(entries))
            yield Said(topic="highest", text=about([ranking], metric))
    yield from errors_said(entries)


def highest(entries: Sequence[Entry], metric: Metric) -> Entry | None:
    """Return the entry with the highest value, whatever is held against it; of equal ones the first."""
    known = [entry for entry in entries if entry.value(metric) is not None]
    return max(known, key=lambda entry: entry.value(metric) or 0.0, default=None)


def with_errors(entries: Sequence[Entry]) -> tuple[tuple[Entry, int], ...]:
    """Return the entries with failed requests and how many, in their order."""
    return tuple((entry, entry.failed) for entry in entries if entry.failed)


def without_objection(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the entries that nothing of their own is held against, and which rules are left aside for that.

    What makes every row suspect that is not invalid anyway says nothing about their order. What makes a row
    invalid is never left aside.
    """
    rules = [frozenset(rules_against(entry)) for entry in entries]
    fatal = {found.rule for entry in entries for found in entry.findings if found.verdict is Verdict.INVALID}
    sound = [own for own in rules if not own & fatal]
    alike = sound if len(sound) > 1 else rules
    shared = frozenset.intersection(*alike) - fatal if len(alike) > 1 else frozenset()
    kept = tuple(entry for entry, own in zip(entries, rules, strict=True) if not own - shared)
    return kept, tuple(sorted(shared))


def errors_said(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield on which entries requests failed; nothing where none did."""
    found = with_errors(entries)
    if found:
        which = listed((f"{name(entry)} ({count:,})" for entry, count in found), most=20)
        yield Said(topic="errors", text=f"Errors on: {which}")


def not_ranked(entries: Sequence[Entry], state: RunState = RunState.DONE) -> Iterator[Said]:
    """Yield how many of the entries are left out of every ranking, and for what they are.

    `state` is the run's.
    """
    found = [entry for entry in entries if not entry.valid]
    if not found:
        return
    if len(found) == len(entries):
        yield Said(topic="not-ranked", text=nothing_valid(entries, state))
        return
    kinds: dict[str, list[str]] = {}
    for entry in found:
        kinds.setdefault(entry.status.value, []).append(name(entry))
    words = "; ".join(f"{status}: {listed(names)}" for status, names in kinds.items())
    yield Said(
        topic="not-ranked",
        text=f"Not ranked: {counted(found, entries, 'row')} ({words})",
    )


def _as_the_source(entries: Sequence[Entry]) -> Iterator[Said]:
    for metric in (PROMPT, OUTPUT):
        best = highest(entries, metric)
        if best is not None:
            text = f"Highest {TITLES[metric.key]}, as the source ranks: {_with_value(best, metric)}"
            yield Said(topic="highest", text=text)
    yield from errors_said(entries)


def _objections(entries: Sequence[Entry]) -> Iterator[Said]:
    """Say what remains of the source's ranking when its rows are judged."""
    kept, shared = without_objection(entries)
    aside = f"leaving aside what all share ({', '.join(shared)})" if shared else ""
    if len(kept) == len(entries):
        if shared:
            text = f"Nothing is held against a row alone, but against all of them: {', '.join(shared)}"
            yield Said(topic="objections", text=text)
        return
    if not kept:
        whole = "the only row has" if len(entries) == 1 else f"each of the {len(entries)} rows has"
        sure = f", {aside}" if aside else ""
        yield Said(topic="objections", text=f"No rank stands{sure}: {whole} an objection of its own")
        return
    leaders = [
        (metric, before, after)
        for metric in (PROMPT, OUTPUT)
        if (before := highest(entries, metric)) is not None and (after := highest(kept, metric)) is not None
    ]
    moved = [(metric, after) for metric, before, after in leaders if before is not after]
    left_out = [entry for entry in entries if entry not in kept]
    why = "; ".join(f"{name(entry)}: {', '.join(_own(entry, shared))}" for entry in left_out)
    if moved:
        then = "; ".join(f"highest {TITLES[m.key]}: {_with_value(entry, m)}" for m, entry in moved)
    else:
        then = "the same rows lead"
    without = f"Without rows that have an objection of their own ({why})"
    yield Said(topic="objections", text=f"{without}{f', {aside}' if aside else ''}, {then}")


def _own(entry: Entry, shared: Sequence[str]) -> tuple[str, ...]:
    return tuple(rule for rule in rules_against(entry) if rule not in shared)


def _with_value(entry: Entry, metric: Metric) -> str:
    return f"{name(entry)} with {number(entry, entry.value(metric)):,} tokens/s"

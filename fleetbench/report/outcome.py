"""What became of entries none of which counts: how many of each kind, and the main reason. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry, Status
from fleetbench.results.rows import RunRow, RunState, Verdict

# How many of them there are is said in these words: `3 are suspect, 1 failed`.
_ONE = {
    Status.SUSPECT: "is suspect",
    Status.INVALID: "is invalid",
    Status.FAILED: "failed",
    Status.IMPLIED: "was not tried, since another failure implies that it fails",
    Status.NOT_RUN: "was not run",
    Status.UNMEASURED: "is not measured",
}
_MANY = {
    Status.SUSPECT: "are suspect",
    Status.INVALID: "are invalid",
    Status.FAILED: "failed",
    Status.IMPLIED: "were not tried, since another failure implies that they fail",
    Status.NOT_RUN: "were not run",
    Status.UNMEASURED: "are not measured",
}
_REASON = 160  # letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why `count` entries do not count; `rule` is the one that objects, empty where it is a failure."""

    rule: str
    text: str
    count: int


def nothing_valid(entries: Sequence[Entry], state: RunState = RunState.DONE) -> str:
    """Return the sentence about entries none of which is valid: counts, and the main reason.

    `state` is the run's: what is not measured yet is no loss. Empty where an entry is valid.
    """
    if any(entry.valid for entry in entries):
        return ""
    if not entries:
        return "Nothing was measured: no configuration was planned"
    counts = Counter(entry.status for entry in entries)
    if set(counts) == {Status.UNMEASURED}:
        lead = "Nothing is measured yet" if state is RunState.RUNNING else "Nothing was measured"
        rows = "the only row is" if len(entries) == 1 else f"{len(entries)} rows are"
        return f"{lead}: {rows} {'to come' if state is RunState.RUNNING else 'not measured'}"
    numbers = counts[Status.SUSPECT] + counts[Status.INVALID]
    lead = "Nothing can be ranked" if numbers else "Nothing was measured"
    return f"{lead}: {_counted(counts)}{_because(entries)}"


def _counted(counts: Mapping[Status, int]) -> str:
    """Return `the only row failed`, `all 4 rows failed`, `of 4 rows 3 are suspect, 1 failed`."""
    whole = sum(counts.values())
    words = [
        (count, (_ONE if count == 1 else _MANY)[status]) for status in Status if (count := counts[status])
    ]
    if len(words) == 1:
        return f"{'the only row' if whole == 1 else f'all {whole:,} rows'} {words[0][1]}"
    return f"of {whole:,} rows {', '.join(f'{count:,} {said}' for count, said in words)}"


def unfinished(run: RunRow) -> str:
    """Say what makes a report less than the whole story; empty where the run came to its end."""
    return {
        RunState.RUNNING: "The run is not over: rows are missing, and those that are here may change",
        RunState.INTERRUPTED: "The run was interrupted, so rows are missing; "
        f"to go on with it: invoke {run.kind.value} --resume {run.id}",
        RunState.FAILED: "The run failed: what it did not come to is not measured",
    }.get(run.state, "")


def main_reason(entries: Sequence[Entry]) -> Reason | None:
    """Return why most of the entries do not count; None where nothing is known. Of equals the first."""
    reasons = [found for entry in entries if not entry.valid for found in _reasons(entry)]
    order = Counter(key for key, _ in reasons).most_common(1)
    if not order:
        return None
    key, count = order[0]
    return Reason(rule=key[0], text=next(text for each, text in reasons if each == key), count=count)


def _reasons(entry: Entry) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what is held against an entry: its rules, equal whatever their numbers, or its cause."""
    rules = [found for found in entry.findings if found.verdict is not Verdict.VALID]
    told: set[str] = set()
    for found in rules:
        if found.rule not in told:
            told.add(found.rule)
            yield (found.rule, ""), one_line(found.text, _REASON)
    if not rules and entry.cause:
        yield ("", entry.cause), one_line(entry.cause, _REASON)


def _because(entries: Sequence[Entry]) -> str:
    reason = main_reason(entries)
    if reason is None:
        return ""
    if len(entries) == 1:
        return f" ({reason.text})"
    if reason.count == 1:
        return f". For instance: {reason.text}"
    rule = f"{reason.rule}, " if reason.rule else ""
    return f". The main reason: {reason.text} ({rule}{reason.count:,} rows)"

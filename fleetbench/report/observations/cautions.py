"""What the verdicts hold against entries, each thing once for all that it is about. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.observations.said import Said, counted, listed, name
from fleetbench.report.tables.shown import section
from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.table import rule_table

# What a reader of a table has to hear first -> in words that need no row.
_LEADS = {
    "context-unused": "The context length was varied but not exercised",
    "eager-mode": "Measured in eager mode, without CUDA graphs",
    "stalled": "The work stood still for a while, so the mean is none of the configuration",
    "same-prompt": "Every request sent the same prompt",
    "contradicts": "Two figures for one configuration",
}
_FEW = 6  # rows are named up to here


def said_of_cautions(entries: Sequence[Entry], *, without: str = "") -> Iterator[Said]:
    """Yield one sentence for each rule that objects to an entry, the most frequent first.

    `without` is a rule of which enough was said already.
    """
    about: dict[str, list[tuple[Entry, Finding]]] = {}
    for entry in entries:
        for found in entry.findings:
            if found.verdict is not Verdict.VALID and found.rule != without:
                about.setdefault(found.rule, []).append((entry, found))
    for rule, pairs in sorted(about.items(), key=lambda item: -len(item[1])):
        rows = list({id(entry): entry for entry, _ in pairs}.values())
        first, finding = pairs[0]
        which = "" if len(rows) == len(entries) or len(rows) > _FEW else f": {listed(map(_where, rows))}"
        example = one_line(finding.text, 160)
        how_many = counted(rows, entries, "row")
        yield Said(
            topic="caution",
            text=f"{_lead(rule)} ({rule}, {how_many}{which}). For instance {_where(first)}: {example}",
        )


def said_of_single_figures(entries: Sequence[Entry]) -> Iterator[Said]:
    """Say once of imported figures that nothing is known of their noise."""
    if any(entry.imported for entry in entries):
        yield Said(
            topic="caution",
            text="Each figure was given once, so nothing is known of its noise: no rank and no ratio here "
            "claims that it would come out so again",
        )


def _lead(rule: str) -> str:
    try:
        title = rule_table().rule(rule).title
    except KeyError:  # kept by a later or earlier fleetbench
        title = rule
    return _LEADS.get(rule) or f"{title[:1].upper()}{title[1:]}"


def _where(entry: Entry) -> str:
    return f"{name(entry)} in {section(entry)}" if section(entry) != entry.table else name(entry)

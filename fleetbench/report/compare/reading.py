"""The entries that a selector means, from the store, with what the runs' directories say of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleetbench.errors import Unreadable, UsageError, one_line
from fleetbench.model import TrialState
from fleetbench.report.compare.conditions import Evidence, of_imported, of_own
from fleetbench.report.compare.measured_with import NO_DOCUMENT, document, text_at
from fleetbench.report.compare.pairs import Subject
from fleetbench.report.compare.selectors import (
    FIELDS,
    Filter,
    Selector,
    chosen,
    matching,
    nothing_fits,
    shown,
)
from fleetbench.report.entry import Entry
from fleetbench.report.files import sample_reader
from fleetbench.report.groups import start_of
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import Report, summarise
from fleetbench.results import raw_files
from fleetbench.results.rows import UNFINISHED, Json, MeasurementKind, RunRow, RunState, TrialRow

if TYPE_CHECKING:
    from fleetbench.results.store import Store

LARGEST_DOCUMENT = 4 * 1024 * 1024
# What `--resume` does not take up again.
_SETTLED = (TrialState.MEASURED, TrialState.FAILED, TrialState.IMPLIED)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the things compared.

    Attributes:
        label: short: an id, or the value of what is compared by. about: what it is, for people.
        told: fields that its selector names.
        sources: ids of runs and imports.
    """

    label: str
    about: str
    subjects: tuple[Subject, ...]
    told: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()


def read_side(store: Store, selector: Selector) -> Side:
    """Return the entries that a selector means; UsageError, with what there is, when it means none."""
    return _imported(store, selector) if selector.imported else _own(store, selector)


def split(store: Store, selector: Selector, key: str) -> dict[str, Side]:
    """Return what a selector means by the values of a field, in the order in which these appear."""
    if FIELDS[key].trial and not selector.imported:
        run = store.run(selector.source)
        trials = _trials(store, run, selector)
        found = _words(store.directory(run.id), trials, key)
        values = dict.fromkeys(shown(found[trial.number]) for trial in trials)
        return {value: read_side(store, _narrowed(selector, key, value)) for value in values}
    side = read_side(store, selector)
    groups: dict[str, list[Subject]] = {}
    for subject in side.subjects:
        groups.setdefault(shown(FIELDS[key].of(subject.entry)), []).append(subject)
    return {value: replace(side, subjects=tuple(group)) for value, group in groups.items()}


def trial_numbers(report: Report, entry: Entry) -> tuple[int, ...]:
    """Return the trials that an entry is made of: one for each start."""
    starts = {seen.start for several in entry.observations.values() for seen in several} - {""}
    return tuple(
        row.trial.number
        for row in report.rows
        if row.workload == entry.workload and (row.trial.number == entry.trial or start_of(row) in starts)
    )


def _narrowed(selector: Selector, key: str, value: str) -> Selector:
    return replace(selector, filters=(*selector.filters, Filter(key=key, value=value, exact=True)))


def _imported(store: Store, selector: Selector) -> Side:
    source = store.imported(selector.source)
    rows = store.imported_rows(source.id)
    about = {f"row {row.position}": row.row for row in rows}
    entries = entries_of_import(source, rows)
    if selector.part is not None:
        entries = tuple(entry for entry in entries if entry.place == f"row {selector.part}")
        if not entries:
            raise UsageError(f"{source.id} has no row {selector.part}", cause=f"it has 1 to {len(rows)}")
    subjects = tuple(
        Subject(entry=entry, conditions=of_imported(entry, about[entry.place]), made_at=source.imported_at)
        for entry in chosen(entries, selector.filters, selector.text)
    )
    title = one_line(source.provenance.title or source.name, 80)
    return Side(
        label=f"{source.id}{selector.narrowing}",
        about=f"imported, {title}",
        subjects=subjects,
        told=selector.told,
        sources=(source.id,),
    )


def _own(store: Store, selector: Selector) -> Side:
    run = store.run(selector.source)
    directory = store.directory(run.id)
    trials = _trials(store, run, selector)
    report = summarise(run, trials, store.measurements(run.id), sample_reader(directory))
    left = {trial.number: _evidence(directory, trial) for trial in trials}
    filters = tuple(each for each in selector.filters if not FIELDS[each.key].trial)
    subjects = tuple(
        _subject(directory, report, entry, [left[number] for number in trial_numbers(report, entry)])
        for entry in chosen(entries_of_run(report), filters, selector.text)
    )
    of = f"{run.kind.value} {one_line(run.sweep, 40)}".strip()
    state = f", {run.state.value}" if run.state is not RunState.DONE else ""
    about = f"{of} of {one_line(run.model, 60)}, {run.created_at}{state}"
    return Side(
        label=f"{run.id}{selector.narrowing}",
        about=about,
        subjects=subjects,
        told=selector.told,
        sources=(run.id,),
    )


def _subject(directory: Path, report: Report, entry: Entry, left: Sequence[Evidence]) -> Subject:
    run = report.run
    found = [replace(each, prompts=_prompts(directory, report, each.trial, entry)) for each in left]
    return Subject(
        entry=entry,
        conditions=of_own(entry, run, found),
        made_at=f"{run.created_at} {run.id}",
        over=run.state not in UNFINISHED or all(each.trial.state in _SETTLED for each in left),
    )


def _trials(store: Store, run: RunRow, selector: Selector) -> tuple[TrialRow, ...]:
    """Return the trials that a selector leaves; starts on several hosts are one entry afterwards."""
    trials = store.trials(run.id)
    if selector.part is not None:
        numbers = [trial.number for trial in trials]
        trials = tuple(trial for trial in trials if trial.number == selector.part)
        if not trials:
            has = f"it has {min(numbers)} to {max(numbers)}" if numbers else "it has none"
            raise UsageError(
                f"run {run.id} has no trial {selector.part}",
                cause=has,
                next_step=f"fleetbench runs show {run.id}",
            )
    for each in selector.filters:
        if FIELDS[each.key].trial:
            words = _words(store.directory(run.id), trials, each.key)
            found = matching(trials, lambda trial, words=words: words[trial.number], each)  # type: ignore[misc]
            if not found:
                raise nothing_fits(selector.text, each, words.values())
            trials = found
    return trials


def _words(directory: Path, trials: Iterable[TrialRow], key: str) -> dict[int, str]:
    """Return host or version of each trial; a server that never answered did not say its version."""
    if key == "host":
        return {trial.number: trial.host for trial in trials}
    return {
        trial.number: trial.vllm_version
        or text_at(
            _document(_place(directory, trial), "versions.json"), "server", "packages", "vllm"
        ).partition("+")[0]
        for trial in trials
    }


def _evidence(directory: Path, trial: TrialRow) -> Evidence:
    place = _place(directory, trial)
    return Evidence(
        trial=trial,
        versions=_document(place, "versions.json"),
        facts=_document(place, "facts-before.json"),
    )


def _prompts(directory: Path, report: Report, trial: TrialRow, entry: Entry) -> tuple[str, ...]:
    """Return the sums of the prompt file that a trial's repeats of an entry's workload were sent from."""
    if not entry.workload.prompts:
        return ()
    found = (
        text_at(_document(directory / each.directory, "witness.json"), "prompts_sha256")
        for each in report.measurements
        if each.trial == trial.number
        and each.kind is MeasurementKind.MEASURE
        and trial.workloads[each.workload_index] == entry.workload
    )
    return tuple(dict.fromkeys(text for text in found if _SHA256.fullmatch(text)))


def _place(directory: Path, trial: TrialRow) -> Path:
    return directory / f"trial-{trial.number:02d}"


def _document(place: Path, name: str) -> Mapping[str, Json]:
    try:
        stored = raw_files.stored_name(place, name)
        if not stored or (place / stored).stat().st_size > LARGEST_DOCUMENT:
            return NO_DOCUMENT
        return document(raw_files.read(place, name))
    except (OSError, Unreadable):
        return NO_DOCUMENT

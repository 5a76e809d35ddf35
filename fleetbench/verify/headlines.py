"""The numbers of the report, from raw files instead of from the store; and the tables that it wrote."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fleetbench.report.columns import Table, measurement_table, summary_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.files import sample_reader
from fleetbench.report.summary import summarise
from fleetbench.results.rows import UNFINISHED, Json, MeasurementRow
from fleetbench.verify.claims import Checked, Unchecked, claims
from fleetbench.verify.derived import FROM_ELSEWHERE, Derived
from fleetbench.verify.material import Material

_LARGEST_TABLE = 64_000_000
# What names a row of each table of a report.
_TABLES = {
    "summary.csv": (summary_table, ("trial", "workload_index")),
    "measurements.csv": (measurement_table, ("trial", "workload_index", "kind", "repeat")),
}


def statistics(whole: Material, derived: Mapping[str, Derived]) -> Iterator[Checked]:
    """Medians, ranges and spreads of each configuration."""
    trials = [case.row for case in whole.trials]
    stored = summarise(whole.run, trials, (*(case.row for case in whole.measurements), *whole.unfinished))
    rows = [_from_files(case.row, derived[case.place]) for case in whole.measurements]
    found = summarise(whole.run, trials, (*rows, *whole.unfinished))
    make, key_names = _TABLES["summary.csv"]
    before, after = (_numbers(make(report), key_names) for report in (stored, found))
    lacks: dict[tuple[int, int], str] = {}
    for case in whole.measurements:
        if why := derived[case.place].lacks:
            lacks.setdefault((case.row.trial, case.row.workload_index), why)
    names = {(row.trial.number, row.workload_index): row for row in stored.rows}
    for key, numbers in before.items():
        which = int(key[0]), int(key[1])
        place = f"{names[which].name}, {names[which].workload.label}"
        source, why = "the raw files of its repeats", lacks.get(which, "")
        yield from claims(place, numbers, after.get(key, {}), source, "report: ", lacks=why)


def tables(whole: Material, _: Mapping[str, Derived]) -> Iterator[Checked]:
    """The tables that `fleetbench report` wrote last, against the store."""
    if whole.run.state in UNFINISHED:
        return
    rows = tuple(case.row for case in whole.measurements)
    read = sample_reader(whole.directory)
    report = summarise(whole.run, [case.row for case in whole.trials], rows, read)
    for name, (make, key) in _TABLES.items():
        path = whole.directory / "report" / name
        if not path.is_file():
            continue
        try:
            text = path.read_text("utf-8") if path.stat().st_size <= _LARGEST_TABLE else ""
            written = list(csv.DictReader(io.StringIO(text)))
        except (OSError, ValueError, csv.Error):
            written = []
        if not written:
            yield Unchecked(place=f"report/{name}", name="its numbers", why="it is no table")
            continue
        yield from _cells(name, make(report), written, key)


def _cells(name: str, table: Table, written: list[dict[str, str]], key: tuple[str, ...]) -> Iterator[Checked]:
    shown = _by_key(list(csv.DictReader(io.StringIO(csv_text(table)))), key)
    there = _by_key(written, key)
    numeric = {column for row in _numbers(table, key).values() for column in row}
    for identity, row in shown.items():
        which = " ".join(f"{part} {value}" for part, value in zip(key, identity, strict=True))
        common = [column for column in row if column in numeric and column in written[0]]
        stored: dict[str, Json] = {column: row[column] for column in common}
        found: dict[str, Json] = {column: there.get(identity, {}).get(column) for column in common}
        yield from claims(f"report/{name}, {which}", stored, found, name)


def _by_key(rows: list[dict[str, str]], key: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, str]]:
    return {tuple(str(row.get(part, "")) for part in key): row for row in rows}


def _numbers(table: Table, key: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, Json]]:
    """Return the cells that hold numbers, by what names their row."""
    return {
        tuple(str(row[part]) for part in key): {
            name: cell
            for name, cell in row.items()
            if isinstance(cell, int | float) and not isinstance(cell, bool)
        }
        for row in table.objects()
    }


def _from_files(row: MeasurementRow, derived: Derived) -> MeasurementRow:
    if any(one.rule in FROM_ELSEWHERE for one in row.findings):
        return row
    return replace(row, result=derived.result, verdict=derived.verdict or row.verdict)

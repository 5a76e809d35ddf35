"""All rows of one run as they stand in the database, as JSON and back. Pure but for a look at the clock.

The way back takes text that somebody sent: every column is checked before a row is made of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, get_args, get_type_hints

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, Integer, Table

from fleetbench.errors import Unreadable, one_line
from fleetbench.model import Config, Workload
from fleetbench.results import bounded_json
from fleetbench.results.records import (
    ALL_AT_ONCE,
    LARGEST_INTEGER,
    loan_of,
    measurement_of,
    run_of,
    storable,
    trial_of,
)
from fleetbench.results.rows import UNFINISHED, RunState
from fleetbench.results.schema import LOANS, MEASUREMENTS, RUNS, TRIALS
from fleetbench.results.store_runs import RUN_ID

Row = dict[str, Any]
# Where a row stands in this store, which is no part of what was measured.
OF_THIS_STORE = "origin"
LONGEST_TEXT = 4_000_000  # a journal's excerpt, a unit's text
MOST_ROWS = 1_000_000
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
CLOCKS_DIFFER = timedelta(days=1)  # the other controller's from this one's


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """A run, its trials, measurements and loans: column names and values, in the order of their keys."""

    run: Row
    trials: tuple[Row, ...] = ()
    measurements: tuple[Row, ...] = ()
    loans: tuple[Row, ...] = ()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["id"])

    @property
    def is_open(self) -> bool:
        """Whether a controller would act on it: the run may go on, or a unit is still on loan."""
        returned = all(loan["returned_at"] for loan in self.loans)
        return RunState(self.run["state"]) in UNFINISHED or not returned


def records_document(records: RunRecords) -> dict[str, Any]:
    """Return the rows as JSON-able mapping; what only this store knows is left out."""
    return {
        "run": {name: _written(value) for name, value in records.run.items() if name != OF_THIS_STORE},
        **{
            name: [{key: _written(value) for key, value in row.items()} for row in getattr(records, name)]
            for name in ("trials", "measurements", "loans")
        },
    }


def read_records(content: bytes, source: str) -> RunRecords:
    """Given the JSON that `records_document` became, return the rows; `source` names it in errors.

    Unreadable, with the place, when a column is unknown or has a value that this fleetbench never stores.
    """
    try:
        document = storable(bounded_json.loads(content))
        found = RunRecords(
            run=_checked(RUNS, document["run"], "run", run_of),
            trials=_table(TRIALS, document["trials"], trial_of),
            measurements=_table(MEASUREMENTS, document["measurements"], measurement_of),
            loans=_table(LOANS, document["loans"], loan_of),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        raise Unreadable(
            f"{one_line(source)}: its rows cannot be read",
            cause=one_line(f"{type(exc).__name__}: {exc}", 200),
        ) from exc
    if problem := _out_of_place(found):
        raise Unreadable(f"{one_line(source)}: its rows do not belong together", cause=problem)
    return found


def _written(value: Any) -> Any:
    return ALL_AT_ONCE if isinstance(value, float) and math.isinf(value) else value


def _table(table: Table, rows: Any, made: Callable[[Row], object]) -> tuple[Row, ...]:
    if not isinstance(rows, list) or len(rows) > MOST_ROWS:
        raise TypeError(f"{table.name} is not a list of at most {MOST_ROWS:,} rows")
    return tuple(
        _checked(table, row, f"{table.name} {place}", made) for place, row in enumerate(rows, start=1)
    )


def _checked(table: Table, row: Any, place: str, made: Callable[[Row], object]) -> Row:
    """Return a row whose columns are all there and have values of their kinds, and of which a value is made.

    A column that came later than the archive has the value that a new row has.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"{place} is not an object")
    columns = [column for column in table.columns if column.name != OF_THIS_STORE]
    if unknown := sorted(set(row) - {column.name for column in columns}):
        raise LookupError(f"{place} has a column {unknown[0]}")
    found = {column.name: _of_column(column, row, place) for column in columns}
    if table is RUNS:
        found[OF_THIS_STORE] = ""
    made(found)
    return found


def _of_column(column: Column[Any], row: Mapping[str, Any], place: str) -> Any:
    if column.name not in row:
        default: Any = column.server_default
        if default is None and not column.nullable:
            raise LookupError(f"{place} has no {column.name}")
        text = "" if default is None else str(default.arg)
        return None if default is None else json.loads(text) if isinstance(column.type, JSON) else text
    value = row[column.name]
    if column.name == "request_rate" and value == ALL_AT_ONCE:
        return math.inf
    if value is None and column.nullable and not isinstance(column.type, JSON):
        return None
    if not _is_of(column, value):
        raise TypeError(f"{place}: {column.name} = {str(value)[:40]!r}")
    return float(value) if isinstance(column.type, Double) else value


def _is_of(column: Column[Any], value: Any) -> bool:
    if isinstance(column.type, JSON):
        return _JSON[column.name](value)
    if isinstance(column.type, Boolean):
        return isinstance(value, bool)
    if isinstance(column.type, Double):
        return _is_number(value)
    if isinstance(column.type, Integer):
        most = LARGEST_INTEGER if isinstance(column.type, BigInteger) else 2**31 - 1
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        return False
    empty = value == "" and column.server_default is not None
    return not column.name.endswith("_at") or empty or _is_moment(value)


def _is_moment(text: str) -> bool:
    """A time as the store writes it, and none to come: the latest run is the one that was created last."""
    try:
        moment = datetime.strptime(text, MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return False
    return f"{moment:{MOMENT}}" == text and moment <= datetime.now(UTC) + CLOCKS_DIFFER


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_INTEGER


def _is_list_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65_535


def _is_object(value: Any) -> bool:
    """Plain JSON with text as keys, and only numbers that a database takes."""
    return isinstance(value, dict) and all(map(_is_plain, value.values()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return _is_object(value) or value is None or isinstance(value, bool | str) or _is_number(value)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_finding(value: Any) -> bool:
    known = {"rule", "verdict", "text"}
    return (
        isinstance(value, dict)
        and known <= set(value) <= {*known, "numbers"}
        and all(_is_text(value[name]) for name in known)
        and _is_numbers(value.get("numbers", {}))
    )


def _is_noun(noun: type[Config | Workload]) -> Callable[[Any], bool]:
    """Return what says whether a document's values are of the kinds that the noun's fields have."""
    hints = get_type_hints(noun)

    def fits(value: Any) -> bool:
        return isinstance(value, dict) and all(
            _is_declared(value[entry.name], hints[entry.name])
            for entry in fields(noun)
            if entry.name in value
        )

    return fits


def _is_declared(value: Any, hint: Any) -> bool:
    kinds = get_args(hint) if hint in (int | None, float | None) else (hint,)
    if tuple[str, ...] in kinds:
        return _is_list_of(_is_text)(value)
    if value is None or isinstance(value, bool):
        return (type(None) if value is None else bool) in kinds
    return _is_number(value) if float in kinds else isinstance(value, tuple(kinds))


_JSON: dict[str, Callable[[Any], bool]] = {
    "hosts": _is_list_of(_is_text),
    "arguments": _is_object,
    "config": _is_noun(Config),
    "workloads": _is_list_of(_is_noun(Workload)),
    "effective": _is_object,
    "predicted": _is_object,
    "packed_with": _is_list_of(_is_port),
    "member_ports": _is_list_of(_is_port),
    "reasons": _is_list_of(_is_text),
    "latencies": _is_numbers,
    "extra": _is_numbers,
    "findings": _is_list_of(_is_finding),
    "telemetry": _is_object,
    "ceiling": _is_object,
}


def _out_of_place(records: RunRecords) -> str:
    """Return what does not fit together, or leads out of the run's directory; empty when all is well."""
    if RUN_ID.fullmatch(records.run_id) is None:
        return f"{one_line(records.run_id, 60)} is not a run id"
    if {row["run_id"] for row in _below(records)} - {records.run_id}:
        return "a row belongs to another run"
    for table in (TRIALS, MEASUREMENTS, LOANS):
        keys = [column.name for column in table.primary_key.columns]
        rows = getattr(records, table.name)
        if len({tuple(row[key] for key in keys) for row in rows}) < len(rows):
            return f"one of its {table.name} is there twice"
    workloads = {row["number"]: len(row["workloads"]) for row in records.trials}
    for row in records.measurements:
        if not 0 <= row["workload_index"] < workloads.get(row["trial"], 0):
            return f"a measurement is of trial {row['trial']}, workload {row['workload_index']}"
        if not is_below(row["directory"] or "."):
            return f"a measurement lies in {one_line(row['directory'], 60)}"
    return ""


def _below(records: RunRecords) -> Iterable[Row]:
    return (*records.trials, *records.measurements, *records.loans)


def is_below(path: str) -> bool:
    """Whether a relative path stays below where it starts, and can be shown as it is."""
    pure = PurePosixPath(path)
    return not pure.is_absolute() and ".." not in pure.parts and re.search(r"[\x00\\]", path) is None

"""Which names a mapping may give to a column, and a row made of named values."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, get_type_hints

from fleetbench.errors import one_line
from fleetbench.results.imports.values import Conditions, ForeignRow
from fleetbench.results.parse.draft import is_latency
from fleetbench.results.values import BenchResult

# Numbers that a vLLM client does not report and rules use all the same; SGLang's name where it has one.
EXTRA = {
    "input_throughput": "prompt tokens per second over all requests",
    "request_output_tps": "generated tokens per second of one request, mean over requests",
    "request_input_tps": "prompt tokens per second of one request, mean over requests",
    "mean_input_tokens": "prompt tokens of a request, mean",
    "mean_output_tokens": "generated tokens of a request, mean",
    "achieved_concurrency": "requests in flight, mean over the run",
}
KEPT = "extra."  # a column that is kept under its own name, and that no rule looks at
ABOUT = ("table", "label")
_LONGEST_TEXT = 400
_OWN_NAME = re.compile(r"[a-z][a-z0-9_.]{0,60}")
_PLAIN = re.compile(r"\d{1,18}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?")
_LARGEST = 10**18


@dataclass(frozen=True, slots=True)
class Field:
    """A value that a row can have: `kind` is `int`, `float`, `bool` or `str`, `home` where it is kept."""

    name: str
    kind: type
    home: str


def _fields_of(owner: type, home: str, left_out: tuple[str, ...] = ()) -> dict[str, Field]:
    hints = get_type_hints(owner)
    found = {}
    for entry in fields(owner):
        if entry.name not in left_out:
            hint = str(hints[entry.name])
            kind = next((k for k in (bool, float, int) if k.__name__ in hint), str)
            found[entry.name] = Field(entry.name, kind, home)
    return found


FIELDS: Mapping[str, Field] = MappingProxyType(
    _fields_of(BenchResult, "result", ("latencies", "extra"))
    | _fields_of(Conditions, "conditions")
    | {name: Field(name, float, "extra") for name in EXTRA}
    | {name: Field(name, str, "about") for name in ABOUT}
)


def field_named(name: str) -> Field | None:
    """Return the field of that name: one of the table, a latency such as `p99_ttft_ms`, or `extra.NAME`."""
    if found := FIELDS.get(name):
        return found
    if is_latency(name):
        return Field(name, float, "latency")
    own = name.removeprefix(KEPT)
    return Field(own, float, "extra") if own != name and _OWN_NAME.fullmatch(own) else None


def near(name: str) -> str:
    """Return a hint at the field that may be meant, empty when none is alike."""
    known = [*FIELDS, "mean_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "mean_e2el_ms", "p99_ttft_ms"]
    found = difflib.get_close_matches(name[:100].lower(), known, n=1)
    return f"did you mean {found[0]}?" if found else f"{KEPT}NAME keeps a number that no rule looks at"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, or None with the reason; an empty cell is None without one."""

    value: int | float | bool | str | None
    reason: str = ""


def read_cell(field: Field, cell: object, *, factor: float = 1.0, decimal: str = ".") -> Cell:
    """Given a cell of a table (text, or a number from TOML or JSON), return the value for its field.

    Numbers are multiplied by `factor`; text that is no plain number in the given decimal mark is refused,
    as are negative and non-finite numbers: they mark what was not measured.
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return Cell(None)
    if field.kind is str:
        return Cell(one_line(str(cell), _LONGEST_TEXT))
    if field.kind is bool:
        words = {"true": True, "yes": True, "false": False, "no": False}
        found = cell if isinstance(cell, bool) else words.get(str(cell).strip().lower())
        return Cell(found) if found is not None else Cell(None, f"{_shown(cell)} is neither true nor false")
    if field.name == "request_rate" and str(cell).strip().lower() == "inf":
        return Cell("inf")
    return _number(field, cell, factor, decimal)


def _number(field: Field, cell: object, factor: float, decimal: str) -> Cell:
    if isinstance(cell, str):
        text = cell.strip()
        if decimal == ",":
            text = text.replace(",", ".") if "." not in text else "?"
        if _PLAIN.fullmatch(text) is None:
            return Cell(None, f"{_shown(cell)} is not a plain number with decimal mark '{decimal}'")
        value = float(text)
    elif isinstance(cell, bool) or not isinstance(cell, int | float) or abs(cell) > _LARGEST:
        return Cell(None, f"{_shown(cell)} is not a number")
    else:
        value = float(cell)
    value *= factor
    if not math.isfinite(value) or not 0 <= value <= _LARGEST:
        return Cell(None, f"{_shown(cell)} is negative or not finite: a marker, not a measurement")
    # A factor such as 0.001 leaves what no source printed: 3.8149999999999995.
    value = float(f"{value:.12g}") if factor != 1.0 else value
    if field.kind is int:
        rounded = round(value)
        if abs(value - rounded) > 1e-9 * max(1.0, abs(value)):
            return Cell(None, f"{_shown(cell)} is not a whole number")
        return Cell(rounded)
    return Cell(value)


def _shown(cell: object) -> str:
    return f"'{one_line(str(cell), 60)}'"


def row_of(
    values: Mapping[str, Any], *, form: str, place: str, problems: tuple[str, ...] = (), table: str = ""
) -> ForeignRow:
    """Given values by field name, return the row; names that are no fields must have been refused before."""
    homes: dict[str, dict[str, Any]] = {
        home: {} for home in ("result", "conditions", "latency", "extra", "about")
    }
    for name, value in values.items():
        field = field_named(name)
        if field is not None and value is not None:
            homes[field.home][field.name] = value
    result = BenchResult(
        **homes["result"],
        latencies=MappingProxyType({name: float(value) for name, value in homes["latency"].items()}),
        extra=MappingProxyType({name: float(value) for name, value in homes["extra"].items()}),
    )
    return ForeignRow(
        table=homes["about"].get("table", table),
        label=homes["about"].get("label", ""),
        place=place,
        form=form,
        conditions=Conditions(**homes["conditions"]),
        result=result,
        problems=problems,
    )

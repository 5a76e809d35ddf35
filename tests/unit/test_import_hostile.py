"""Whatever a file to import holds: rows or one of our errors, never anything else."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetbench.errors import FleetbenchError
from fleetbench.results.imports.fields import FIELDS, Field, read_cell
from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.render import documents, table_rows
from fleetbench.results.imports.values import ImportedRow

FIXTURES = Path(__file__).parents[1] / "fixtures" / "imports"
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 10**400, 1e308, math.nan, math.inf, -math.inf, 2**63]),
    st.text(max_size=20),
    st.just("\x1b[2J\r\x00\ud800"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


def _import(name: str, text: str, mapping: str | None = None) -> tuple[ImportedRow, ...]:
    given_ = None if mapping is None else ("m.toml", mapping)
    with contextlib.suppress(FleetbenchError):
        source = read_source(name, [(name, text)], given_)
        rows = judged(source)
        for found in rows:
            for value in (*found.row.result.latencies.values(), *found.row.result.extra.values()):
                assert math.isfinite(value)
                assert value >= 0
        shown = json.dumps(documents(source, rows), allow_nan=False)
        assert "\\u001b" not in shown
        assert table_rows(rows)
        return rows
    return ()


@SLOW
@given(
    st.text(max_size=300), st.sampled_from(["a.json", "a.csv", "a.tsv", "a.toml", "a.txt", "a", "a.jsonl"])
)
def test_any_text_under_any_name_is_rows_or_an_error_of_ours(text: str, name: str) -> None:
    _import(name, text)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


@pytest.mark.parametrize("name", ["guidellm.json", "aiperf.json"])
@SLOW
@given(data=st.data())
def test_an_export_with_any_value_in_any_place_is_rows_or_an_error_of_ours(
    name: str, data: st.DataObject
) -> None:
    document = json.loads((FIXTURES / name).read_text("utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_places(document)))
        document = _put(document, path, data.draw(HOSTILE)) if len(path) else document
    _import(name, json.dumps(document))


@SLOW
@given(st.lists(st.lists(st.text(max_size=12), max_size=4), max_size=5), st.sampled_from([",", ";", "\t"]))
def test_any_table_through_a_mapping_is_rows_or_an_error_of_ours(cells: list[list[str]], mark: str) -> None:
    text = "\n".join(mark.join(row) for row in [["a", "b", "c"], *cells])
    mapping = f'delimiter = "{mark}"\n'.replace("\t", "\\t")
    mapping += (
        '[columns]\na = "label"\nb = { field = "mean_ttft_ms", factor = 1e9 }\nc = "output_throughput"\n'
    )
    for found in _import("t.csv", text, mapping):
        assert len(found.row.label) <= 400


@SLOW
@given(st.sampled_from(sorted(FIELDS.values(), key=lambda field: field.name)), HOSTILE)
def test_a_cell_is_a_value_of_its_field_or_a_reason(field: Field, cell: object) -> None:
    read = read_cell(field, cell)
    if read.value is None:
        return
    if field.kind is int:
        assert type(read.value) is int
    elif field.kind is float:
        assert isinstance(read.value, float) or (field.name, read.value) == ("request_rate", "inf")
    else:
        assert isinstance(read.value, field.kind)


def test_deep_and_wide_json_is_refused_or_read_in_bounds() -> None:
    assert _import("a.json", '{"request_latency": ' + "[" * 100_000) == ()
    wide = {
        "request_latency": {"unit": "ms", "avg": 1.0},
        "input_config": {str(n): {} for n in range(50_000)},
    }
    (found,) = _import("a.json", json.dumps(wide))
    assert found.row.result.latencies["mean_e2el_ms"] == 1.0


def test_a_row_longer_than_its_headings_gives_nothing_away() -> None:
    rows = _import("t.csv", "output_throughput,completed\n1,2,3\n4,5\n")
    assert [found.row.result.output_throughput for found in rows] == [None, 4.0]
    assert rows[0].row.problems == ("3 cells, 2 headings: nothing is taken from it",)

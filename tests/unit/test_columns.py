"""One name, one meaning: every column of every view and file is described, and changes with its version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import pytest

from fleetbench.report.columns import measurement_columns, summary_columns
from fleetbench.report.imported import imported_columns
from fleetbench.report.requests import REQUEST_COLUMNS
from fleetbench.results import dictionary
from fleetbench.results.dictionary import Kind, meaning, version
from fleetbench.results.views import Dialect, views
from fleetbench.telemetry.figures import figures

TABLES: Mapping[str, Sequence[str]] = {
    **{view.name: tuple(view.columns) for view in views(Dialect.SQLITE)},
    "summary.csv": summary_columns(),
    "measurements.csv": measurement_columns(),
    "requests": REQUEST_COLUMNS,
    "imported.csv": imported_columns(),
}

# The columns of each version, as a hash. Where this fails: raise `version` in fleetbench/data/columns.toml,
# add a line here and one to the changelog. Before a version is released, its line may be put right instead.
KNOWN = {1: "a053f4c904767126"}


def fingerprint() -> str:
    """Return a hash over every table's columns with their kinds and units, in their order."""
    described = [
        (table, *((each.name, each.kind.value, each.unit) for each in map(described_as, columns)))
        for table, columns in sorted(TABLES.items())
    ]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


def described_as(name: str) -> dictionary.Meaning:
    found = meaning(name, figures())
    assert found is not None, f"{name} has no meaning in fleetbench/data/columns.toml"
    return found


def test_columns_change_with_a_version() -> None:
    assert KNOWN.get(version()) == fingerprint(), "see the comment at KNOWN"
    assert max(KNOWN) == version()


def test_a_column_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setitem(TABLES, "runs", (*TABLES["runs"], "seed"))  # type: ignore[arg-type]
    assert fingerprint() != before


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_meaning_and_stands_once(table: str) -> None:
    for name in TABLES[table]:
        found = described_as(name)
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert re.search(r"\w", found.text)
        assert not found.text.endswith(".")
    assert len(set(TABLES[table])) == len(TABLES[table])


def test_no_meaning_is_of_a_column_that_is_nowhere() -> None:
    used = {name for columns in TABLES.values() for name in columns}
    bases = {re.sub(r"_(min|max|low|high|cv_percent)$", "", name) for name in used}
    assert sorted(set(dictionary._meanings()) - used - bases) == []


def test_both_databases_have_the_same_columns() -> None:
    one, two = (
        [(view.name, view.text, list(view.columns)) for view in views(dialect)] for dialect in Dialect
    )
    assert one == two


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p99_ttft_ms", ("p99_ttft_ms", Kind.REAL, "ms", "p99 of the time to first token")),
        (
            "p99_ttft_ms_low",
            ("p99_ttft_ms_low", Kind.REAL, "ms", "p99_ttft_ms: lower end of the interval of 95 %"),
        ),
        (
            "steady_output_throughput",
            (
                "steady_output_throughput",
                Kind.REAL,
                "tok/s",
                "of the steady state: generated tokens by duration",
            ),
        ),
        ("gpu_power_w_mean", ("gpu_power_w_mean", Kind.REAL, "W", figures()["gpu_power_w_mean"])),
    ],
)
def test_a_name_that_is_made_of_others_has_their_meaning(name: str, expected: tuple[object, ...]) -> None:
    assert astuple(described_as(name)) == expected
    assert meaning("nonsense", figures()) is None
    assert meaning("nonsense_min") is None

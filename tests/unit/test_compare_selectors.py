"""What somebody types to say which rows are meant; hostile and mistyped words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from compared_runs import H100, H200, Case, put_run, store_in
from hypothesis import given
from hypothesis import strategies as st
from report_rows import CLOSED, SMALL

from fleetbench.errors import UsageError
from fleetbench.model import Config
from fleetbench.report.compare.reading import read_side
from fleetbench.report.compare.selectors import Filter, Selector, field_named, read_selector
from fleetbench.report.compare.sides import earlier_run, sides_by, two_sides
from fleetbench.results.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as opened:
        yield opened


def names(store: Store, text: str) -> list[tuple[str, str]]:
    """The rows that a text means, by configuration and load."""
    side = read_side(store, read_selector(text))
    return [(subject.entry.config.label, subject.entry.load) for subject in side.subjects]


def test_a_selector_is_a_source_a_part_and_filters() -> None:
    assert read_selector("latest") == Selector(text="latest", source="latest")
    assert read_selector("2026/3").part == 3
    found = read_selector("2026:TP=2, concurrency=64,gpu=H100")
    assert found.filters == (
        Filter(key="tp", value="2"),
        Filter(key="c", value="64"),
        Filter(key="gpu", value="H100"),
    )
    assert found.told == {"tp", "c", "gpu"}
    row = read_selector("imported/multi/12:table=3")
    assert (row.imported, row.source, row.part, row.told) == (True, "multi", 12, {"table"})
    assert read_selector("imported").source == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no entries"),
        (":tp=2", "names no entries"),
        ("a/b/c/d", "names no entries"),
        ("run/two", "a trial is a number"),
        ("imported/x/-1", "a row of an import is a number"),
        ("run:tp", "is no filter"),
        ("run:tp=", "is no filter"),
        ("run:" + ",".join(["tp=1"] * 21), "more than 20 filters"),
        ("run:colour=red", "nothing to choose rows by"),
    ],
)
def test_what_is_no_selector_is_refused_with_what_to_type(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_selector(text)


def test_a_mistyped_field_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError) as caught:
        field_named("concurency")
    assert "did you mean concurrency" in caught.value.next_step


@given(st.text(max_size=300))
def test_no_text_gets_through_as_anything_but_a_selector_or_a_usage_error(text: str) -> None:
    found, said = None, ""
    try:
        found = read_selector(text)
    except UsageError as exc:
        said = str(exc)
    assert len(said.splitlines()) <= 3
    assert said.replace("\n", "").isprintable()
    assert found is None or ("/" not in found.source and found.text.isprintable())


def test_trials_filters_and_their_values(store: Store) -> None:
    loads = (CLOSED, SMALL)
    run = put_run(
        store,
        Case(config=Config(), outputs=(1000, 1010), workloads=loads, scale=(1, 0.3)),
        Case(config=Config(tp=2), outputs=(1800, 1810), workloads=loads, scale=(1, 0.3)),
        Case(config=Config(tp=2), outputs=(2800, 2810), gpu=H200),
    )
    assert len(names(store, run)) == 5
    assert names(store, f"{run}/2") == [("tp=2 dp=1", CLOSED.label), ("tp=2 dp=1", SMALL.label)]
    assert names(store, f"{run}:tp=2,c=8") == [("tp=2 dp=1", SMALL.label)]
    assert [s.entry.gpu for s in read_side(store, read_selector(f"{run}:gpu=h200")).subjects] == [H200]
    assert len(names(store, f"{run}:gpu={H100}")) == 4
    with pytest.raises(UsageError, match="no row has tp=8") as caught:
        names(store, f"{run}:tp=8")
    assert caught.value.cause == "there is tp=1, 2"
    with pytest.raises(UsageError, match="has no trial 9") as caught:
        names(store, f"{run}/9")
    assert caught.value.cause == "it has 1 to 3"


def test_a_value_that_fits_exactly_counts_before_one_that_holds_it(store: Store) -> None:
    put_run(store, Case(outputs=(1, 2), host="lab-1"), Case(outputs=(1, 2), host="lab-10"))
    side = read_side(store, read_selector("latest:host=lab-1"))
    assert [subject.entry.host for subject in side.subjects] == ["lab-1"]
    assert len(read_side(store, read_selector("latest:host=lab")).subjects) == 1  # two starts of one entry
    assert read_side(store, read_selector("latest:host=lab")).subjects[0].entry.host == "lab-1, lab-10"


def test_previous_is_the_run_of_the_same_sweep_before_the_other_one(store: Store) -> None:
    first = put_run(store, Case(outputs=(1000, 1010)))
    put_run(store, Case(outputs=(1000, 1010)), sweep="another")
    put_run(store, Case(outputs=(1000, 1010)), model="other")
    last = put_run(store, Case(outputs=(1000, 1010)))
    for words in (("previous", "latest"), ("latest", "previous"), ("latest",)):
        baseline, other = two_sides(store, [read_selector(word) for word in words])
        assert (baseline.label, other.label) == (first, last), words
    with pytest.raises(UsageError, match="there is no sweep"):
        earlier_run(store, store.run(first))
    for words in (("previous",), ("previous", "previous"), ("a", "b", "c")):
        with pytest.raises(UsageError):
            two_sides(store, [read_selector(word) for word in words])


def test_by_splits_runs_by_host_version_and_field(store: Store) -> None:
    put_run(
        store,
        Case(outputs=(1000, 1010), host="lab-02", version="0.9.2"),
        Case(outputs=(1000, 1010), host="lab-01", version="0.10.0"),
    )
    latest = [read_selector("latest")]
    assert [side.label for side in sides_by(store, latest, "host")] == ["host=lab-02", "host=lab-01"]
    assert [side.label for side in sides_by(store, latest, "vllm")] == ["vllm=0.9.2", "vllm=0.10.0"]
    assert [len(side.subjects) for side in sides_by(store, latest, "vllm")] == [1, 1]
    with pytest.raises(UsageError, match="--by tp has nothing to compare") as caught:
        sides_by(store, latest, "tp")
    assert caught.value.cause == "there is only tp=1"
    put_run(store, Case(config=Config(tp=2), outputs=(1800, 1810)))
    both = [read_selector(text) for text in ("latest", "previous")]
    with pytest.raises(UsageError, match="previous"):
        sides_by(store, both, "tp")

"""What two entries were measured with, where it is easily taken for equal or for known: prompts, loads,
arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from compared_runs import Case, put_run, store_in
from report_rows import CLOSED

from fleetbench.cli import main
from fleetbench.errors import Exit
from fleetbench.model import Config
from fleetbench.report.compare.compared import Compared, compare_sides
from fleetbench.report.compare.conditions import grouped_words, with_values
from fleetbench.report.compare.selectors import read_selector
from fleetbench.report.compare.sides import two_sides
from fleetbench.results.store import Store

NOISE = (1000.0, 1010.0, 990.0)
OLD, NEW = "a" * 64, "b" * 64
FROM_FILE = replace(CLOSED, dataset="custom", prompts="prompts/mine.jsonl")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    with store_in(tmp_path) as opened:
        yield opened


def compared(store: Store, *words: str) -> Compared:
    baseline, other = two_sides(store, [read_selector(word) for word in words or ("previous", "latest")])
    return compare_sides(baseline, other)


def said(found: Compared) -> dict[str, tuple[str, str]]:
    return {each.key: (each.one, each.other) for each in found.differences}


# ---------------------------------------------------------------- prompts from a file


def put_sent(store: Store, *sums: object, path: str = FROM_FILE.prompts) -> str:
    """Store a run whose repeats each left the sum of the prompt file that they were sent from."""
    run = put_run(store, Case(outputs=NOISE, workloads=(replace(FROM_FILE, prompts=path),)))
    for row, found in zip(store.measurements(run), sums, strict=False):
        place = store.directory(run) / row.directory
        place.mkdir(parents=True, exist_ok=True)
        (place / "witness.json").write_text(json.dumps({"prompts_sha256": found}))
    return run


def test_a_prompt_file_that_was_changed_is_another_load(store: Store) -> None:
    put_sent(store, OLD, OLD, OLD)
    put_sent(store, NEW, NEW, NEW)
    (found,) = compared(store).in_the_way
    assert found.sentence == "prompts sha256 aaaaaaaaaaaaaaaa against sha256 bbbbbbbbbbbbbbbb"
    status = CliRunner().invoke(main, ["compare", "previous", "latest", "--fail-on", "regression:3%"])
    assert status.exit_code == Exit.FAILED
    assert "not one population" in status.stderr


def test_a_prompt_file_that_was_changed_between_repeats_is_another_load(store: Store) -> None:
    put_sent(store, OLD, OLD, OLD)
    put_sent(store, OLD, OLD, NEW)
    (found,) = compared(store).in_the_way
    assert found.other == "sha256 aaaaaaaaaaaaaaaa, sha256 bbbbbbbbbbbbbbbb"


def test_the_same_prompts_at_another_place_are_the_same(store: Store) -> None:
    put_sent(store, OLD, OLD, OLD)
    put_sent(store, OLD, OLD, OLD, path="/home/other/mine.jsonl")
    found = compared(store)
    assert not found.in_the_way
    assert "prompts" not in said(found)
    assert len(found.rows) == 1


@pytest.mark.parametrize("sums", [(), ("",) * 3, (3, [], None), ("<b>" * 20, "A" * 64, "b" * 63)])
def test_where_a_side_kept_no_sum_the_path_is_compared(store: Store, sums: tuple[object, ...]) -> None:
    put_sent(store, OLD, OLD, OLD)
    put_sent(store, *sums)
    found = compared(store)
    assert not found.in_the_way
    assert said(found)["prompts_content"] == ("sha256 aaaaaaaaaaaaaaaa", "not known")
    assert "prompts" not in said(found)
    put_sent(store, *sums, path="prompts/others.jsonl")
    assert [each.key for each in compared(store).in_the_way] == ["prompts"]


def test_what_prompts_hold_is_not_asked_of_a_load_without_a_file(store: Store) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(outputs=NOISE))
    found = compared(store)
    assert "prompts_content" not in said(found)
    assert "prompts" not in found.unknown


# ---------------------------------------------------------------- what a source does not say


def imported(tmp_path: Path, columns: str, *rows: list[str]) -> str:
    """Import rows of figures with some columns, output throughput first; return what selects them."""
    file = tmp_path / "theirs.toml"
    file.write_text(
        '[source]\ntitle = "theirs"\n[columns]\n'
        'output = "output_throughput"\nc = "max_concurrency"\nrate = "request_rate"\nlost = "failed"\n'
        f'[[table]]\ntitle = "one"\ncolumns = {json.dumps(columns.split())}\nrows = {json.dumps(rows)}\n'
    )
    done = CliRunner().invoke(main, ["import", str(file)])
    assert done.exit_code == 0, done.output
    return "imported/theirs"


def test_a_load_that_a_source_does_not_give_is_not_known(store: Store, tmp_path: Path) -> None:
    put_run(store, Case(outputs=NOISE))
    found = compared(store, imported(tmp_path, "output", ["1000"]), "latest")
    assert said(found)["concurrency"] == ("not known", "64")
    assert said(found)["rate"] == ("not known", "all at once")
    assert not {"concurrency", "rate"} & {each.key for each in found.in_the_way}
    assert found.rows[0].pair.short_load == "c=? → c=64"


def test_a_load_that_a_source_gives_is_compared(store: Store, tmp_path: Path) -> None:
    put_run(store, Case(outputs=NOISE))
    found = compared(store, imported(tmp_path, "output c rate", ["1000", "8", "inf"]), "latest")
    assert said(found)["concurrency"] == ("8", "64")
    assert "rate" not in said(found)
    assert "concurrency" in {each.key for each in found.in_the_way}


def test_a_load_that_is_not_known_is_no_pair_of_one_without_a_limit(store: Store, tmp_path: Path) -> None:
    put_run(
        store, Case(outputs=NOISE, workloads=(CLOSED, replace(CLOSED, max_concurrency=None)), scale=(1, 1))
    )
    found = compared(store, imported(tmp_path, "output c", ["900", ""], ["1000", "64"]), "latest")
    assert [row.pair.short_load for row in found.rows] == ["c=64"]
    assert len(found.missing) == 1


def test_of_imported_rows_that_are_alike_one_has_to_be_chosen(store: Store, tmp_path: Path) -> None:
    put_run(store, Case(outputs=NOISE))
    found = compared(
        store, imported(tmp_path, "output c lost", ["900", "64", "9"], ["1000", "64", "9"]), "latest"
    )
    assert not found.rows
    assert {each.why for each in found.missing} == {"2 rows fit (row 1, row 2): choose one"}
    assert not any(each.subject.entry.valid for each in found.missing)  # whatever they are worth


# ---------------------------------------------------------------- arguments


def arguments(seqs: int, threshold: int) -> Config:
    words = ("--max-num-seqs", str(seqs), "--long-prefill-token-threshold", str(threshold))
    return Config(serve_args=words)


X, Y, Z = arguments(256, 512), arguments(512, 256), arguments(256, 256)


def pairs_of(store: Store, one: tuple[Config, ...], other: tuple[Config, ...]) -> list[tuple[Config, Config]]:
    for configs in (one, other):
        put_run(store, *(Case(config=config, outputs=NOISE) for config in configs))
    rows = compared(store).rows
    return [(row.pair.baseline.entry.config, row.pair.other.entry.config) for row in rows]


def test_arguments_whose_values_are_exchanged_are_others(store: Store) -> None:
    assert pairs_of(store, (X, Y, Z), (X, Y, Z)) == [(X, X), (Y, Y), (Z, Z)]
    assert pairs_of(store, (X, Z), (Y, Z)) == [(Z, Z)]


def test_arguments_pair_however_they_are_written(store: Store) -> None:
    other = Config(serve_args=("--long-prefill-token-threshold=512", "--max-num-seqs=256"))
    assert pairs_of(store, (X, Z), (other, Z)) == [(X, other), (Z, Z)]


def test_long_arguments_differ_by_their_ends(store: Store) -> None:
    one, other = (Config(serve_args=("--speculative-config", f"{'{'}{'x' * 300}{end}")) for end in "ab")
    assert pairs_of(store, (one, other), (one, other)) == [(one, one), (other, other)]


def test_words_are_grouped_in_the_order_of_flags_and_values_in_theirs() -> None:
    assert with_values(("--b", "2", "--a=9", "--a", "1")) == ("--a 9", "--a 1", "--b 2")
    assert with_values(("--a", "1", "--a", "9")) != with_values(("--a", "9", "--a", "1"))
    assert grouped_words(("--b", "2", "--a=9", "--a", "1")) == ("--a 1", "--a 9", "--b 2")

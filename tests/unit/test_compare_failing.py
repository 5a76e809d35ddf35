"""`--fail-on` where it is easily passed: starts none of which is valid, totals, runs that go on, zeros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from compared_runs import Case, put_run, store_in

from fleetbench.cli import main
from fleetbench.errors import Exit, UsageError
from fleetbench.model import Config, Failure, TrialState
from fleetbench.report.compare.compared import compare_sides
from fleetbench.report.compare.failing import Outcome, judged, limits, read_rules
from fleetbench.report.compare.pairs import Subject
from fleetbench.report.compare.reading import Side
from fleetbench.report.compare.selectors import read_selector
from fleetbench.report.compare.sides import two_sides
from fleetbench.report.entry import Entry, Status
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import RunState, Verdict
from fleetbench.results.store import Store

NOISE = (1000.0, 1010.0, 990.0)
INVALID = Case(outputs=NOISE, verdict=Verdict.INVALID, reasons=("9 failed",))
ONE, TWO, FOUR = (Config(tp=tp) for tp in (1, 2, 4))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    with store_in(tmp_path) as opened:
        yield opened


def outcome(store: Store, limit: str = "regression:3%", *, per_gpu: bool = False) -> Outcome:
    """What is said of the newest run against the one before."""
    baseline, other = two_sides(store, [read_selector(word) for word in ("previous", "latest")])
    return judged([compare_sides(baseline, other, per_gpu=per_gpu)], read_rules([limit]))


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["compare", "previous", "latest", *arguments])
    return done.exit_code, done.stdout, done.stderr


def texts(found: Sequence[object]) -> list[str]:
    return [getattr(each, "sentence", "") for each in found]


# ---------------------------------------------------------------- starts none of which is valid


@pytest.mark.parametrize(
    "start",
    [
        INVALID,
        replace(INVALID, verdict=Verdict.SUSPECT),
        Case(state=TrialState.FAILED, failure=Failure(kind="x", cause="9 failed")),
    ],
)
def test_a_configuration_none_of_whose_starts_is_valid_any_more_is_a_regression(
    store: Store, start: Case
) -> None:
    put_run(store, *[Case(config=config, outputs=NOISE) for config in (ONE, ONE, TWO, TWO)])
    put_run(store, start, start, Case(config=TWO, outputs=NOISE), Case(config=TWO, outputs=NOISE))
    status, shown, _ = invoke("--fail-on", "regression:3%")
    assert status == Exit.REGRESSION
    now = start.verdict.value if start.outputs else "failed"
    assert f"tp=1 dp=1: was valid, now {now}: 9 failed" in shown
    assert f"B: another start (trial 2, workload 0) is {now}" in shown


def test_starts_none_of_which_was_valid_are_no_baseline(store: Store) -> None:
    put_run(store, INVALID, INVALID, Case(config=TWO, outputs=NOISE))
    put_run(store, Case(outputs=NOISE), Case(outputs=NOISE), Case(config=TWO, outputs=NOISE))
    found = outcome(store)
    assert not found.regressions
    assert not found.unclear
    assert found.judged == 4  # the headlines of tp=2


def test_a_start_that_failed_in_an_older_run_does_not_excuse_one_of_now(store: Store) -> None:
    bad = Case(state=TrialState.FAILED, failure=Failure(kind="x", cause="no room"))
    put_run(store, Case(outputs=NOISE, version="0.11.0"), replace(bad, version="0.11.0"), sweep="old")
    put_run(store, Case(outputs=NOISE, version="0.11.0"), Case(outputs=NOISE, version="0.11.0"))
    put_run(store, Case(outputs=NOISE, version="0.12.0"), replace(bad, version="0.12.0"))
    old, before, after = [run.id for run in store.runs()][::-1]
    done = CliRunner().invoke(
        main, ["compare", old, before, after, "--by", "vllm", "--fail-on", "regression:3%"]
    )
    assert done.exit_code == Exit.REGRESSION
    assert "one of its starts is failed: no room" in done.stdout


# ---------------------------------------------------------------- for each GPU


def test_a_limit_on_output_throughput_is_one_for_each_gpu_where_that_is_compared(store: Store) -> None:
    put_run(store, Case(config=TWO, outputs=NOISE))
    put_run(store, Case(config=TWO, outputs=tuple(value * 0.7 for value in NOISE)))
    for limit in ("output_throughput:3%,regression:80%", "output_throughput:3%"):
        status, shown, _ = invoke("--per-gpu", "--fail-on", limit)
        assert status == Exit.REGRESSION
        assert "output throughput per GPU slower by" in shown
    assert limits(read_rules(["output_throughput:3%"]), per_gpu=True) == {"output_throughput_per_gpu": 3.0}
    only = invoke("--per-gpu", "--fail-on", "output_throughput:3%", "--metric", "output_throughput")
    assert only[0] == Exit.REGRESSION
    assert "1 regression, 0 not ruled out, of 1" in only[2]


@pytest.mark.parametrize("key", ["total_token_throughput", "request_throughput", "prompt_tps"])
def test_other_totals_are_refused_where_each_gpu_is_compared(store: Store, key: str) -> None:
    put_run(store, Case(config=TWO, outputs=NOISE))
    put_run(store, Case(config=TWO, outputs=tuple(value * 0.7 for value in NOISE)))
    for options in (("--fail-on", f"{key}:3%"), ("--fail-on", f"regression:80%,{key}:3%"), ("--metric", key)):
        status, shown, told = invoke("--per-gpu", *options)
        assert status == Exit.WRONG_USAGE
        assert not shown
        assert f"{key} is what all GPUs come to together" in told
        assert len(told.splitlines()) <= 3
    with pytest.raises(UsageError):
        outcome(store, f"{key}:3%", per_gpu=True)


# ---------------------------------------------------------------- a run that has not ended


@pytest.mark.parametrize("state", [RunState.INTERRUPTED, RunState.RUNNING, RunState.DONE])
@pytest.mark.parametrize(
    "ended",
    [
        replace(INVALID, config=FOUR),
        Case(config=FOUR, state=TrialState.FAILED, failure=Failure(kind="x", cause="9 failed")),
        Case(config=FOUR, state=TrialState.IMPLIED, failure=Failure(kind="x", cause="9 failed")),
    ],
)
def test_what_a_run_has_done_counts_though_it_has_not_ended(
    store: Store, state: RunState, ended: Case
) -> None:
    put_run(store, *[Case(config=config, outputs=NOISE) for config in (ONE, TWO, FOUR)])
    waiting = Case(config=TWO, state=TrialState.PENDING)
    last = put_run(store, Case(outputs=NOISE), waiting, ended)
    store.set_run_state(last, state)
    found = outcome(store)
    assert any(text.startswith("tp=4 dp=1: was valid, now ") for text in texts(found.regressions))
    not_yet = "tp=2 dp=1: was valid, now not measured"
    assert not_yet in texts(found.regressions if state is RunState.DONE else found.unclear)


def test_what_is_being_measured_or_may_be_taken_up_again_is_not_known_yet(store: Store) -> None:
    put_run(store, *[Case(config=config, outputs=NOISE) for config in (ONE, TWO, FOUR)])
    begun = replace(INVALID, outputs=NOISE[:1], state=TrialState.RUNNING)  # its later repeats may be valid
    away = Case(config=FOUR, state=TrialState.NOT_RUN, failure=Failure(kind="host-away", cause="no answer"))
    last = put_run(store, begun, Case(config=TWO, outputs=NOISE), away)
    store.set_run_state(last, RunState.INTERRUPTED)
    found = outcome(store)
    assert not found.regressions
    assert texts(found.unclear) == [
        "tp=1 dp=1: was valid, now invalid: 9 failed",
        "tp=4 dp=1: was valid, now not run: no answer",
    ]


def test_of_several_starts_the_one_that_is_known_to_be_bad_counts_first(store: Store) -> None:
    put_run(store, *[Case(outputs=NOISE)] * 3)
    last = put_run(store, Case(outputs=NOISE), Case(state=TrialState.PENDING), INVALID)
    store.set_run_state(last, RunState.INTERRUPTED)
    found = outcome(store)
    assert texts(found.regressions) == ["tp=1 dp=1: one of its starts is invalid: 9 failed"]


def test_a_start_that_is_still_to_come_is_no_regression(store: Store) -> None:
    put_run(store, *[Case(outputs=NOISE)] * 2)
    last = put_run(store, Case(outputs=NOISE), Case(state=TrialState.PENDING))
    assert texts(outcome(store).regressions) == ["tp=1 dp=1: one of its starts is not measured"]
    store.set_run_state(last, RunState.RUNNING)
    found = outcome(store)
    assert not found.regressions
    assert "tp=1 dp=1: one of its starts is not measured" in texts(found.unclear)


# ---------------------------------------------------------------- small differences, and none


def side(label: str, metric: str, *values: float) -> Side:
    entry = Entry(
        source=label,
        name="tp=1 dp=1",
        status=Status.VALID,
        values={metric: sorted(values)[len(values) // 2]},
        observations={metric: tuple(Observation(value=value, start=label) for value in values)},
    )
    return Side(label=label, about="", subjects=(Subject(entry=entry),))


def of(metric: str, one: Sequence[float], other: Sequence[float], limit: str) -> Outcome:
    return judged(
        [compare_sides(side("a", metric, *one), side("b", metric, *other))], read_rules([f"{metric}:{limit}"])
    )


@pytest.mark.parametrize("ratio", [0.9925, 0.9825])
def test_what_another_start_may_differ_by_is_no_regression_however_small_it_is(ratio: float) -> None:
    values = (1000.0, 1000.2, 999.8)
    found = of("output_throughput", values, [value * ratio for value in values], "0.5%")
    assert not found.regressions
    (unclear,) = found.unclear
    assert "within the 3 % that another start may differ by" in unclear.text
    assert of("output_throughput", values, [value * 0.96 for value in values], "0.5%").regressions


def test_nothing_on_both_sides_is_the_same_and_leaves_nothing_open() -> None:
    found = of("median_tpot_ms", (0.0, 0.0), (0.0, 0.0), "3%")
    assert (found.regressions, found.unclear, found.judged) == ((), (), 1)
    assert not found.failed(strict=True)
    (unclear,) = of("median_tpot_ms", (0.0, 0.0), (5.0, 5.0), "3%").unclear
    assert "no ratio: a value is not above 0, so 3 % worse cannot be ruled out" in unclear.text

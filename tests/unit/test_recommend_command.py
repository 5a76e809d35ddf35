"""`fleetbench recommend` as it is typed: a stored run with its requests, the answer, the exit statuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_rows import CLOSED, TOO_LITTLE_MEMORY, result

from fleetbench.cli import main
from fleetbench.inventory.tariff import EXAMPLE
from fleetbench.model import Config, GpuSet, Trial, TrialState
from fleetbench.results.rows import MeasurementKind, RunKind, RunState, Verdict
from fleetbench.results.store import Store, open_store

LOADS = (replace(CLOSED, max_concurrency=8), CLOSED)
# Output tok/s and TTFT in ms at both loads: two GPUs are slower, and answer sooner where it is crowded.
SPEEDS = {Config(tp=4): ((2000.0, 100.0), (6000.0, 900.0)), Config(tp=2): ((1500.0, 120.0), (4000.0, 300.0))}
REQUESTS = 400


def fill(store: Store) -> str:
    """Store a sweep of two configurations at two loads, three repeats each, and one that failed."""
    configs = (*SPEEDS, Config())
    run_id = store.create_run(kind=RunKind.SWEEP, model="tiny", repo="org/tiny", hosts=["h200-01"]).id
    trials = [
        Trial(
            number=number,
            host="h200-01",
            gpus=GpuSet(tuple(range(config.gpus))),
            port=8101,
            config=config,
            workloads=LOADS,
            repeats=3,
            gpu_name="NVIDIA H200",
        )
        for number, config in enumerate(configs, start=1)
    ]
    store.add_trials(run_id, trials)
    for trial in trials[:2]:
        store.set_trial(run_id, trial.number, state=TrialState.MEASURED, ready_s=10.0)
        for index, (output, ttft_ms) in enumerate(SPEEDS[trial.config]):
            for repeat in (1, 2, 3):
                _measure(store, (run_id, trial.number, index, repeat), output + repeat, ttft_ms, trial)
    store.set_trial(run_id, 3, state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY)
    store.set_run_state(run_id, RunState.DONE)
    return run_id


def _measure(
    store: Store, key: tuple[str, int, int, int], output: float, ttft_ms: float, trial: Trial
) -> None:
    where = (*key, MeasurementKind.MEASURE)
    row = store.start_measurement(*where, seed=key[3], unit_name="u", client="h200-01")
    found = result(output, duration=REQUESTS * 128 / output, completed=REQUESTS, num_prompts=REQUESTS)
    document = {
        "duration": found.duration,
        "request_throughput": 1.0,
        "output_throughput": output,
        "completed": REQUESTS,
        "ttfts": [ttft_ms / 1000 * (0.5 if place % 4 else 1.0) for place in range(REQUESTS)],
        "output_lens": [3] * REQUESTS,
        "itls": [[0.02, 0.02]] * REQUESTS,
        "start_times": [float(place) for place in range(REQUESTS)],
    }
    place = store.directory(key[0]) / row.directory
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(document))
    store.finish_measurement(
        *where,
        result=found,
        verdict=Verdict.VALID,
        reasons=(),
        exit_status=0,
        telemetry={"gpu_power_w_mean": 500.0 * trial.config.gpus, "gpu_energy_j": 50_000.0},
    )


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FLEETBENCH_INVENTORY", str(tmp_path / "inventory"))
    with open_store() as store:
        return fill(store)


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ("recommend", *arguments))
    return done.exit_code, done.stdout, done.stderr


def test_the_answer_comes_first_and_the_next_command_last(run_id: str) -> None:
    status, shown, told = invoke()
    lines = shown.splitlines()
    assert (status, told) == (0, "")
    assert lines[0].startswith("tp=4 dp=1 at c=64: 6,002 tok/s, faster than tp=2 dp=1 (4,002) by 4")
    assert lines[-1] == f"next: invoke promote {run_id} --trial 1 --hosts h200-01"
    assert "- tp=1 dp=1: failed, CUDA out of memory" in lines
    assert "- By tokens/s/gpu: tp=2 dp=1 at c=64 (2,001 tok/s/GPU)." in lines
    assert "By energy" not in shown  # as many tokens per joule: no other choice


def test_an_slo_changes_the_answer(run_id: str) -> None:
    status, shown, _ = invoke(run_id, "--slo", "ttft_p99<500ms")
    assert status == 0
    assert shown.startswith("tp=2 dp=1 at c=64: 4,002 tok/s")
    assert "It meets ttft_p99_ms<500 (300 ms)." in shown
    assert "- tp=4 dp=1 at c=64: misses ttft_p99_ms<500 by 80 % (900 ms)" in shown
    assert "100.0 % of its requests keep ttft_ms<500 each: goodput 31.27 req/s." in shown


def test_goodput_counts_single_requests(run_id: str) -> None:
    """At c=64 a quarter of the requests of tp=4 wait 900 ms, three quarters 450 ms."""
    status, shown, _ = invoke(run_id, "--slo", "ttft_p50<500ms", "--objective", "goodput", "--format", "json")
    assert status == 0
    (found,) = json.loads(shown)
    by_place = {pick["place"]: pick["values"] for pick in found["candidates"]}
    crowded = by_place["trial 1, workload 1"]
    assert crowded["slo_attainment_share"] == 0.75
    assert crowded["goodput"] == pytest.approx(0.75 * 6002 / 128)


def test_cost_by_a_tariff_of_words(run_id: str) -> None:
    status, shown, _ = invoke(run_id, "--objective", "cost", "--tariff", EXAMPLE + ",currency=EUR")
    assert status == 0
    # A quarter of 300,000 over 4 years, and 1 kW × 0.20 × 1.3, over 4,002 tok/s.
    expected = (300_000 / 4 / 8760 / 4 + 0.26) / (4002 * 3.6) * 1000
    assert shown.startswith(
        f"tp=2 dp=1 at c=64: {expected:.3g} EUR per million output tokens, cheaper than tp=4 dp=1 ("
    )
    assert "EUR/M tokens" in shown


def test_markdown_has_all_parts(run_id: str) -> None:
    status, shown, _ = invoke(run_id, "--slo", "ttft_p99<500ms", "--format", "markdown")
    assert status == 0
    assert [line for line in shown.splitlines() if line.startswith("#")] == [
        "## org/tiny on NVIDIA H200, random 128/128: output throughput, ttft\\_p99\\_ms\\<500",
        "### What would change the choice",
        "### What could not be chosen",
    ]


def test_nothing_that_meets_the_slo_is_status_1_with_the_nearest(run_id: str) -> None:
    status, shown, told = invoke(run_id, "--slo", "ttft_p99_ms<10")
    assert (status, told) == (1, "")
    assert shown.startswith("None of 4 valid measurements meets ttft_p99_ms<10.")
    assert "tp=4 dp=1 at c=8 comes nearest" in shown
    assert "next:" not in shown


def test_a_run_that_is_not_over_is_chosen_from_and_said_to_be_so(run_id: str) -> None:
    with open_store(create=False) as store:
        store.set_run_state(run_id, RunState.INTERRUPTED)
    status, shown, told = invoke()
    assert status == 0
    assert shown.startswith("tp=4 dp=1 at c=64")
    assert f"run {run_id} is interrupted: what is still to be measured may win" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--objective", "speed"), "one of tokens/s, tokens/s/gpu, requests/s, goodput, cost, energy"),
        (("--objective", "cost"), "needs a tariff"),
        (("--objective", "goodput"), "needs an SLO"),
        (("--objective", "goodput", "--slo", "itl_p99_ms<9"), "needs an SLO on ttft, tpot or e2el"),
        (("--slo", "ttf_p99_ms<9"), "did you mean ttft_p99_ms?"),
        (("--tariff", "none.toml"), "there is no tariff file"),
        (("nonesuch",), "nonesuch"),
        (("imported/none",), "none"),
    ],
)
def test_what_cannot_be_done_is_three_lines_at_most(
    run_id: str, arguments: tuple[str, ...], said: str
) -> None:
    status, shown, told = invoke(*arguments)
    assert (status, shown) == (2, "")
    assert said in told
    assert len(told.splitlines()) <= 3


def test_a_report_s_slo_is_that_of_its_recommendation_on_the_terminal_too(run_id: str) -> None:
    """tp=4 gives most, and misses the SLO: nothing on the terminal may recommend it."""
    shown = CliRunner().invoke(main, ("report", run_id, "--slo", "ttft_p99<500ms")).stdout
    (sentence,) = [line for line in shown.splitlines() if line.startswith("Recommended")]
    assert sentence.startswith(
        "Recommended by output throughput, under ttft_p99_ms<500: tp=2 dp=1 at c=64: 4,002 tok/s"
    )


@pytest.mark.parametrize("command", ["report", "recommend"])
@pytest.mark.parametrize(("typed", "meant"), [("importd/blog", "imported/blog"), ("Imported", "imported")])
def test_a_misspelt_imported_is_named(run_id: str, command: str, typed: str, meant: str) -> None:
    done = CliRunner().invoke(main, (command, typed))
    assert done.exit_code != 0
    assert f"did you mean {meant}?" in str(done.exception) + done.output

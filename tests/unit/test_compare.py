"""Two sides beside each other: what pairs, what is refused, what is said, what fails."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from compared_runs import H200, Case, put_run, store_in
from report_rows import CLOSED, SMALL, TOO_LITTLE_MEMORY

from fleetbench.cli import main
from fleetbench.errors import Exit, UsageError
from fleetbench.model import Config, Failure, TrialState
from fleetbench.report.compare.compared import Compared, compare_sides
from fleetbench.report.compare.failing import Outcome, judged, limits, metric_named, read_rules
from fleetbench.report.compare.pairs import Subject
from fleetbench.report.compare.reading import Side
from fleetbench.report.compare.selectors import read_selector
from fleetbench.report.compare.sides import two_sides
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT, PER_GPU
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import RunState, Verdict
from fleetbench.results.store import Store

PUBLISHED = Path(__file__).parents[2] / "inventory" / "published" / "multi-gpu-report.toml"
HOSTILE = "=x|<script>`a` [b](c)\n# head\x1b[31m"
NOISE = (1000.0, 1010.0, 990.0)
SLOWER = tuple(value * 0.9 for value in NOISE)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    with store_in(tmp_path) as opened:
        yield opened


def compared(store: Store, *words: str, **options: bool) -> Compared:
    baseline, other = two_sides(store, [read_selector(word) for word in words])
    return compare_sides(baseline, other, **options)


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["compare", *arguments])
    return done.exit_code, done.stdout, done.stderr


def outcome(store: Store, *words: str, limit: str = "regression:3%") -> Outcome:
    return judged([compared(store, *words)], read_rules([limit]))


# ---------------------------------------------------------------- what pairs


def test_rows_of_equal_configuration_and_load_pair_and_the_rest_is_listed(store: Store) -> None:
    loads = (CLOSED, SMALL)
    put_run(
        store,
        Case(outputs=NOISE, workloads=loads, scale=(1, 0.3)),
        Case(config=Config(tp=2), outputs=NOISE),
        Case(config=Config(tp=4), outputs=NOISE),
    )
    put_run(
        store,
        Case(config=Config(tp=2), outputs=NOISE),
        Case(outputs=NOISE, workloads=loads, scale=(1, 0.3)),
        Case(config=Config(tp=8), outputs=NOISE),
    )
    found = compared(store, "previous", "latest")
    assert [(row.pair.name, row.pair.short_load) for row in found.rows] == [
        ("tp=1 dp=1", "c=64"),
        ("tp=1 dp=1", "c=8"),
        ("tp=2 dp=1", "c=64"),
    ]
    assert [each.subject.entry.config.tp for each in found.missing] == [4]
    assert [each.subject.entry.config.tp for each in found.added] == [8]


def test_what_a_whole_side_has_in_common_is_not_asked_for(store: Store) -> None:
    old = [Config(tp=tp, build="old", serve_args=("--a",)) for tp in (1, 2)]
    new = [Config(tp=tp, build="new", serve_args=("--a", "--b")) for tp in (1, 2)]
    put_run(store, *(Case(config=config, outputs=NOISE) for config in old))
    put_run(store, *(Case(config=config, outputs=NOISE) for config in new))
    found = compared(store, "previous", "latest")
    assert len(found.rows) == 2
    assert not found.missing
    assert not found.in_the_way
    assert {each.title: (each.one, each.other) for each in found.differences}["build"] == ("old", "new")


def test_two_configurations_of_one_run(store: Store) -> None:
    run = put_run(store, Case(outputs=NOISE), Case(config=Config(tp=2), outputs=(1800, 1815, 1790)))
    for words in ((f"{run}/1", f"{run}/2"), (f"{run}:tp=1", f"{run}:tp=2")):
        found = compared(store, *words)
        assert [row.pair.name for row in found.rows] == ["tp=1 dp=1 → tp=2 dp=1"]
        assert not found.in_the_way
        (gpus,) = (each for each in found.differences if each.key == "gpus")
        assert (gpus.one, gpus.other, gpus.asked) == ("1", "2", True)


def test_by_tp_pairs_what_has_the_same_dp_and_by_configuration_everything_with_the_first(
    store: Store,
) -> None:
    configs = (Config(), Config(dp=2), Config(tp=2), Config(tp=2, dp=2))
    put_run(store, *(Case(config=config, outputs=NOISE) for config in configs))
    (found,) = json.loads(invoke("latest", "--by", "tp", "--format", "json")[1])["comparisons"]
    assert [pair["configuration"] for pair in found["pairs"]] == [
        "tp=1 dp=1 → tp=2 dp=1",
        "tp=1 dp=2 → tp=2 dp=2",
    ]
    status, shown, _ = invoke("latest", "--by", "configuration", "--format", "json")
    assert status == 0
    assert [one["baseline"]["label"] for one in json.loads(shown)["comparisons"]] == [
        "configuration=tp=1 dp=1"
    ] * 3


def test_other_numbers_of_gpus_that_nobody_asked_for_are_in_the_way_unless_it_is_per_gpu(
    store: Store,
) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(config=Config(tp=2), outputs=NOISE))
    assert [each.key for each in compared(store, "previous", "latest").in_the_way] == ["gpus"]
    found = compared(store, "previous", "latest", per_gpu=True)
    assert not found.in_the_way
    figures = {figure.metric.key: figure for figure in found.rows[0].figures}
    assert OUTPUT.key not in figures
    assert figures[PER_GPU.key].comparison.ratio == pytest.approx(0.5)  # type: ignore[union-attr]


def test_repeats_of_equal_seeds_are_pairs_and_others_are_not(store: Store) -> None:
    put_run(store, Case(outputs=NOISE), seed=100)
    put_run(store, Case(outputs=[value * 1.1 for value in NOISE]), seed=100)
    put_run(store, Case(outputs=[value * 1.1 for value in NOISE]), seed=500)
    runs = [run.id for run in store.runs()][::-1]
    for other, method in ((runs[1], "paired by seed"), (runs[2], "Welch")):
        found = compared(store, runs[0], other)
        figure = next(figure for figure in found.rows[0].figures if figure.metric is OUTPUT)
        assert figure.comparison is not None
        assert figure.comparison.method == method
    assert "seeds" in {each.key for each in found.differences}


def test_a_start_that_failed_does_not_hide_those_that_were_measured(store: Store) -> None:
    put_run(store, Case(outputs=NOISE), Case(outputs=NOISE))
    put_run(store, Case(outputs=NOISE), Case(state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY))
    found = compared(store, "previous", "latest")
    assert [row.pair.other.entry.status for row in found.rows] == [Status.VALID]
    assert [other.entry.status for other in found.rows[0].pair.other.beside] == [Status.FAILED]
    (lost,) = outcome(store, "previous", "latest").regressions
    assert lost.sentence == "tp=1 dp=1: one of its starts is failed: CUDA out of memory"


# ---------------------------------------------------------------- what differs


def test_environment_differences_are_listed_and_do_not_refuse(store: Store) -> None:
    put_run(store, Case(outputs=NOISE), driver="580.1")
    put_run(
        store,
        Case(outputs=NOISE, version="0.12.0", host="lab-02", arguments="--max-num-seqs 64"),
        driver="590.2",
    )
    found = compared(store, "previous", "latest")
    said = {each.title: (each.one, each.other) for each in found.differences}
    assert said["vLLM"] == ("0.11.2", "0.12.0")
    assert said["driver"] == ("580.1", "590.2")
    assert said["host"] == ("lab-01", "lab-02")
    assert said["server's arguments"] == ("--enforce-eager", "--max-num-seqs 64")
    assert not found.in_the_way


@pytest.mark.parametrize(
    ("other", "options", "key"),
    [
        (Case(outputs=NOISE, gpu=H200), {}, "gpu"),
        (Case(outputs=NOISE), {"model": "other"}, "model"),
        (Case(outputs=NOISE, workloads=(SMALL,)), {}, "concurrency"),
        (Case(outputs=NOISE, client="rust"), {}, "client"),
        (Case(outputs=NOISE, effective={"dtype": "float16"}), {}, "dtype"),
        (Case(outputs=NOISE, effective={"quantization": "fp8"}), {}, "quantisation"),
    ],
)
def test_other_populations_are_refused_unless_told(
    store: Store, other: Case, options: dict[str, str], key: str
) -> None:
    one = put_run(store, Case(outputs=NOISE))
    two = put_run(store, other, **options)  # type: ignore[arg-type]
    assert [each.key for each in compared(store, one, two).in_the_way] == [key]
    status, shown, told = invoke(one, two)
    assert status == Exit.FAILED
    assert "not one population" in told
    assert "matters" in shown
    assert "B/A" not in shown
    assert json.loads(invoke(one, two, "--format", "json")[1])["comparisons"][0]["pairs"][0]["metrics"] == []
    status, shown, _ = invoke(one, two, "--anyway")
    assert status == 0
    assert "B against A (not one population)" in shown
    rows = json.loads(invoke(one, two, "--anyway", "--format", "json")[1])["comparisons"][0]["pairs"]
    assert all("not one population" in metric["caveat"] for metric in rows[0]["metrics"])


def test_a_filter_on_both_sides_or_by_tells_it(store: Store) -> None:
    put_run(store, Case(outputs=NOISE), Case(outputs=NOISE, gpu=H200))
    assert invoke("latest:gpu=H100", "latest:gpu=H200")[0] == 0
    assert invoke("latest", "--by", "gpu")[0] == 0
    assert invoke("latest/1", "latest/2")[0] == Exit.FAILED  # which GPUs a trial has, nobody typed


def test_another_client_matters_only_to_what_it_sees(store: Store) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(outputs=NOISE, client="rust"))
    assert invoke("previous", "latest")[0] == Exit.FAILED
    assert invoke("previous", "latest", "--metric", "output_throughput")[0] == 0
    assert invoke("previous", "latest", "--metric", "ttft_p99")[0] == Exit.FAILED


def test_a_build_that_names_no_gpu_is_known_to_have_none(store: Store) -> None:
    sampled = {"gpu_sm_mhz_mean": 1500.0, "gpu_energy_j": 100.0}
    put_run(store, Case(outputs=NOISE, gpu="", telemetry=sampled))
    put_run(store, Case(outputs=NOISE, gpu="", telemetry={**sampled, "gpu_sm_mhz_mean": 900.0}))
    found = compared(store, "previous", "latest")
    assert "GPU" not in found.unknown
    assert not {"gpu", "clock", "power_limit"} & {each.key for each in found.differences}
    put_run(store, Case(outputs=NOISE, gpu=H200))
    assert "GPU none named against NVIDIA H200" in invoke("previous", "latest")[2]


def test_evidence_that_is_missing_or_broken_is_not_known(store: Store) -> None:
    one = put_run(store, Case(outputs=NOISE), evidence=False)
    two = put_run(store, Case(outputs=NOISE))
    place = store.directory(two) / "trial-01"
    for content in (b"\xff\x00{", b"[1]", b'{"server": 3}', b"[" * 100_000, b'{"server": {"packages": [1]}}'):
        (place / "versions.json").write_bytes(content)
        (place / "facts-before.json").write_bytes(content)
        assert "driver" not in {each.key for each in compared(store, one, two).differences}
    (place / "versions.json").unlink()
    (place / "versions.json").symlink_to("/etc/passwd")
    assert not compared(store, one, two).in_the_way


def test_one_side_that_says_nothing_is_told_and_refuses_nothing(store: Store) -> None:
    put_run(store, Case(outputs=NOISE, effective={"kv_cache_dtype": "fp8"}))
    put_run(store, Case(outputs=NOISE))
    assert not compared(store, "previous", "latest").in_the_way
    status, shown, _ = invoke("previous", "latest")
    assert status == 0
    assert "known of A only: KV dtype fp8" in shown


# ---------------------------------------------------------------- what was imported


def test_imported_figures_are_never_one_population_with_own_ones(store: Store) -> None:
    CliRunner().invoke(main, ["import", str(PUBLISHED)])
    put_run(store, Case(outputs=NOISE))
    status, shown, told = invoke("latest", "imported/multi/12")
    assert status == Exit.FAILED
    assert "origin imported multi-gpu-report-1780a7fa against own" in told
    for aspect in ("model", "GPU", "prompts", "client", "concurrency"):
        assert any(line.startswith(aspect) and "matters" in line for line in shown.splitlines()), aspect
    assert "eager mode on" in shown
    status, shown, _ = invoke("latest", "imported/multi/12", "--anyway")
    assert status == 0
    assert "measured once: noise unknown" in shown
    assert "A: multi-gpu-report-1780a7fa/12" in shown  # the baseline, wherever it stands
    status, _, told = invoke("latest", "imported/multi/12", "--anyway", "--fail-on", "regression:3%")
    assert status == Exit.FAILED
    assert "nothing to judge" in told
    status, _, told = invoke("latest", "imported/multi")
    assert status == Exit.FAILED
    assert "counterpart" in told


def test_two_rows_of_one_source_are_one_population_where_they_say_the_same(store: Store) -> None:
    CliRunner().invoke(main, ["import", str(PUBLISHED)])
    table = "imported/multi:table=4.1.1,name="
    status, shown, told = invoke(f"{table}gpu-small,gpus=1", f"{table}gpu-medium,gpus=2")
    assert status == 0, told
    assert "A is suspect" in shown


# ---------------------------------------------------------------- --fail-on


def test_limits_are_read_and_a_metrics_own_counts_first() -> None:
    rules = read_rules(["regression:3%, ttft_p99_ms : 5", "output_throughput:2.5%"])
    found = limits(rules)
    assert found == {
        "output_throughput": 2.5,
        "median_ttft_ms": 3.0,
        "p99_ttft_ms": 5.0,
        "median_tpot_ms": 3.0,
    }
    assert PER_GPU.key in limits(read_rules(["regression:3%"]), per_gpu=True)
    for wrong in ("regression", "regression:-1%", "regression:x", "regression:100%", "", "p99:5%", "a:b:c"):
        with pytest.raises(UsageError):
            read_rules([wrong])
    with pytest.raises(UsageError) as caught:
        metric_named("outputthroughput")
    assert "did you mean output_throughput" in caught.value.next_step


def test_a_regression_beyond_noise_ends_with_status_4(store: Store) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(outputs=SLOWER))
    status, shown, told = invoke("previous", "latest", "--fail-on", "regression:3%")
    assert status == Exit.REGRESSION == 4
    assert "tp=1 dp=1: output throughput slower by" in shown
    assert told.startswith("error: 4 regressions, 0 not ruled out, of 4 comparisons")
    assert len(told.splitlines()) == 3
    found = json.loads(
        invoke("previous", "latest", "--fail-on", "output:3%", "--format", "json")[1] or "null"
    )
    assert found is None  # no such metric: nothing on stdout
    document = json.loads(invoke("previous", "latest", "--fail-on", "regression:3%", "--format", "json")[1])
    assert document["fail_on"]["failed"] is True
    assert len(document["fail_on"]["regressions"]) == 4
    # The other way round it is faster, and a smaller limit is none.
    assert invoke("latest", store.runs()[1].id, "--fail-on", "regression:3%")[0] == 0
    assert invoke("previous", "latest", "--fail-on", "regression:15%")[0] == 0


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (Case(state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY), "now failed: CUDA out of memory"),
        (Case(state=TrialState.NOT_RUN, failure=Failure(kind="x", cause="no room")), "now not run: no room"),
        (Case(outputs=NOISE, verdict=Verdict.SUSPECT, reasons=("3 waves",)), "now suspect: 3 waves"),
        (Case(outputs=NOISE, verdict=Verdict.INVALID, reasons=("9 failed",)), "now invalid: 9 failed"),
        (Case(config=Config(tp=2), outputs=NOISE), "was valid, and is not there"),
    ],
)
def test_what_was_valid_and_is_not_any_more_is_a_regression(store: Store, case: Case, says: str) -> None:
    put_run(store, Case(outputs=NOISE), Case(config=Config(tp=4), outputs=NOISE))
    put_run(store, case, Case(config=Config(tp=4), outputs=NOISE))
    status, shown, _ = invoke("previous", "latest", "--fail-on", "regression:3%")
    assert status == Exit.REGRESSION
    assert says in shown


def test_what_an_unfinished_run_has_not_measured_yet_is_no_regression(store: Store) -> None:
    put_run(store, Case(outputs=NOISE), Case(config=Config(tp=2), outputs=NOISE))
    last = put_run(store, Case(outputs=NOISE), Case(config=Config(tp=2), state=TrialState.RUNNING))
    store.set_run_state(last, RunState.INTERRUPTED)
    found = outcome(store, "previous", "latest")
    assert not found.regressions
    assert [finding.sentence for finding in found.unclear] == ["tp=2 dp=1: was valid, now not measured"]
    assert "interrupted" in invoke("previous", "latest")[1]


def test_metrics_that_are_left_out_are_not_judged(store: Store) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(outputs=SLOWER))
    arguments = ("previous", "latest", "--fail-on", "regression:3%", "--metric")
    assert "1 regression, 0 not ruled out, of 1" in invoke(*arguments, "output_throughput")[2]
    assert "nothing to judge" in invoke(*arguments, "p99_tpot")[2]
    status, _, told = invoke(*arguments, "p99_tpot", "--fail-on", "p99_ttft:5%")
    assert status == Exit.WRONG_USAGE
    assert "left out by --metric" in told


def test_what_cannot_be_ruled_out_is_told_and_fails_only_when_strict(store: Store) -> None:
    put_run(store, Case(outputs=(1000, 1100, 900)))
    put_run(store, Case(outputs=(1010, 900, 1090)), seed=500)
    put_run(store, Case(outputs=(1000,)), sweep="once")
    put_run(store, Case(outputs=(500,)), sweep="once")
    runs = [run.id for run in store.runs()][::-1]
    for words in (runs[:2], runs[2:]):
        status, shown, told = invoke(*words, "--fail-on", "regression:3%")
        assert status == 0
        assert "cannot be ruled out" in shown
        assert "--strict fails" in told
        assert invoke(*words, "--fail-on", "regression:3%", "--strict")[0] == Exit.REGRESSION
    assert "measured once" in shown


def test_a_small_difference_between_single_starts_is_no_regression(store: Store) -> None:
    put_run(store, Case(outputs=(1000, 1001, 999)))
    put_run(store, Case(outputs=(980, 981, 979)))
    found = outcome(store, "previous", "latest", limit="regression:1%")
    assert not found.regressions
    assert "that another start may differ by" in found.unclear[0].text
    assert not outcome(store, "previous", "latest", limit="regression:3%").unclear


def test_a_run_against_itself_is_the_same_and_never_a_regression(store: Store) -> None:
    run = put_run(store, Case(outputs=NOISE), Case(config=Config(tp=2), outputs=(1800.0,)))
    status, shown, _ = invoke(run, run, "--fail-on", "regression:0%")
    assert status == 0
    assert "A and B are the same rows" in shown


def _side(label: str, values: list[list[float]], seeds: bool) -> Side:
    """A side of rows made up without a store: each a configuration with its repeats of all headlines."""
    keys = ("output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms")
    subjects = []
    for number, repeats in enumerate(values):
        observations = {
            key: tuple(
                Observation(value=value, start=f"{label}{number}", seed=seed if seeds else None)
                for seed, value in enumerate(repeats[place::4])
            )
            for place, key in enumerate(keys)
        }
        middles = {key: sorted(o.value for o in seen)[len(seen) // 2] for key, seen in observations.items()}
        entry = Entry(
            source=label,
            place=str(number),
            name=str(number),
            config=Config(max_model_len=number + 1),
            status=Status.VALID,
            values=middles,
            observations=observations,
        )
        subjects.append(Subject(entry=entry))
    return Side(label=label, about="", subjects=tuple(subjects))


@pytest.mark.parametrize("noise", [0.01, 0.2])
@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize("seeds", [True, False])
def test_two_runs_of_the_same_seldom_fail_however_noisy_and_many_their_rows(
    noise: float, rows: int, seeds: bool
) -> None:
    draw = random.Random(f"{noise} {rows} {seeds}")  # noqa: S311  no secrets
    rules = read_rules(["regression:3%"])
    failed = 0
    for _ in range(200):
        one, two = (
            _side(
                label, [[100 * draw.lognormvariate(0, noise) for _ in range(12)] for _ in range(rows)], seeds
            )
            for label in "ab"
        )
        failed += judged([compare_sides(one, two)], rules).failed()
    assert failed <= 10  # 5 in 100


@pytest.mark.parametrize("rows", [1, 12])
def test_a_planted_regression_of_10_percent_is_found_with_three_repeats(rows: int) -> None:
    draw = random.Random(rows)  # noqa: S311  no secrets
    rules = read_rules(["regression:3%"])
    found = 0
    for _ in range(200):
        drawn = [[[100 * draw.lognormvariate(0, 0.01) for _ in range(12)] for _ in range(rows)] for _ in "ab"]
        worse = [
            [value * (0.9 if place % 4 == 0 else 1 / 0.9) for place, value in enumerate(row)]
            for row in drawn[1]
        ]
        one, two = _side("a", drawn[0], seeds=False), _side("b", worse, seeds=False)
        found += judged([compare_sides(one, two)], rules).failed()
    assert found >= 196


# ---------------------------------------------------------------- what is shown


def test_hostile_names_stay_text_in_every_format(store: Store) -> None:
    case = Case(
        outputs=NOISE,
        host="lab-01",
        gpu=HOSTILE,
        version=HOSTILE,
        config=Config(serve_args=(HOSTILE,)),
        arguments=f"'{HOSTILE}'",
        effective={"attention_backend": HOSTILE, "dtype": HOSTILE},
    )
    put_run(store, Case(outputs=NOISE, gpu=HOSTILE))
    put_run(store, case)
    for form in ("table", "markdown", "json", "csv"):
        status, shown, told = invoke("previous", "latest", "--anyway", "--format", form)
        assert status == 0, told
        assert "\x1b" not in shown
        if form == "markdown":
            assert "\n# head" not in shown
            assert "<script>" not in shown.replace("\\<", "")
        if form == "csv":
            assert not any(line.startswith("=") for line in shown.splitlines())
        if form == "json":
            json.loads(shown)


def test_a_table_fits_100_columns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put_run(
        store, Case(outputs=(1000, 1100, 900)), Case(config=Config(tp=2), outputs=(12345678.0, 1e7, 1.1e7))
    )
    put_run(store, Case(outputs=(1010, 900, 1090)), Case(config=Config(tp=2), outputs=(2e7, 2.1e7, 1.9e7)))
    status, shown, _ = invoke("previous", "latest")
    assert status == 0
    inside = [
        line for line in shown.splitlines() if "tok/s" in line and "–" in line and not line.startswith(" ")
    ]
    assert inside
    assert max(len(line.rstrip()) for line in inside) <= 100


def test_markdown_has_a_table_for_each_pair_and_the_regressions(store: Store) -> None:
    put_run(store, Case(outputs=NOISE))
    put_run(store, Case(outputs=SLOWER, version="0.12.0"))
    status, shown, _ = invoke("previous", "latest", "--format", "markdown", "--fail-on", "regression:3%")
    assert status == Exit.REGRESSION
    assert "| vLLM | 0.11.2 | 0.12.0 |" in shown
    assert "### Regressions" in shown
    assert shown.index("What differs") < shown.index("B/A")


def test_what_has_no_counterpart_anywhere_is_an_error_with_the_reason(store: Store) -> None:
    loads = [Case(outputs=NOISE, workloads=(load,)) for load in (CLOSED, SMALL)]
    put_run(store, *loads)
    put_run(store, Case(config=Config(tp=2), outputs=NOISE), Case(config=Config(tp=4), outputs=NOISE))
    status, shown, told = invoke("previous", "latest")
    assert status == Exit.FAILED
    assert "Only in A" in shown
    assert "cause: " in told

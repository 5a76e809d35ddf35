"""Rules over the course of a run, its client, its server, its machine and its neighbours."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from judged_rows import TRIAL, WORKLOAD, found, judged, report, requests, rules
from report_rows import measurement, repeats

from fleetbench.model import Config
from fleetbench.results.rows import Judgement, MeasurementKind, MeasurementRow, MeasurementState, Verdict
from fleetbench.results.rules.around import Around, around
from fleetbench.results.rules.server import tokens
from fleetbench.results.samples import Samples

SMALL = replace(WORKLOAD, num_prompts=80, max_concurrency=4, output_len=20)


def loop(*, each: float = 0.05, slow: float = 1.0) -> Samples:
    """Return the samples of 80 requests of 20 tokens, 4 at a time, the first third slower by a factor."""
    turn, made = 20 * each, []
    for place in range(20):
        factor = slow if place < 7 else 1.0
        start = turn * (place + (min(place, 7) * (slow - 1)))
        made += [(start, each * factor, each * factor)] * 4
    return requests(made)


def paused(samples: Samples, at: float, length: float) -> Samples:
    """Return the samples of the same run with everything standing still for a while at a moment."""

    def wall(moment: float) -> float:
        return moment + (length if moment > at else 0)

    changed = []
    for request in samples.requests:
        start, *pieces = [wall(moment) for moment in (request.started_s or 0.0, *request.arrivals())]
        gaps = [after - before for before, after in itertools.pairwise(pieces)]
        times = {"started_s": start, "ttft_s": pieces[0] - start, "e2el_s": pieces[-1] - start}
        changed.append(replace(request, itl_s=gaps, **times))
    return replace(samples, requests=tuple(changed))


def of(samples: Samples) -> Judgement:
    """Judge the closed loop that the samples are of."""
    duration = max((request.started_s or 0) + request.e2el_s for request in samples.requests)
    whole = sum(request.e2el_s for request in samples.requests) / 80
    first = sum(request.ttft_s for request in samples.requests) / 80
    given = report(
        SMALL,
        ttft_ms=1000 * first,
        tpot_ms=1000 * (whole - first) / 19,
        duration=duration,
        request_throughput=80 / duration,
        output_throughput=1600 / duration,
        total_token_throughput=80 * 532 / duration,
    )
    return judged(given, SMALL, samples=samples)


# ---------------------------------------------------------------- stalls and drift


def test_a_stall_in_the_middle_is_found_and_its_length_said() -> None:
    assert "stalled" not in rules(of(loop()))
    assert "stalled" not in rules(of(paused(loop(), 10.52, 4.5)))
    judgement = of(paused(loop(), 10.52, 10.0))
    assert judgement.verdict is Verdict.SUSPECT
    assert found(judgement, "stalled").numbers["stall_s"] == pytest.approx(10, abs=0.2)


def test_long_prefills_one_after_the_other_are_no_stall() -> None:
    one = replace(WORKLOAD, num_prompts=20, max_concurrency=1, output_len=20, input_len=100_000)
    samples = requests((place * 12.0, 11.0, 0.05) for place in range(20))
    assert "stalled" not in rules(judged(report(one, ttft_ms=11_000, tpot_ms=50), one, samples=samples))


def test_a_pause_between_paced_requests_is_no_stall() -> None:
    paced = replace(WORKLOAD, num_prompts=20, max_concurrency=None, request_rate=0.05, output_len=20)
    samples = requests((place * 20.0, 0.05, 0.05) for place in range(20))
    assert "stalled" not in rules(judged(report(paced), paced, samples=samples))


def test_a_short_stall_of_a_long_run_is_a_remark() -> None:
    judgement = of(paused(loop(each=1.0), 100.0, 7.0))
    assert found(judgement, "stalled").verdict is Verdict.VALID


def test_without_samples_the_servers_own_series_tells_of_a_stall() -> None:
    assert "stalled" in rules(judged(telemetry={"longest_stall_s": 9.0}))
    assert "stalled" not in rules(judged(telemetry={"longest_stall_s": 6.9}))


def test_a_beginning_slower_than_the_rest_is_suspect_in_runs_that_are_long_enough() -> None:
    long = [(place // 4 * 4.0, 0.2, 0.2) for place in range(40)]
    more = [(40 + place // 4 * 2.0, 0.1, 0.1) for place in range(80)]
    workload = replace(SMALL, num_prompts=120)
    judgement = judged(report(workload), workload, samples=requests(long + more))
    assert found(judgement, "drift").numbers["first_tps"] == pytest.approx(20.0)
    even = [(place // 4 * 2.0, 0.1, 0.1) for place in range(120)]
    assert "drift" not in rules(judged(report(workload), workload, samples=requests(even)))
    assert "drift" not in rules(of(loop(slow=3.0))), "80 requests are too few to tell"


# ---------------------------------------------------------------- client


@pytest.mark.parametrize(
    ("program", "cores", "window", "verdict"),
    [
        ("python", 0.95, 30.0, "suspect"),
        ("python, preloaded", 0.95, 30.0, "suspect"),
        ("python", 0.95, 3.0, "valid"),
        ("python", 0.85, 30.0, "valid"),
        ("rust", 3.0, 30.0, "valid"),
    ],
)
def test_a_python_client_without_cpu_to_spare_is_the_limit(
    program: str, cores: float, window: float, verdict: str
) -> None:
    telemetry = {"client_cpu_cores_mean": cores, "window_s": window}
    judgement = judged(client_program=program, telemetry=telemetry)
    assert judgement.verdict.value == verdict
    assert ("client-bound" in rules(judgement)) is (program != "rust" and cores > 0.9)


def test_a_first_token_that_the_client_sees_late_is_said_beyond_2_ms_and_2_percent() -> None:
    def said(seen_ms: float, served_ms: float) -> list[Verdict]:
        judgement = judged(report(ttft_ms=seen_ms), telemetry={"ttft_s_mean": served_ms / 1000})
        return [one.verdict for one in judgement.findings]

    assert said(51.9, 50) == said(408, 400) == said(390, 400) == said(400, 0) == []
    assert said(52.1, 50) == said(408.5, 400) == [Verdict.VALID]


def test_a_client_that_takes_twice_the_servers_time_is_part_of_the_measurement() -> None:
    def with_server(seconds: float) -> list[Verdict]:
        parts = {"queue_s_mean": 0.0, "prefill_s_mean": 0.1, "decode_s_mean": seconds - 0.1}
        apart, together = judged(telemetry=parts), judged(telemetry={"e2e_s_mean": seconds})
        assert apart == together
        return [finding.verdict for finding in together.findings]

    assert with_server(2.8) == []
    assert with_server(2.6) == [Verdict.VALID]
    assert with_server(1.6) == [Verdict.VALID]
    assert with_server(1.4) == [Verdict.SUSPECT]
    assert judged(telemetry={"queue_s_mean": 0.0, "decode_s_mean": 0.1}).verdict is Verdict.VALID


def test_the_python_client_is_too_slow_for_very_long_prompts() -> None:
    long = replace(WORKLOAD, input_len=65_536)
    assert "client-long-context" in rules(judged(report(long), long, client_program="python"))
    assert "client-long-context" not in rules(judged(report(long), long, client_program="rust"))


def test_requests_that_are_sent_too_slowly_are_not_the_load_that_was_asked_for() -> None:
    paced = replace(WORKLOAD, num_prompts=100, max_concurrency=None, request_rate=10.0, output_len=20)

    def sent_in(seconds: float) -> set[str]:
        samples = requests((place * seconds / 99, 0.1, 0.02) for place in range(100))
        return rules(judged(report(paced), paced, samples=samples))

    assert "send-rate" not in sent_in(10.0)
    assert "send-rate" not in sent_in(16.0)
    assert "send-rate" in sent_in(20.0)


# ---------------------------------------------------------------- server


def test_what_the_server_ran_with_is_held_against_its_command_line_and_the_configuration() -> None:
    wrong = replace(TRIAL, effective={**TRIAL.effective, "tp": 1})
    judgement = judged(trial=wrong)
    assert judgement.verdict is Verdict.INVALID
    assert found(judgement, "configuration").text == "asked for tensor-parallel size 2, it ran with 1"
    argued = replace(wrong, unit_text="ExecStart=vllm serve m --tensor-parallel-size 1 --port 1")
    assert "configuration" not in rules(judged(trial=argued))
    short = replace(wrong, unit_text="ExecStart=vllm serve m --tensor-parallel-size 2 --port 1 -tp 1")
    assert "configuration" not in rules(judged(trial=short))
    length = replace(TRIAL, config=Config(tp=2, max_model_len=1000), effective={"max_model_len": 800})
    assert "configuration" in rules(judged(trial=length))
    assert rules(judged(trial=replace(TRIAL, effective={}))) == set()


def test_tokens_of_client_and_server_agree_but_for_test_requests_and_special_tokens() -> None:
    def differ(prompts: int, answers: int, **known: int) -> list[str]:
        found = tokens(report(), prompt_tokens=prompts, generation_tokens=answers, more_requests=3, **known)
        return [finding.text for finding in found]

    sent, made = 512_000, 128_000
    assert differ(sent, made) == []
    assert differ(sent + 3 * 512 + 1000, made + 3 * 128) == []
    assert differ(sent, made + 3 * 128 + 5000) == [
        "the server counted 133,384 output tokens, the client 128,000"
    ]
    assert len(differ(sent, made // 2)) == 1
    assert len(differ(sent // 2, made)) == 1
    assert differ(sent // 2, made, cached_tokens=sent // 2) == []
    assert list(tokens(report(failed=3), prompt_tokens=1, generation_tokens=1)) == []
    assert list(tokens(report(), prompt_tokens=None, generation_tokens=None)) == []


def test_errors_that_only_the_server_counts_are_suspect() -> None:
    assert judged(telemetry={"finished_error": 2}).verdict is Verdict.SUSPECT
    assert judged(telemetry={"finished_error": 0}).verdict is Verdict.VALID
    judgement = judged(telemetry={"preemptions": 12})
    assert (judgement.verdict, rules(judgement)) == (Verdict.VALID, {"preempted"})


# ---------------------------------------------------------------- neighbours


def earlier(
    rate: float, *, repeat: int = 1, seed: int = 1, version: str = "0.32.0", **changes: MeasurementKind
) -> MeasurementRow:
    row = measurement(2, repeat, report(output_throughput=rate), **changes)
    return replace(row, seed=seed, client_version=version)


def test_a_seed_that_was_used_before_is_suspect_where_a_prefix_cache_is_on() -> None:
    before = (earlier(5000, seed=7, kind=MeasurementKind.WARMUP), earlier(5000, seed=8))
    assert rules(judged(trial=TRIAL, seed=9, earlier=before)) <= {"repeats-apart"}
    judgement = judged(trial=TRIAL, seed=8, earlier=before)
    assert found(judgement, "repeated-seed").text == "repeat 1 had sent the same prompts before (seed 8)"
    off = replace(TRIAL, effective={**TRIAL.effective, "prefix_caching": False})
    assert "repeated-seed" not in rules(judged(trial=off, seed=8, earlier=before))


def test_a_repeat_far_from_those_before_it_is_a_remark() -> None:
    rate = report().output_throughput or 0
    near = (earlier(rate * 1.1), earlier(rate * 0.95, repeat=2))
    assert "repeats-apart" not in rules(judged(seed=9, earlier=near))
    far = (earlier(rate * 0.5), earlier(rate * 0.52, repeat=2))
    judgement = judged(seed=9, earlier=far)
    assert judgement.verdict is Verdict.VALID
    assert found(judgement, "repeats-apart").text.startswith("96% faster than the median of the 2 repeats")


def test_another_version_on_the_same_host_within_a_run_is_invalid() -> None:
    first = replace(TRIAL, number=1, started_at="2026-11-30T14:02:33Z")
    assert judged(trial=TRIAL, siblings=(first, TRIAL)).verdict is Verdict.VALID
    old = replace(first, vllm_version="0.31.0")
    judgement = judged(trial=TRIAL, siblings=(old, TRIAL))
    assert judgement.verdict is Verdict.INVALID
    assert "0.32.0 here and 0.31.0 in trial 1" in found(judgement, "version-changed").text
    for other in (
        replace(old, host="lab-02"),
        replace(old, config=Config(build="old")),
        replace(old, vllm_version=""),
        replace(old, started_at="2026-11-30T15:02:33Z"),
    ):
        assert judged(trial=TRIAL, siblings=(other,)).verdict is Verdict.VALID


def test_another_version_of_the_client_within_a_run_is_invalid() -> None:
    rate = report().output_throughput or 0
    before = (earlier(rate),)
    known = {"trial": TRIAL, "earlier": before, "client_version": "0.33.0"}
    assert judged(**known).verdict is Verdict.INVALID
    assert judged(**known | {"client_version": "0.32.0"}).verdict is Verdict.VALID


def test_what_is_around_a_measurement_is_what_was_there_before_it() -> None:
    rows = repeats(2, 5000, 5100, 5200)
    other = repeats(2, 1.0, 2.0, workload_index=1) + [replace(row, trial=3) for row in repeats(3, 1.0)]
    trials = (TRIAL, replace(TRIAL, number=3), replace(TRIAL, number=2, run_id="another"))
    near = around(rows[2], trials, [*reversed(rows), *other])
    assert [(row.kind.value, row.repeat) for row in near.earlier] == [("warmup", 1), ("measure", 1)]
    assert (near.trial, [trial.number for trial in near.siblings]) == (TRIAL, [3])
    running = replace(rows[1], state=MeasurementState.RUNNING)
    assert around(rows[2], trials, [rows[0], running]).earlier == (rows[0],)
    assert around(rows[0], (), rows) == Around()


# ---------------------------------------------------------------- machine


@pytest.mark.parametrize(
    ("share", "reasons", "verdict"),
    [
        (0.4, "sw_thermal_slowdown", "suspect"),
        (0.4, "hw_power_brake_slowdown, sw_power_cap", "suspect"),
        (0.9, "sw_power_cap", "valid"),
        (0.05, "hw_thermal_slowdown", "valid"),
    ],
)
def test_heat_and_hardware_that_hold_clocks_down_are_suspect_and_a_power_cap_is_a_remark(
    share: float, reasons: str, verdict: str
) -> None:
    telemetry = {
        "gpu_throttled_share": share,
        "gpu_throttle_reasons": reasons,
        "gpu_sm_mhz_mean": 1100.0,
        "gpu_sm_mhz_max_possible": 1980.0,
    }
    judgement = judged(telemetry=telemetry)
    assert judgement.verdict.value == verdict
    assert ("throttled" in rules(judgement)) is (share > 0.1)


def test_errors_of_a_card_clocks_that_differ_and_missing_samples() -> None:
    assert rules(judged(telemetry={"gpu_xid": 1})) == {"gpu-errors"}
    assert rules(judged(telemetry={"gpu_ecc": 3})) == {"gpu-errors"}
    assert "2.5 s behind" in found(judged(telemetry={"clock_offset_ms": -2500.0}), "clock-skew").text
    assert judged(telemetry={"clock_offset_ms": 900.0}).findings == ()
    assert rules(judged(telemetry={"missed_samples": 3, "samples": 7})) == {"telemetry-gaps"}
    assert rules(judged(telemetry={"missed_samples": 3, "samples": 27})) == set()
    assert rules(judged(telemetry={"missed_samples": 1, "samples": 1})) == set()


def test_above_the_strict_ceiling_is_invalid_and_without_one_nothing_is_said() -> None:
    assert judged(ceiling={"of_strict_percent": 104.0}).verdict is Verdict.VALID
    judgement = judged(ceiling={"of_strict_percent": 180.0, "strict_output_tps": 2000.0})
    assert judgement.verdict is Verdict.INVALID
    assert "180 %" in found(judgement, "above-ceiling").text
    assert judged(ceiling={"serial_output_tps": 1.0, "of_strict_percent": None}).verdict is Verdict.VALID

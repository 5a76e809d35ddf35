"""Rules over a report alone: totals, percentiles, latencies, lengths, Little's law; each on either side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged_rows import TRIAL, WORKLOAD, found, judged, report, rules

from fleetbench.model import Config, GpuSet
from fleetbench.results.rows import Judgement, Verdict


def test_a_report_whose_numbers_follow_from_each_other_is_valid_without_findings() -> None:
    assert judged(trial=TRIAL) == Judgement(verdict=Verdict.VALID)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("request_throughput", "request_throughput"),
        ("output_throughput", "output_throughput"),
        ("total_token_throughput", "total_token_throughput"),
    ],
)
def test_a_rate_that_is_not_total_over_duration_is_invalid(name: str, word: str) -> None:
    rate = getattr(report(), name)
    assert judged(report(**{name: rate * 1.019})).verdict is Verdict.VALID
    judgement = judged(report(**{name: rate * 1.03}))
    assert judgement.verdict is Verdict.INVALID
    assert found(judgement, "arithmetic").text.startswith(word)


def test_output_that_is_prompts_and_answers_together_is_named_so() -> None:
    sound = report()
    judgement = judged(report(output_throughput=sound.total_token_throughput))
    finding = found(judgement, "arithmetic")
    assert finding.text.endswith("it is prompts and answers together")
    assert finding.numbers["expected"] == pytest.approx(sound.output_throughput)
    swapped = report(
        output_throughput=sound.total_token_throughput, total_token_throughput=sound.output_throughput
    )
    assert any("they are mixed up" in finding.text for finding in judged(swapped).findings)


def test_rounding_of_a_short_slow_run_is_no_contradiction() -> None:
    """0.05 requests/s are printed of 0.0468; a duration of 0.11 s of 0.1149."""
    few = replace(WORKLOAD, num_prompts=10, max_concurrency=1)
    sound = report(few, ttft_ms=20_000.0)
    assert sound.request_throughput is not None
    assert sound.duration is not None
    rounded = report(
        few,
        ttft_ms=20_000.0,
        request_throughput=round(sound.request_throughput, 2),
        duration=round(sound.duration, 2),
    )
    assert "arithmetic" not in rules(judged(rounded, few))


@pytest.mark.parametrize("name", ["ttft", "tpot", "itl", "e2el"])
def test_a_percentile_below_a_lower_one_is_invalid(name: str) -> None:
    sound = report()
    latencies = dict(sound.latencies)
    latencies[f"p95_{name}_ms"] = latencies[f"p90_{name}_ms"] * 0.99
    judgement = judged(replace(sound, latencies=latencies))
    assert judgement.verdict is Verdict.INVALID
    assert found(judgement, "percentile-order").text.startswith(f"p90 {name}")


def test_percentiles_of_any_depth_are_ranked_by_number() -> None:
    sound = report()
    more = {"p5_ttft_ms": 100.0, "p99.9_ttft_ms": 900.0, "min_ttft_ms": 50.0, "max_ttft_ms": 1000.0}
    assert judged(replace(sound, latencies=sound.latencies | more)).verdict is Verdict.VALID
    more["max_ttft_ms"] = 390.0
    texts = [finding.text for finding in judged(replace(sound, latencies=sound.latencies | more)).findings]
    assert any("above its largest" in text for text in texts)


def test_a_first_token_after_the_last_one_is_invalid() -> None:
    sound = report()
    latencies = sound.latencies | {"mean_ttft_ms": sound.latencies["mean_e2el_ms"] * 1.2}
    judgement = judged(replace(sound, latencies=latencies))
    assert "mean TTFT" in found(judgement, "percentile-order").text


def test_latencies_in_other_units_do_not_add_up() -> None:
    sound = report()
    seconds = {name: value / 1000 for name, value in sound.latencies.items() if name.endswith("_ttft_ms")}
    assert "latency-sum" in rules(
        judged(replace(report(ttft_ms=4000), latencies=report(ttft_ms=4000).latencies | seconds))
    )
    assert "latency-sum" not in rules(judged(sound))
    varied = replace(WORKLOAD, extra_args=("--random-range-ratio", "0.5"))
    odd = replace(sound, latencies=sound.latencies | {"mean_tpot_ms": 30.0})
    assert "latency-sum" not in rules(judged(odd, varied)), "answers of many lengths do not add up by means"


def test_a_peak_above_all_tokens_of_the_run_is_impossible() -> None:
    assert "impossible-value" not in rules(judged(report(max_output_tokens_per_s=128_000.0)))
    assert judged(report(max_output_tokens_per_s=30_810_010.0)).verdict is Verdict.INVALID


def test_bundled_tokens_are_a_remark() -> None:
    sound = report()
    judgement = judged(replace(sound, latencies=sound.latencies | {"median_itl_ms": 0.003}))
    assert judgement.verdict is Verdict.VALID
    assert rules(judgement) == {"bundled-tokens"}


# ---------------------------------------------------------------- lengths


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(512, "valid"), (516, "valid"), (490, "valid"), (480, "suspect"), (404, "invalid"), (560, "suspect")],
)
def test_the_length_of_prompts_is_held_against_what_was_asked(mean: int, verdict: str) -> None:
    sound = report()
    assert sound.duration is not None
    changed = report(
        total_input_tokens=mean * 1000, total_token_throughput=(mean + 128) * 1000 / sound.duration
    )
    assert judged(changed).verdict.value == verdict


def test_few_special_tokens_and_chat_templates_are_no_other_prompts() -> None:
    short = replace(WORKLOAD, input_len=8)
    assert "prompt-length" not in rules(judged(report(short, total_input_tokens=12_000), short))
    chat = report(total_input_tokens=600_000, backend="openai-chat")
    assert "prompt-length" not in rules(judged(chat))
    prefixed = replace(WORKLOAD, extra_args=("--random-prefix-len=512",))
    assert "prompt-length" in rules(judged(report(), prefixed))
    file = replace(WORKLOAD, dataset="custom")
    assert "prompt-length" not in rules(judged(report(total_input_tokens=9_000), file))


def test_a_context_that_is_far_longer_than_the_requests_is_a_remark_of_our_own_rows() -> None:
    long = replace(TRIAL, config=Config(tp=2, max_model_len=65_536))
    assert rules(judged(trial=long, siblings=(replace(long, number=3),))) == set()
    judgement = judged(trial=long, siblings=(replace(TRIAL, number=3),))
    assert judgement.verdict is Verdict.VALID
    assert found(judgement, "context-unused").numbers == {"request_tokens": 640, "max_model_len": 65_536}
    fitting = replace(TRIAL, config=Config(tp=2, max_model_len=2048))
    assert rules(judged(trial=fitting, siblings=(replace(TRIAL, number=3),))) == set()


@pytest.mark.parametrize(
    ("arguments", "unit", "gpus", "verdict"),
    [
        ((), "", (0, 1), "suspect"),
        (("--enforce-eager",), "", (0, 1), "valid"),
        ((), "ExecStart=/opt/vllm/bin/vllm serve m --enforce-eager --dtype float32", (0, 1), "valid"),
        ((), "ExecStart=/opt/vllm/bin/vllm serve m --no-enforce-eager", (0, 1), "suspect"),
        ((), "", (), "valid"),
    ],
)
def test_eager_mode_is_suspect_on_gpus_where_nobody_asked_for_it(
    arguments: tuple[str, ...], unit: str, gpus: tuple[int, ...], verdict: str
) -> None:
    effective = {**TRIAL.effective, "enforce_eager": True}
    config = Config(tp=2, serve_args=arguments)
    trial = replace(TRIAL, effective=effective, gpus=GpuSet(gpus), config=config, unit_text=unit)
    judgement = judged(trial=trial)
    assert found(judgement, "eager-mode").verdict.value == verdict
    assert "eager-mode" not in rules(judged(trial=TRIAL))


# ---------------------------------------------------------------- Little's law


@pytest.mark.parametrize(
    ("share", "verdict", "rule"),
    [
        (1.04, "valid", ""),
        (1.06, "invalid", "concurrency-exceeded"),
        (0.51, "valid", ""),
        (0.49, "suspect", "under-loaded"),
    ],
)
def test_littles_law_holds_in_both_directions(share: float, verdict: str, rule: str) -> None:
    judgement = judged(report(in_flight=share))
    assert judgement.verdict.value == verdict
    assert rules(judgement) == ({rule} if rule else set())
    if rule:
        assert found(judgement, rule).numbers["in_flight"] == pytest.approx(share * 100)


def test_without_e2el_it_follows_from_first_and_further_tokens_with_more_room() -> None:
    def without(share: float) -> set[str]:
        sound = report(in_flight=share)
        kept = {name: value for name, value in sound.latencies.items() if "e2el" not in name}
        return rules(judged(replace(sound, latencies=kept)))

    assert without(1.15) == set()
    assert without(1.25) == {"concurrency-exceeded"}


def test_few_waves_paced_requests_and_varied_lengths_are_not_called_under_loaded() -> None:
    few = replace(WORKLOAD, num_prompts=500)
    assert "under-loaded" not in rules(judged(report(few, in_flight=0.4), few))
    paced = replace(WORKLOAD, request_rate=3.0)
    assert "under-loaded" not in rules(judged(report(paced, in_flight=0.1), paced))
    ramp = replace(WORKLOAD, extra_args=("--ramp-up-strategy", "linear"))
    assert "under-loaded" not in rules(judged(report(ramp, in_flight=0.1), ramp))
    varied = replace(WORKLOAD, dataset="sharegpt")
    assert "under-loaded" not in rules(judged(report(varied, in_flight=0.35), varied))
    assert "under-loaded" in rules(judged(report(varied, in_flight=0.25), varied))
    one = replace(WORKLOAD, max_concurrency=1)
    assert "under-loaded" not in rules(judged(report(one, in_flight=0.4), one))


def test_a_request_rate_that_the_server_did_not_keep_up_with_is_a_remark() -> None:
    paced = replace(WORKLOAD, max_concurrency=None, request_rate=100.0)
    slow = report(paced)
    rate, duration = 40.0, 25.0
    slow = replace(
        slow,
        request_throughput=rate,
        duration=duration,
        output_throughput=rate * 128,
        total_token_throughput=rate * 640,
    )
    judgement = judged(slow, paced)
    assert judgement.verdict is Verdict.VALID
    assert found(judgement, "offered-rate").numbers == {"offered": 100.0, "request_throughput": 40.0}
    assert "offered-rate" not in rules(judged(slow, replace(paced, request_rate=45.0)))

"""Goodput, against what vLLM's own function counts over the same requests, and by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_rows import measurement, repeats, result, run, trial

from fleetbench.choice.goodput import ATTAINMENT, Counting, Kept, kept, with_goodput
from fleetbench.choice.objective import GOODPUT, objective_named
from fleetbench.choice.recommend import recommend
from fleetbench.choice.slo import parse_slo
from fleetbench.model import Config
from fleetbench.report.entry import Entry
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import summarise
from fleetbench.results.rows import MeasurementRow, Verdict
from fleetbench.results.samples import Request, Samples, samples_of

# Requests made up here; `request_goodput_by_slo` is what calculate_metrics of vllm/benchmarks/serve.py
# (0.32.0) returned for them as request_goodput: two failed, some have a single token, one is on the bounds.
VLLM = Path(__file__).parents[1] / "fixtures" / "choice" / "vllm-0.32.0-goodput.json"
DOCUMENT = json.loads(VLLM.read_text())
BY_VLLM = DOCUMENT["request_goodput_by_slo"]


def request(ttft_ms: float, tpot_ms: float, tokens: int = 11) -> Request:
    return Request(
        started_s=0.0,
        ttft_s=ttft_ms / 1000,
        e2el_s=(ttft_ms + tpot_ms * (tokens - 1)) / 1000,
        input_tokens=1,
        output_tokens=tokens,
    )


@pytest.mark.parametrize("asked", BY_VLLM)
def test_it_is_what_vllm_counts(asked: str) -> None:
    samples = samples_of(DOCUMENT)
    assert samples is not None
    slo = parse_slo(",".join(f"{name}_p99_ms:{limit}" for name, limit in _pairs(asked)))
    found = kept(samples, 12.5, slo)
    assert found is not None
    assert found.per_second == pytest.approx(BY_VLLM[asked])
    assert found.sent == 41


def _pairs(asked: str) -> list[list[str]]:
    return [pair.split(":") for pair in asked.split()]


def test_every_bound_has_to_be_kept_by_the_same_request() -> None:
    samples = Samples(
        requests=(request(100, 10), request(300, 10), request(100, 30), request(300, 30)), failed=1
    )
    found = kept(samples, 2.0, parse_slo("ttft_p99_ms<200,tpot_p99_ms<20"))
    assert found == Kept(good=1, sent=5, duration_s=2.0)
    assert found.per_second == 0.5
    alone = kept(samples, 2.0, parse_slo("ttft_p99_ms<200"))
    assert alone is not None
    assert alone.good == 2


def test_where_it_cannot_be_told_it_is_not() -> None:
    samples = Samples(requests=(request(100, 10),))
    slo = parse_slo("ttft_p99_ms<200")
    assert kept(None, 2.0, slo) is None
    assert kept(samples, None, slo) is None
    assert kept(samples, 0.0, slo) is None
    assert kept(Samples(requests=()), 2.0, slo) is None
    assert kept(samples, 2.0, parse_slo("itl_p99_ms<200")) is None
    assert kept(samples, 2.0, parse_slo("")) is None


def entries(*, without: tuple[int, int] = (0, 0)) -> tuple[Entry, ...]:
    """Two configurations of three repeats; the second is faster, and answers fewer requests within 200 ms.

    `without`: trial and repeat whose requests were not kept.
    """
    good = {1: 9, 2: 5}

    def read(row: MeasurementRow) -> Samples | None:
        if (row.trial, row.repeat) == without:
            return None
        return Samples(
            requests=tuple(request(100 if place < good[row.trial] else 900, 10) for place in range(10))
        )

    slo = parse_slo("ttft_p99_ms<200")
    counting = Counting(read, slo)
    report = summarise(
        run(),
        [trial(1, Config(tp=1)), trial(2, Config(tp=2))],
        [*repeats(1, 1000.0, 1010.0, 990.0), *repeats(2, 1100.0, 1110.0, 1090.0)],
        counting,
    )
    return with_goodput(entries_of_run(report), report, counting.kept)


def test_entries_have_it_with_an_observation_of_each_repeat() -> None:
    slow, fast = entries()
    duration_s = 640 * 128 / 1000
    assert slow.value(GOODPUT) == pytest.approx(9 / duration_s)
    assert slow.values[ATTAINMENT] == pytest.approx(0.9)
    assert [seen.value for seen in slow.observations[GOODPUT.key]] == [
        pytest.approx(9 / (640 * 128 / output)) for output in (1000, 1010, 990)
    ]
    assert fast.values[ATTAINMENT] == pytest.approx(0.5)


def test_the_warm_up_does_not_count() -> None:
    assert len(entries()[0].observations[GOODPUT.key]) == 3


def test_the_best_by_goodput_is_not_the_fastest() -> None:
    found = recommend(entries(), objective=objective_named("goodput"))
    assert found.best is not None
    assert found.best.trial == 1
    assert "more than tp=2 dp=1" in found.sentence
    assert "no part of that choice" not in found.sentence
    assert any(line.startswith("By tokens/s: tp=2 dp=1") for line in found.sensitivity)


def test_one_repeat_without_its_requests_leaves_the_configuration_out_and_says_so() -> None:
    found = recommend(entries(without=(1, 2)), objective=objective_named("goodput"))
    assert found.best is not None
    assert found.best.trial == 2
    assert found.left_out[0].why == "the single requests are not to be had"
    warning = "1 of 2 valid measurements are no part of that choice: the single requests are not to be had."
    assert found.sentence.endswith(f". {warning}")


def test_what_is_not_valid_has_none() -> None:
    slo = parse_slo("ttft_p99_ms<200")
    counting = Counting(lambda row: Samples(requests=(request(100, 10),)), slo)
    report = summarise(
        run(), [trial(1, Config())], [measurement(1, 1, result(10.0), Verdict.SUSPECT, "why")], counting
    )
    assert GOODPUT.key not in with_goodput(entries_of_run(report), report, counting.kept)[0].values

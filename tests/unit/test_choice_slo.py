"""SLO expressions: what they mean, where their bounds lie, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest
from choice_entries import entry

from fleetbench.choice.slo import NO_SLO, parse_slo
from fleetbench.errors import UsageError
from fleetbench.model import Config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft_p99_ms<2000", "ttft_p99_ms<2000"),
        ("p99_ttft_ms<2000", "ttft_p99_ms<2000"),
        ("ttft_p99<2s", "ttft_p99_ms<2000"),
        ("ttft_p99_s < 2", "ttft_p99_ms<2000"),
        ("ttft_p99_ms<2s", "ttft_p99_ms<2000"),
        ("TTFT_P99_MS<=2e3", "ttft_p99_ms<=2000"),
        ("ttft_p99_ms≤2000", "ttft_p99_ms<=2000"),
        ("ttft_p99_ms:2000", "ttft_p99_ms<=2000"),
        ("tpot_p50_ms<12.5", "tpot_median_ms<12.5"),
        ("median_tpot_ms<12.5", "tpot_median_ms<12.5"),
        ("tpot_p99<800us", "tpot_p99_ms<0.8"),
        ("e2el_p99.9_ms<30000", "e2el_p99.9_ms<30000"),
        ("mean_itl_ms<40", "itl_mean_ms<40"),
        (" ttft_p99_ms<2000 ,, tpot_p99_ms<60, ", "ttft_p99_ms<2000,tpot_p99_ms<60"),
        ("", ""),
    ],
)
def test_every_way_to_write_a_bound(text: str, expected: str) -> None:
    assert str(parse_slo(text)) == expected


def test_the_number_that_is_meant_has_vllms_name() -> None:
    found = parse_slo("ttft_p99<2s,tpot_p50_ms<60,mean_e2el_ms<1")
    assert [bound.key for bound in found.bounds] == ["p99_ttft_ms", "median_tpot_ms", "mean_e2el_ms"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tfft_p99_ms<2000", "did you mean ttft_p99_ms?"),
        ("p99_tpto_ms<60", "did you mean tpot_p99_ms?"),
        ("latency_p99_ms<60", "did you mean e2el_p99_ms?"),
        ("speed<60ms", "names are ttft_p99_ms, tpot_p99_ms, itl_p99_ms, e2el_p99_ms"),
        ("ttft<2s", "write ttft_p99_ms<2s"),
        ("ttft_p99<2", "write ttft_p99_ms<2, or ttft_p99<2s"),
        ("ttft_p99_ms>2000", "write ttft_p99_ms<2000"),
        ("ttft_p99_ms=2000", "a latency is bounded from above"),
        ("ttft_p99_ms", "expected name, < or <=, and a number"),
        ("ttft_p99_ms<", "expected name, < or <=, and a number"),
        ("ttft_p99_ms<two", "expected name, < or <=, and a number"),
        ("ttft_p99_ms<1.2.3", "is no number"),
        ("ttft_p99_ms<-5", "above 0"),
        ("ttft_p99_ms<0", "above 0"),
        ("ttft_p99_ms<1e300", "above 0"),
        ("ttft_p99_ms<2000,p99_ttft_ms<3000", "twice"),
        ("ttft_p100_ms<2", "no latency"),
        ("ttft_p99_tpot_ms<2", "no latency"),
        ("tokens/s>100", "expected name"),
        ("ttft_p99_ms<nan", "expected name"),
        ("ttft_p99_ms<2000;rm -rf /", "expected name"),
        ("\x1b[2Jttft_p99_ms<2000", "expected name"),
        (",".join(f"ttft_p{n}_ms<2" for n in range(30)), "more than 20 bounds"),
        ("x" * 100_000, "more than 20 bounds"),
        ("_<2ms", "no latency"),
    ],
)
def test_what_means_nothing_is_refused_with_the_next_step(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_slo(text)
    shown = str(caught.value)
    assert said in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) <= 3
    assert max(map(len, shown.splitlines())) < 300


def test_the_limit_itself_is_good_enough_only_where_it_is_written() -> None:
    at_limit = entry(Config(), (1.0,), values={"p99_ttft_ms": 2000.0})
    assert not parse_slo("ttft_p99_ms<2000").met_by(at_limit)
    assert parse_slo("ttft_p99_ms<=2000").met_by(at_limit)
    assert parse_slo("ttft_p99_ms<2000.0001").met_by(at_limit)


def test_all_bounds_hold_together_and_none_is_met_by_everything() -> None:
    one = entry(Config(), (1.0,), values={"p99_ttft_ms": 100.0, "p99_tpot_ms": 50.0})
    slo = parse_slo("ttft_p99_ms<200,tpot_p99_ms<40")
    assert not slo.met_by(one)
    assert [bound.name for bound in slo.missed(one)] == ["tpot_p99_ms"]
    assert slo.excess(one) == 50 / 40
    assert NO_SLO.met_by(one)
    assert not NO_SLO


def test_a_single_request_keeps_the_bound_of_the_highest_percentile() -> None:
    slo = parse_slo("ttft_p50_ms<200,ttft_p99_ms<2000,mean_tpot_ms<40,itl_p99_ms<100")
    assert {name: str(bound) for name, bound in slo.of_each_request.items()} == {
        "ttft": "ttft_p99_ms<2000",
        "tpot": "tpot_mean_ms<40",
    }


@pytest.mark.parametrize(
    ("name", "requests"),
    [("ttft_p99", 1000), ("ttft_p95", 200), ("ttft_p90", 100), ("ttft_p50", 20), ("ttft_p99.9", 10_000)],
)
def test_a_percentile_wants_as_many_requests_beyond_it_as_a_p99_of_a_thousand(
    name: str, requests: int
) -> None:
    assert parse_slo(f"{name}<1s").bounds[0].requests_needed == requests

"""Loads of a choice: told apart by their names, none of them left out, the unknown not taken for known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from choice_entries import LOADED, entry, noisy, steady
from report_rows import repeats, run, trial

from fleetbench.choice.objective import objective_named
from fleetbench.choice.recommend import recommend
from fleetbench.choice.slo import parse_slo
from fleetbench.model import Config, Workload
from fleetbench.report.entry import Entry, Status
from fleetbench.report.finding import brief, finding
from fleetbench.report.metrics import OUTPUT, PER_JOULE
from fleetbench.report.summary import summarise

ONE, TWO = Config(), Config(tp=2)
LIGHT, HEAVY = (replace(LOADED, max_concurrency=c, request_rate=4.0) for c in (8, 64))


def under(config: Config, workload: Workload, output: float, **changes: object) -> Entry:
    """A valid entry of three steady repeats under a load."""
    load = {"workload": workload, "load": workload.label, "trial": config.tp}
    return entry(config, steady(output), **{**load, **changes})  # type: ignore[arg-type]


def ladder(outputs: Mapping[Config, Sequence[float | None]], *, first: int = 1) -> list[Entry]:
    """Entries at c=1, 8, 64 …; what has no output is invalid."""
    made = []
    for config, several in outputs.items():
        for place, output in enumerate(several):
            one = under(config, replace(LOADED, max_concurrency=first * 8**place), output or 5000.0)
            made.append(one if output else replace(one, status=Status.INVALID, cause="no"))
    return made


def test_one_rate_at_two_concurrencies_is_two_loads() -> None:
    found = recommend(
        [under(ONE, LIGHT, 1000), under(ONE, HEAVY, 1000), under(TWO, LIGHT, 900), under(TWO, HEAVY, 1500)]
    )
    assert found.sensitivity[0] == "At 4 req/s c=8 tp=1 dp=1 wins; at 4 req/s c=64 tp=2 dp=1 wins."
    assert found.best is not None
    assert found.best.where == "tp=2 dp=1 at 4 req/s c=64"


def test_a_rate_names_its_concurrency_only_where_that_tells_it_apart() -> None:
    open_, other = (replace(LOADED, max_concurrency=None, request_rate=rate) for rate in (4.0, 8.0))
    assert [brief(load, (LIGHT, open_, other)) for load in (LIGHT, open_, other)] == [
        "4 req/s c=8",
        "4 req/s open",
        "8 req/s",
    ]


def test_a_report_s_sentence_names_both_loads_of_one_rate() -> None:
    trials = [trial(number, config, workloads=(LIGHT, HEAVY)) for number, config in ((1, ONE), (2, TWO))]
    fast, slow = (200, 201, 202), (100, 101, 102)
    rows = repeats(1, *fast) + repeats(1, *slow, workload_index=1)
    rows += repeats(2, *slow) + repeats(2, *fast, workload_index=1)
    assert finding(summarise(run(), trials, rows), OUTPUT) == (
        "Best output throughput: tp=1 dp=1 at 4 req/s c=8 (201.0 tok/s); "
        "tp=2 dp=1 at 4 req/s c=64 (201.0 tok/s)"
    )


def test_loads_of_one_short_name_are_named_in_full_and_never_mixed() -> None:
    """An import may say of two loads no more than their dataset: in numbers they are the same."""
    unknown = Workload(dataset="unknown", input_len=0, output_len=0, num_prompts=0, max_concurrency=8)
    entries = [
        under(config, unknown, output, load=load, imported=True)
        for config, outputs in ((ONE, (1000, 1000)), (TWO, (900, 1500)))
        for load, output in zip(("chat c=8", "code c=8"), outputs, strict=True)
    ]
    found = recommend(entries)
    assert found.sensitivity[0] == "At chat c=8 tp=1 dp=1 wins; at code c=8 tp=2 dp=1 wins."


def test_a_concurrency_that_an_import_does_not_say_is_not_no_limit() -> None:
    silent = Workload(dataset="chat", max_concurrency=None)
    entries = [
        under(ONE, silent, 1000, load="chat n=1000", imported=True),
        under(ONE, replace(silent, max_concurrency=8), 500, load="chat n=1000 c=8", imported=True),
    ]
    found = recommend(entries)
    assert found.best is not None
    assert found.best.where == "tp=1 dp=1 at chat n=1000"


def test_a_load_at_which_nothing_was_valid_is_in_no_range() -> None:
    found = recommend(ladder({ONE: (100, None, 300), TWO: (200, None, 900)}))
    assert found.sensitivity[0] == (
        "At concurrency ≤1 tp=2 dp=1 wins; at concurrency 8 nothing valid was measured; "
        "at concurrency 64 tp=2 dp=1 wins."
    )


def test_a_range_is_open_downwards_only_from_the_lightest_load_on() -> None:
    found = recommend(ladder({ONE: (None, 400, 300), TWO: (None, 200, 900)}))
    assert found.sensitivity[0] == (
        "At concurrency 1 nothing valid was measured; at concurrency 8 tp=1 dp=1 wins; "
        "at concurrency 64 tp=2 dp=1 wins."
    )


def test_a_lighter_load_may_well_meet_what_the_lightest_missed() -> None:
    outputs = {ONE: (400, 300), TWO: (200, 900)}
    entries = [
        replace(one, values={**one.values, "p99_ttft_ms": 500.0 / (one.workload.max_concurrency or 1)})
        for one in ladder(outputs, first=8)
    ]
    found = recommend(entries, parse_slo("ttft_p99_ms<20"))
    assert found.sensitivity[0] == "At concurrency 8 nothing meets the SLO; at concurrency 64 tp=2 dp=1 wins."


def test_an_unmeasured_latency_is_not_said_to_miss_the_slo() -> None:
    one, two = ladder({ONE: (100, 300)})
    found = recommend(
        [one, replace(two, values={**two.values, "p99_ttft_ms": 10.0})], parse_slo("ttft_p99_ms<20")
    )
    assert found.sensitivity[0] == (
        "At concurrency 1 nothing is known to meet the SLO; at concurrency 8 tp=1 dp=1 wins."
    )


def test_a_load_without_a_value_of_the_objective_is_named_for_that() -> None:
    one, two = ladder({ONE: (100, 300)})
    found = recommend(
        [one, replace(two, values={**two.values, PER_JOULE.key: 2.0})], objective=objective_named("energy")
    )
    assert found.sensitivity[0] == (
        "At concurrency 1 nothing valid has a value of energy; at concurrency 8 tp=1 dp=1 wins."
    )


def test_requests_of_all_repeats_count_only_for_percentiles_that_are_over_all_of_them() -> None:
    """p50, p90, p95 and p99 are; a p99.9 that the client was asked for is the median of each repeat's own."""
    one = entry(
        ONE, steady(100), values={"p99.9_ttft_ms": 900.0, "p99_ttft_ms": 300.0}, completed=12_000, pooled=True
    )
    reasons = recommend([one], parse_slo("ttft_p99.9_ms<1000,ttft_p99_ms<1000")).reasons
    assert [reason for reason in reasons if "rests on" in reason] == [
        "ttft_p99.9_ms rests on 4,000 requests, and 10,000 are wanted: measure with more prompts."
    ]


def test_what_takes_no_known_number_of_gpus_wins_no_tie_by_it() -> None:
    known = entry(TWO, noisy(1000), name="known", trial=1)
    silent = entry(ONE, noisy(1010), name="silent", trial=2, gpus=None, split_known=False)
    found = recommend([known, silent])
    assert found.best is not None
    assert found.best.name == "known"
    assert not any("instead of" in reason for reason in found.reasons)

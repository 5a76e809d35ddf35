"""What is said of entries: only what their numbers and comparisons bear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleetbench.model import Config, Workload
from fleetbench.report.charts import charts_of_entries
from fleetbench.report.entry import Entry, Status
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.observations import Said, every_observation, observations
from fleetbench.report.observations.cautions import said_of_cautions
from fleetbench.report.observations.crossover import reigns
from fleetbench.report.observations.ranking import said_of_ranks, without_objection
from fleetbench.report.tables.concurrency import ladders as concurrency_ladders
from fleetbench.results.comparison import Observation
from fleetbench.results.rows import Finding, Verdict

GPU = "NVIDIA H100 80GB HBM3"
NOISE = (1.0, 1.004, 0.996)
EAGER = Finding(rule="eager-mode", verdict=Verdict.SUSPECT, text="the server ran in eager mode")
FAILED = Finding(rule="failed-requests", verdict=Verdict.INVALID, text="3 of 100 requests failed")
STALLED = Finding(rule="stalled", verdict=Verdict.SUSPECT, text="the work stood still")


def entry(name: str, output: float, *, concurrency: int = 64, **changes: object) -> Entry:
    """A valid entry on eight GPUs, of three repeats with little noise."""
    given = Entry(
        source="run-1",
        name=name,
        model="org/tiny",
        gpu=GPU,
        gpus=8,
        config=Config(tp=8),
        workload=Workload(num_prompts=10 * concurrency, max_concurrency=concurrency),
        load=f"c={concurrency}",
        status=Status.VALID,
        repeats=3,
        values={OUTPUT.key: output},
        observations={OUTPUT.key: tuple(Observation(value=output * noise, start=name) for noise in NOISE)},
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def imported(name: str, output: float, *findings: Finding, **changes: object) -> Entry:
    """A row of a source."""
    worst = min(
        (f.verdict for f in findings), key=lambda verdict: verdict != Verdict.INVALID, default=Verdict.VALID
    )
    return entry(
        name,
        output,
        imported=True,
        table="1 a table",
        findings=findings,
        status=Status(worst.value),
        observations={OUTPUT.key: (Observation(value=output),)},
        **changes,
    )


def topic(said: Iterator[Said] | tuple[Said, ...], name: str) -> list[str]:
    return [each.text for each in said if each.topic == name]


# ---------------------------------------------------------------- who wins where


def ladder(name: str, config: Config, outputs: dict[int, float]) -> list[Entry]:
    return [entry(name, output, concurrency=c, config=config) for c, output in outputs.items()]


UNITS = ladder("tp=1 units=8", Config(units=8), {8: 300.0, 64: 2000.0, 128: 3000.0, 256: 3500.0})
TP = ladder("tp=8", Config(tp=8), {8: 200.0, 64: 1500.0, 128: 3001.0, 256: 6000.0})


def test_a_crossover_names_where_each_wins_and_leaves_out_where_nobody_does() -> None:
    (text,) = topic(observations([*UNITS, *TP]), "crossover")
    assert text == f"On 8× {GPU}, tp=1 units=8 wins up to c=64, tp=8 wins from c=256 on (output throughput)"
    ((first, second),) = reigns([*TP, *UNITS])
    assert (first.winner.name, first.first, first.last) == ("tp=1 units=8", 8, 64)
    assert (second.first, second.last) == (256, 256)


def test_a_winner_is_not_named_beyond_where_it_wins() -> None:
    """At c=8 and at c=512 nobody wins, so nothing is said below c=64 and above c=256."""
    even = {8: 300.0, 512: 7000.0}
    units = [*ladder("tp=1 units=8", Config(units=8), even), *UNITS[1:]]
    tp = [*ladder("tp=8", Config(tp=8), even), *TP[1:]]
    (text,) = topic(observations([*units, *tp]), "crossover")
    assert text == f"On 8× {GPU}, tp=1 units=8 wins at c=64, tp=8 wins at c=256 (output throughput)"


def test_ladders_of_other_requests_or_another_series_are_ladders_of_their_own() -> None:
    """Of one configuration c=8 was measured by one client, c=64 by another: that is no ladder."""
    low, high = UNITS[:2]
    assert len(concurrency_ladders([low, high])) == 1
    assert concurrency_ladders([replace(low, series="rust client"), high]) == ()
    hot = replace(high, workload=replace(high.workload, temperature=0.7))
    assert concurrency_ladders([low, hot]) == ()
    assert reigns([low, TP[0], hot, replace(TP[1], workload=hot.workload)]) != reigns([*UNITS[:2], *TP[:2]])


def test_one_winner_throughout_and_single_figures_have_no_crossover() -> None:
    better = [replace(each, values={OUTPUT.key: 1.0}, observations={}) for each in TP]
    assert topic(observations([*UNITS, *better]), "crossover") == []
    once = [
        replace(each, observations={OUTPUT.key: (Observation(value=each.values[OUTPUT.key]),)})
        for each in UNITS
    ]
    assert reigns([*once, *TP]) == ()


def test_configurations_on_other_numbers_of_gpus_do_not_compete() -> None:
    assert reigns([*(replace(each, gpus=4) for each in UNITS), *TP]) == ()


def test_an_invalid_winner_is_none() -> None:
    lost = [replace(each, status=Status.INVALID) for each in TP]
    assert reigns([*UNITS, *lost]) == ()


# ---------------------------------------------------------------- scaling, room


def scaled(*outputs: float, ceilings: tuple[dict[str, object], ...] = ()) -> list[Entry]:
    """tp = 1, 2, 4 … on as many GPUs."""
    found = []
    for place, output in enumerate(outputs):
        gpus = 2**place
        ceiling = ceilings[place] if place < len(ceilings) else {}
        found.append(entry(f"tp={gpus}", output, gpus=gpus, config=Config(tp=gpus), ceiling=ceiling))
    return found


def test_efficiency_is_said_for_each_number_of_gpus_and_what_gave_nothing() -> None:
    first, second = topic(every_observation(scaled(1000.0, 1510.0, 1512.0)), "scaling")
    assert first == (
        f"From tp=1 (1,000 tok/s on 1 {GPU}): tp=2 gives 1.51× on 2 GPUs (76 % a GPU); "
        "tp=4 gives 1.51× on 4 GPUs (38 % a GPU)"
    )
    assert second == "More GPUs for nothing: 4 GPUs with tp=4 no more than 2"


def test_far_below_its_ceiling_it_is_not_the_gpus() -> None:
    ceilings = ({}, {}, {"of_ceiling_percent": 12.0})
    texts = topic(every_observation(scaled(1000.0, 1510.0, 1400.0, ceilings=ceilings)), "scaling")
    assert "at 12 % of what its GPUs can do, so something beside them held it back" in texts[1]


def test_a_wider_split_that_gained_room_is_told_from_one_that_gained_arithmetic() -> None:
    starved = (
        {"binds": "kv-room", "why": "the KV cache was 99% full", "in_flight": 20.0},
        {"binds": "bandwidth", "in_flight": 64.0},
    )
    texts = topic(observations(scaled(1000.0, 2400.0, ceilings=starved)), "bound")
    assert texts[0].startswith(
        "tp=1 is KV-starved, so memory is what is missing (tp=1: the KV cache was 99% full)"
    )
    assert texts[1] == (
        "tp=1 is KV-starved, with room for about 20 of 64 requests where tp=2 has it for all: of the 2.40× "
        "that tp=2 gives a part is room for keys and values, not arithmetic"
    )
    enough = ({"binds": "bandwidth", "in_flight": 64.0}, {"binds": "bandwidth", "in_flight": 64.0})
    assert topic(observations(scaled(1000.0, 2400.0, ceilings=enough)), "bound") == []


def test_more_servers_are_no_room_of_one() -> None:
    one, two = scaled(1000.0, 1900.0, ceilings=({"in_flight": 20.0}, {"in_flight": 40.0}))
    two = replace(two, name="dp=2", config=Config(dp=2))
    assert topic(observations([one, two]), "bound") == []


def test_the_links_are_named_and_samples_stand_in_for_a_ceiling() -> None:
    links = entry("tp=8", 1000.0, ceiling={"binds": "interconnect", "why": "sending takes 8 ms"})
    full = entry("tp=1", 900.0, telemetry={"kv_usage_max": 0.99, "waiting_mean": 12.0})
    idle = entry("tp=2", 900.0, telemetry={"kv_usage_max": 0.99, "waiting_mean": 0.0})
    texts = topic(observations([links, full, idle]), "bound")
    assert texts == [
        "tp=1 is KV-starved, so memory is what is missing (tp=1: the KV cache was 99% full while 12 requests "
        "waited)",
        "tp=8 is bound by the links between the GPUs, so a wider split does not help "
        "(tp=8: sending takes 8 ms)",
    ]
    lost = entry("tp=1", 900.0, telemetry={"kv_usage_max": 0.99, "waiting_mean": 0.2, "preemptions": 7.0})
    (text,) = topic(observations([lost]), "bound")
    assert text.endswith("(tp=1: the KV cache was 99% full while 7 requests lost their place)")


# ---------------------------------------------------------------- what noise hides is not called nothing


def of_repeats(name: str, gpus: int, *outputs: float) -> Entry:
    """Valid, on so many GPUs with tp alone; each output is a repeat of one start."""
    seen = tuple(Observation(value=output, start=name) for output in outputs)
    middle = sorted(outputs)[len(outputs) // 2] if len(outputs) % 2 else sum(sorted(outputs)[-2:][:2]) / 2
    return entry(
        name, middle, gpus=gpus, config=Config(tp=gpus), repeats=len(outputs), observations={OUTPUT.key: seen}
    )


def scaling_said(*entries: Entry) -> list[str]:
    return topic(every_observation(entries), "scaling")[1:]


def test_a_gain_that_noise_hides_is_not_called_nothing() -> None:
    one, two = of_repeats("tp=1", 1, 900.0, 1100.0), of_repeats("tp=2", 2, 1500.0, 2000.0)
    (text,) = scaling_said(one, two)
    assert text == (
        "It cannot be told whether more GPUs gave more: on 2 GPUs tp=2 is not distinguishable from tp=1 "
        "at this noise: 3 more repeats would show 50 %"
    )


def test_a_loss_that_noise_might_turn_is_not_called_nothing_either() -> None:
    (text,) = scaling_said(of_repeats("tp=1", 1, 900.0, 1150.0), of_repeats("tp=2", 2, 880.0, 1120.0))
    assert text.startswith("It cannot be told whether more GPUs gave more")


def test_a_loss_beyond_noise_and_what_a_restart_may_be_are_nothing() -> None:
    one = of_repeats("tp=1", 1, 1000.0, 1002.0, 998.0)
    for outputs in ((700.0, 702.0, 698.0), (1001.0, 1003.0, 999.0), (1003.0, 1012.0, 994.0)):
        assert scaling_said(one, of_repeats("tp=2", 2, *outputs)) == [
            "More GPUs for nothing: 2 GPUs with tp=2 no more than 1"
        ]


def test_own_rows_that_were_measured_once_are_hedged_and_apart_from_sure_ones() -> None:
    one, two, four = (
        of_repeats("tp=1", 1, 1000.0, 1002.0, 998.0),
        of_repeats("tp=2", 2, 950.0),
        of_repeats("tp=4", 4, 900.0, 902.0, 898.0),
    )
    assert scaling_said(one, two, four) == [
        "More GPUs for nothing: 4 GPUs with tp=4 no more than 1",
        "More GPUs for nothing, as far as single figures tell: 2 GPUs with tp=2 no more than 1",
    ]
    assert scaling_said(one, of_repeats("tp=2", 2, 1900.0)) == []


def test_many_ladders_count_what_cannot_be_told_apart() -> None:
    steps = ((1500.0, 2000.0), *((700.0, 702.0),) * 2, *((1900.0, 1902.0),) * 4)
    ladders = [(of_repeats("tp=1", 1, 1000.0, 1002.0), of_repeats("tp=2", 2, *outputs)) for outputs in steps]
    rows = [replace(row, gpu=f"GPU {place}") for place, both in enumerate(ladders) for row in both]
    (text,) = topic(every_observation(rows), "scaling")
    assert text.startswith(
        "2 of 7 rows on several GPUs give no more than the fewest GPUs of their kind, "
        "and of 1 that cannot be told at this noise; the most that each GPU gave is 95 %"
    )


def test_room_explains_no_gain_that_noise_hides() -> None:
    starved = {"binds": "kv-room", "in_flight": 20.0}
    one = replace(of_repeats("tp=1", 1, 900.0, 1100.0), ceiling=starved)
    two = replace(of_repeats("tp=2", 2, 1500.0, 2000.0), ceiling={"in_flight": 64.0})
    assert not [text for text in topic(observations([one, two]), "bound") if "arithmetic" in text]


# ---------------------------------------------------------------- whose evidence it is


def test_the_evidence_of_a_bound_is_its_own() -> None:
    both = {
        "binds": "client; kv-room",
        "why": "the client used a whole core; the KV cache was full while 20 requests waited",
    }
    assert topic(observations([entry("tp=1", 1000.0, ceiling=both)]), "bound") == [
        "tp=1 is KV-starved, so memory is what is missing "
        "(tp=1: the KV cache was full while 20 requests waited)",
        "tp=1 is held back by the bench client, so the server can do more than this "
        "(tp=1: the client used a whole core)",
    ]


def test_evidence_that_may_be_of_another_bound_is_left_out_or_taken_from_the_samples() -> None:
    three = {"binds": "client; kv-room", "why": "a core; the cache was full; a core and a half"}
    full = {"kv_usage_max": 0.99, "waiting_mean": 12.0}
    starved, client = topic(observations([entry("tp=1", 1000.0, ceiling=three, telemetry=full)]), "bound")
    assert starved.endswith("(tp=1: the KV cache was 99% full while 12 requests waited)")
    assert client == "tp=1 is held back by the bench client, so the server can do more than this"
    clear = entry("tp=2", 1000.0, ceiling={"binds": "client", "why": "it used 1.00 cores"})
    _, client = topic(observations([entry("tp=1", 1000.0, ceiling=three), clear]), "bound")
    assert client.startswith("tp=1, tp=2 are held back")
    assert client.endswith("(tp=2: it used 1.00 cores)")
    unknown = {"binds": "unknown", "why": "30% of the serial estimate, and nothing that was sampled says why"}
    (starved,) = topic(observations([entry("tp=1", 1000.0, ceiling=unknown, telemetry=full)]), "bound")
    assert starved.endswith("(tp=1: the KV cache was 99% full while 12 requests waited)")


# ---------------------------------------------------------------- one concurrency, other numbers of prompts


def at(name: str, concurrency: int, prompts: int, output: float) -> Entry:
    return entry(
        name,
        output,
        concurrency=concurrency,
        config=Config(tp=8) if name == "B" else Config(units=8),
        workload=Workload(num_prompts=prompts, max_concurrency=concurrency),
        load=f"n={prompts} c={concurrency}",
    )


B_AT_64 = [at("A", 64, 640, 2000.0), at("B", 64, 640, 3000.0)]


def test_a_winner_is_not_chosen_across_numbers_of_prompts() -> None:
    """At c=8 only A was measured with 1,000 prompts; with 100, which both have, B wins."""
    rows = [at("A", 8, 100, 1000.0), at("B", 8, 100, 1100.0), at("A", 8, 1000, 1300.0), *B_AT_64]
    ((reign,),) = reigns(rows)
    assert (reign.winner.name, reign.first, reign.last) == ("B", 8, 64)
    assert topic(observations(rows), "crossover") == []


def test_nobody_reigns_where_the_number_of_prompts_decides() -> None:
    rows = [at("A", 8, 100, 1000.0), at("B", 8, 100, 1100.0)]
    rows += [at("A", 8, 1000, 1300.0), at("B", 8, 1000, 1100.0), *B_AT_64]
    ((reign,),) = reigns(rows)
    assert (reign.winner.name, reign.first, reign.last) == ("B", 64, 64)
    even = [at("A", 8, 1000, 1100.0), at("B", 8, 1000, 1100.0)]
    ((reign,),) = reigns([*rows[:2], *even, *B_AT_64])
    assert reign.first == 64


def test_the_title_of_the_curves_does_not_choose_across_numbers_of_prompts_either() -> None:
    rows = [at("A", 8, 100, 1000.0), at("B", 8, 100, 1100.0), at("A", 8, 1000, 1300.0), *B_AT_64]
    (chart,) = (found for found in charts_of_entries(rows) if found.key.startswith("concurrency"))
    assert "tp=8 dp=1 has the highest output throughput at every concurrency" in chart.finding
    rows[2:3] = [at("A", 8, 1000, 1300.0), at("B", 8, 1000, 1100.0)]
    (chart,) = (found for found in charts_of_entries(rows) if found.key.startswith("concurrency"))
    assert "none clearly at c=8, tp=8 dp=1 at c=64" in chart.finding


# ---------------------------------------------------------------- ranks


def test_own_rows_are_ranked_by_comparison_and_noise_is_called_noise() -> None:
    near = [entry("a", 1000.0), entry("b", 1004.0)]
    (text,) = topic(said_of_ranks(near), "highest")
    assert text.startswith("No clear best output throughput: b and a")
    apart = [entry("a", 1000.0), entry("b", 1200.0)]
    (text,) = topic(said_of_ranks(apart), "highest")
    assert text.startswith("b has the highest output throughput: 1,200 tok/s, faster than a by")


def test_a_source_s_rank_is_repeated_and_what_remains_of_it_said() -> None:
    rows = [
        imported("a", 30.0, EAGER, FAILED, failed=3),
        imported("b", 20.0, EAGER),
        imported("c", 10.0, EAGER),
    ]
    assert topic(said_of_ranks(rows), "highest") == [
        "Highest generation TPS, as the source ranks: a with 30.00 tokens/s"
    ]
    assert topic(said_of_ranks(rows), "errors") == ["Errors on: a (3)"]
    assert topic(said_of_ranks(rows), "objections") == [
        "Without rows that have an objection of their own (a: failed-requests), leaving aside what all share "
        "(eager-mode), highest generation TPS: b with 20.00 tokens/s"
    ]


def test_what_makes_a_row_invalid_is_never_left_aside() -> None:
    assert without_objection([imported("a", 1.0, FAILED), imported("b", 2.0, FAILED)]) == ((), ())
    kept, shared = without_objection([imported("a", 1.0, EAGER, FAILED), imported("b", 2.0, EAGER, STALLED)])
    assert (kept, shared) == ((), ("eager-mode",))
    alone = imported("a", 1.0, STALLED)
    assert without_objection([alone]) == ((), ())
    assert without_objection([]) == ((), ())


def test_a_table_without_any_objection_says_none() -> None:
    rows = [imported("a", 30.0), imported("b", 20.0)]
    assert topic(said_of_ranks(rows), "objections") == []


# ---------------------------------------------------------------- cautions


def test_each_objection_is_told_once_with_its_rows() -> None:
    rows = [imported("a", 1.0, EAGER, STALLED), imported("b", 1.0, EAGER), imported("c", 1.0, EAGER)]
    first, second = topic(said_of_cautions(rows), "caution")
    assert first == (
        "Measured in eager mode, without CUDA graphs (eager-mode, all 3 rows). "
        "For instance a in 1: the server ran in eager mode"
    )
    assert "(stalled, 1 of 3 rows: a in 1)" in second


def test_a_rule_of_another_version_is_named_as_it_is() -> None:
    strange = Finding(rule="from-the-future", verdict=Verdict.SUSPECT, text="odd")
    (text,) = topic(said_of_cautions([imported("a", 1.0, strange)]), "caution")
    assert text.startswith("From-the-future (from-the-future, the only row)")


def test_sentences_stay_on_one_line_whatever_a_name_holds() -> None:
    evil = "a\nb\x1b[31m" + "x" * 500
    strange = Finding(rule="stalled", verdict=Verdict.INVALID, text=evil)
    rows = [imported(evil, 1.0, strange, gpu=evil, failed=1), imported("b", 2.0)]
    own = [
        replace(each, name=evil, gpu=evil, ceiling={"binds": "client", "why": evil})
        for each in scaled(1.0, 2.0)
    ]
    for said in (*said_of_ranks(rows), *every_observation(rows), *every_observation(own)):
        assert said.text.isprintable()
        assert len(said.text) < 900

"""What is recommended: the best, ties, loads, what would change it, what is left out and why."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from choice_entries import entry, noisy, steady
from imported_figures import published
from report_rows import TOO_LITTLE_MEMORY, repeats, run, trial

from fleetbench.choice.objective import OBJECTIVES, objective_named
from fleetbench.choice.recommend import recommend, recommendations
from fleetbench.choice.render import candidates_table, document, markdown, next_step
from fleetbench.choice.slo import parse_slo
from fleetbench.errors import UsageError
from fleetbench.model import Config, TrialState
from fleetbench.report.entry import Entry, Status
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.markdown import markdown as report_markdown
from fleetbench.report.metrics import PER_GPU, PER_JOULE
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.recommendation import leading
from fleetbench.report.summary import summarise
from fleetbench.results.comparison import Observation

EIGHT, PAIRS, WHOLE = Config(units=8), Config(tp=2, units=4), Config(tp=8)


def ladder() -> list[Entry]:
    """Three configurations at three loads: tp=8 is best alone, eight servers are best in a crowd."""
    outputs = {EIGHT: (1000, 2000, 3000), PAIRS: (1200, 1800, 2600), WHOLE: (1500, 1200, 1000)}
    waits = {EIGHT: (160, 640, 1700), PAIRS: (130, 700, 1900), WHOLE: (100, 1000, 5000)}
    return [
        entry(
            config,
            steady(outputs[config][place]),
            concurrency=concurrency,
            trial=number,
            values={"p99_ttft_ms": waits[config][place], "p99_tpot_ms": 0.3 * concurrency},
        )
        for number, config in enumerate(outputs, start=1)
        for place, concurrency in enumerate((8, 64, 256))
    ]


def test_the_best_is_a_configuration_at_a_load_and_the_runner_up_another_configuration() -> None:
    found = recommend(ladder())
    assert found.best is not None
    assert (found.best.entry.config, found.best.load, found.best.trial) == (EIGHT, "c=256", 1)
    assert found.runner_up is not None
    assert (found.runner_up.entry.config, found.runner_up.load) == (PAIRS, "c=256")
    assert found.comparison is not None
    assert found.comparison.differs
    assert found.sentence == (
        "tp=1 dp=1 units=8 at c=256: 3,000 tok/s, faster than tp=2 dp=1 units=4 (2,600) by 15.1–15.6 %."
    )
    assert found.sensitivity[0] == (
        "At concurrency ≤8 tp=8 dp=1 wins; at concurrency 64 to 256 tp=1 dp=1 units=8 wins."
    )


def test_only_what_meets_the_slo_is_chosen_and_what_would_change_that_is_said() -> None:
    found = recommend(ladder(), parse_slo("ttft_p99_ms<2000,tpot_p99_ms<60"))
    assert found.best is not None
    assert (found.best.entry.config, found.best.load) == (EIGHT, "c=64")
    assert "It meets ttft_p99_ms<2000 (640 ms) and tpot_p99_ms<60 (19.2 ms)." in found.reasons
    assert found.sensitivity == (
        "At concurrency ≤8 tp=8 dp=1 wins; at concurrency 64 tp=1 dp=1 units=8 wins; "
        "at concurrency 256 nothing meets the SLO.",
        "With ttft_p99_ms<640: tp=8 dp=1 at c=8 (1,500 tok/s).",
        "With tpot_p99_ms<19.2: tp=8 dp=1 at c=8 (1,500 tok/s).",
        "With tpot_p99_ms<=76.8: tp=1 dp=1 units=8 at c=256 (3,000 tok/s).",
    )
    why = {(out.name, out.load): out.why for out in found.left_out}
    assert why["tp=1 dp=1 units=8", "c=256"] == "misses tpot_p99_ms<60 by 28 % (76.8 ms)"
    assert why["tp=8 dp=1", "c=256"].startswith(
        "misses ttft_p99_ms<2000 (5,000 ms, 2.5 times the limit) and tpot_p99_ms<60 by 28 %"
    )
    assert len(why) == 3


def test_every_change_that_is_named_is_what_a_new_choice_would_say() -> None:
    for bounds, expected in (
        ("ttft_p99_ms<640,tpot_p99_ms<60", (WHOLE, "c=8")),
        ("ttft_p99_ms<2000,tpot_p99_ms<=76.8", (EIGHT, "c=256")),
    ):
        best = recommend(ladder(), parse_slo(bounds)).best
        assert best is not None
        assert (best.entry.config, best.load) == expected


def test_where_nothing_meets_the_slo_the_nearest_is_named() -> None:
    found = recommend(ladder(), parse_slo("ttft_p99_ms<90"))
    assert found.best is None
    assert found.nearest is not None
    assert found.nearest.where == "tp=8 dp=1 at c=8"
    assert found.reasons == (
        "None of 9 valid measurements meets ttft_p99_ms<90.",
        "tp=8 dp=1 at c=8 comes nearest: it misses ttft_p99_ms<90 by 11 % (100 ms).",
    )
    assert not next_step(found)


def test_a_tie_is_settled_by_fewer_gpus_and_said() -> None:
    found = recommend([entry(WHOLE, noisy(1010), trial=1), entry(Config(tp=4), noisy(1000), trial=2)])
    assert found.best is not None
    assert found.best.trial == 2
    assert found.sentence.startswith("tp=4 dp=1: 1,000 tok/s, not distinguishable from tp=8 dp=1")
    assert "tp=8 dp=1 measured 1,010, which is no more than noise; tp=4 dp=1 takes 4 GPUs instead of 8." in (
        found.reasons
    )


def test_a_tie_on_as_many_gpus_is_settled_by_the_simpler_one() -> None:
    found = recommend([entry(EIGHT, noisy(1010), trial=1), entry(WHOLE, noisy(1000), trial=2)])
    assert found.best is not None
    assert found.best.trial == 2
    assert any(reason.endswith("tp=8 dp=1 is simpler.") for reason in found.reasons)


def test_a_lighter_load_with_as_much_output_is_kinder_to_its_users() -> None:
    found = recommend([entry(WHOLE, noisy(1000), concurrency=64), entry(WHOLE, noisy(1005), concurrency=512)])
    assert found.best is not None
    assert found.best.load == "c=64"
    assert found.runner_up is None
    assert "the only configuration" in found.sentence
    assert any("the lighter load is taken" in reason for reason in found.reasons)


def test_noise_does_not_hide_a_large_difference() -> None:
    """A third less is not taken for the sake of fewer GPUs, however little is known."""
    wild = (800.0, 1200.0, 1500.0)
    found = recommend([entry(WHOLE, wild, trial=1), entry(Config(), (600.0, 800.0, 1000.0), trial=2)])
    assert found.best is not None
    assert found.best.trial == 1
    assert "not distinguishable" in found.sentence
    assert "Not distinguishable from what measured best: tp=1 dp=1." in found.reasons


def test_what_was_measured_once_is_not_called_a_tie() -> None:
    found = recommend([entry(WHOLE, (1000.0,), trial=1), entry(Config(), (999.0,), trial=2)])
    assert found.best is not None
    assert found.best.trial == 1
    assert "measured once" in found.sentence


def test_another_objective_that_takes_another_configuration_is_said() -> None:
    entries = [entry(WHOLE, steady(3000), trial=1), entry(Config(tp=2), steady(1000), trial=2)]
    assert "By tokens/s/gpu: tp=2 dp=1 (500.0 tok/s/GPU)." in recommend(entries).sensitivity
    found = recommend(entries, objective=objective_named("Tokens/s/GPU"))
    assert found.best is not None
    assert (found.best.trial, found.best.value) == (2, 500)
    assert "By tokens/s: tp=8 dp=1 (3,000 tok/s)." in found.sensitivity


def test_energy_is_never_guessed() -> None:
    energy = objective_named("energy")
    found = recommend(ladder(), objective=energy)
    assert found.best is None
    assert found.sentence == (
        "None of 9 valid measurements has a value of energy: not measured: no power samples."
    )
    one = entry(Config(), steady(100), trial=4, values={PER_JOULE.key: 2.5})
    found = recommend([*ladder(), one], objective=energy)
    assert found.best is not None
    assert found.best.trial == 4
    assert {out.why for out in found.left_out} == {"not measured: no power samples"}


def test_what_is_not_valid_is_never_chosen_and_always_named() -> None:
    entries = [
        entry(Config(), steady(100), trial=1),
        entry(Config(tp=2), steady(900), trial=2, status=Status.SUSPECT, cause="3 waves of 10"),
        replace(
            entry(Config(tp=4), (1.0,), trial=3),
            status=Status.FAILED,
            cause="CUDA out of memory",
            values={},
            observations={},
        ),
    ]
    found = recommend(entries)
    assert found.best is not None
    assert found.best.trial == 1
    assert [(out.name, out.status, out.why) for out in found.left_out] == [
        ("tp=2 dp=1", "suspect", "3 waves of 10"),
        ("tp=4 dp=1", "failed", "CUDA out of memory"),
    ]
    assert recommend(entries[1:]).sentence == (
        "There is no valid measurement to choose from: 1 suspect, 1 failed."
    )
    assert recommend([]).best is None


def test_an_unmeasured_latency_is_no_met_one() -> None:
    found = recommend([entry(Config(), steady(100))], parse_slo("e2el_p95<2s"))
    assert found.best is None
    assert "is known to meet e2el_p95_ms<2000" in found.sentence
    assert found.left_out[0].why == "not measured: e2el_p95_ms"


def test_different_questions_get_an_answer_each() -> None:
    other = [
        replace(one, gpu="NVIDIA B200", values={key: 2 * value for key, value in one.values.items()})
        for one in ladder()
        if one.config == WHOLE
    ]
    entries = [*ladder(), *other]
    answers = recommendations(entries)
    assert [answer.best.entry.config for answer in answers if answer.best] == [EIGHT, WHOLE]
    together = recommend(entries)
    assert together.best is None
    assert together.sentence == "There is no single choice in 2 different questions."
    assert len(together.reasons) == 3
    same = [*ladder(), *(replace(one, gpu="NVIDIA B200") for one in ladder())]
    assert recommend(same).best is not None


def test_series_clients_and_sources_are_questions_of_their_own() -> None:
    """Twice as much by another version, another client or another author is no better configuration."""
    other = [
        replace(one, values={key: 2 * value for key, value in one.values.items()})
        for one in ladder()
        if one.config == WHOLE
    ]
    newer = [replace(one, series="vLLM 0.33.0") for one in other]
    answers = recommendations([*(replace(one, series="vLLM 0.32.0") for one in ladder()), *newer])
    assert [answer.best.entry.config for answer in answers if answer.best] == [EIGHT, WHOLE]
    assert "on NVIDIA H200, vLLM 0.33.0, random" in answers[1].question
    rust = [replace(one, workload=replace(one.workload, client_program="rust")) for one in other]
    answers = recommendations([*ladder(), *rust])
    assert [answer.best.entry.config for answer in answers if answer.best] == [EIGHT, WHOLE]
    assert "rust client" in answers[1].question
    foreign = [replace(one, imported=True, source="blog") for one in other]
    mine = [replace(one, imported=True, source="paper") for one in ladder()]
    assert len(recommendations([*mine, *foreign])) == 2


def test_one_gpu_is_one_gpu() -> None:
    found = recommend([entry(Config(tp=2), noisy(1010), trial=1), entry(Config(), noisy(1000), trial=2)])
    assert any(reason.endswith("tp=1 dp=1 takes 1 GPU instead of 2.") for reason in found.reasons)


def test_a_report_says_that_nothing_meets_the_slo() -> None:
    found = recommendations(ladder(), parse_slo("ttft_p99_ms<90"))
    assert leading(found) == (
        "Nothing to recommend by output throughput, under ttft_p99_ms<90: "
        "None of 9 valid measurements meets ttft_p99_ms<90.",
    )
    assert leading(recommendations([])) == ()
    lost = [replace(one, status=Status.FAILED) for one in ladder()]
    assert leading(recommendations(lost, parse_slo("ttft_p99_ms<90"))) == ()


def test_the_pareto_set_holds_what_nothing_exceeds() -> None:
    found = recommend(ladder())
    assert [(pick.entry.config, pick.load) for pick in found.pareto] == [
        (WHOLE, "c=8"),
        (EIGHT, "c=64"),
        (EIGHT, "c=256"),
    ]


def test_few_requests_and_narrow_bounds_are_said() -> None:
    one = entry(Config(), steady(100), values={"p99_ttft_ms": 1990.0}, completed=600)
    seen = tuple(Observation(value=value) for value in (1900.0, 1990.0, 2050.0))
    one = replace(one, observations={**one.observations, "p99_ttft_ms": seen})
    reasons = recommend([one], parse_slo("ttft_p99_ms<2000")).reasons
    assert "It meets ttft_p99_ms<2000 narrowly: 1 of 3 repeats alone do not (2,050 ms)." in reasons
    assert any(
        reason.startswith("ttft_p99_ms rests on 600 requests, and 1,000 are wanted") for reason in reasons
    )
    alone = replace(one, pooled=False, completed=2700)
    reasons = recommend([alone], parse_slo("ttft_p99_ms<2000")).reasons
    assert any(reason.startswith("ttft_p99_ms rests on 900 requests") for reason in reasons)


def test_an_own_run_is_chosen_from() -> None:
    report = summarise(
        run(),
        [
            trial(1, Config(tp=2), gpu_name="NVIDIA H200"),
            trial(2, Config(tp=4), gpu_name="NVIDIA H200"),
            trial(3, Config(tp=8), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        ],
        [*repeats(1, 1000.0, 1010.0, 990.0), *repeats(2, 1500.0, 1510.0, 1490.0)],
    )
    entries = entries_of_run(report)
    found = recommendations(entries, parse_slo("ttft_p99_ms<300"))[0]
    assert found.best is not None
    assert found.best.trial == 2
    assert next_step(found) == f"invoke promote {run().id} --trial 2 --hosts lab-01"
    assert found.left_out[0].why == "misses ttft_p99_ms<300 by 33 % (400 ms)"


def test_imported_rows_are_not_promoted_and_a_published_report_of_suspect_rows_has_no_choice() -> None:
    source, rows = published("multi-gpu-report.toml")
    entries = entries_of_import(source, rows)
    assert all(answer.best is None for answer in recommendations(entries))
    valid = [replace(one, status=Status.VALID) for one in entries]
    answers = [answer for answer in recommendations(valid) if answer.best is not None]
    assert answers
    assert not any(map(next_step, answers))


def test_hostile_names_stay_text() -> None:
    nasty = entry(
        Config(serve_args=("|<b>x</b>\x1b[2J",)), steady(100), name="|<b>x</b>\x1b[2J`", model="a|b"
    )
    text = markdown(recommend([nasty], parse_slo("ttft_p99_ms<1")))
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "\x1b" not in text


def test_programs_get_all_of_it() -> None:
    found = recommend(ladder(), parse_slo("ttft_p99_ms<2000"))
    made = document(found, next_step(found))
    assert made["best"]["trial"] == 1  # type: ignore[index]
    assert len(made["candidates"]) == 8  # type: ignore[arg-type]
    assert made["next"] == "invoke promote 20261201-101010-tiny-abcd --trial 1 --hosts h200-01"
    table = candidates_table(found)
    assert table.columns[:4] == ("configuration", "load", "GPUs", "out tok/s")
    assert table.rows[0][-1] == "the choice, Pareto"
    assert PER_GPU.heading in table.columns


def test_gpus_that_nobody_counted_are_no_number() -> None:
    silent = entry(Config(), steady(100), gpus=None, split_known=False)
    split = entry(Config(tp=2), steady(50), gpus=None)
    found = recommend([silent, split])
    assert [pick["gpus"] for pick in document(found)["candidates"]] == [None, 2]  # type: ignore[attr-defined]
    table = candidates_table(found)
    assert [row[table.columns.index("GPUs")] for row in table.rows] == [None, 2]


def test_objectives_are_named_in_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        objective_named("speed\x1b")
    assert all(name in str(caught.value) for name in OBJECTIVES)
    assert "\x1b" not in str(caught.value)


def test_every_named_change_holds_for_rows_of_any_kind() -> None:
    """Whatever is measured: with the bound that a sentence names, the choice is the one that it names."""
    chance = random.Random(5)  # noqa: S311  the same rows each time
    said = 0
    for _ in range(40):
        entries = [
            entry(
                Config(tp=2 ** (number % 4), dp=1 + number // 4),
                noisy(chance.uniform(500, 1500)),
                concurrency=concurrency,
                trial=number,
                values={"p99_ttft_ms": chance.lognormvariate(6, 1), "p99_tpot_ms": chance.uniform(5, 90)},
            )
            for number in range(8)
            for concurrency in (8, 64)
        ]
        bounds = "ttft_p99_ms<600,tpot_p99_ms<60"
        found = recommend(entries, parse_slo(bounds))
        for sentence in found.sensitivity:
            changed = re.match(r"With ((ttft|tpot)_p99_ms\S+): (.+) \([\d.,]+ tok/s\)\.", sentence)
            if changed is None:
                continue
            said += 1
            other = next(bound for bound in bounds.split(",") if not bound.startswith(changed[2]))
            best = recommend(entries, parse_slo(f"{changed[1]},{other}")).best
            assert best is not None
            assert best.where == changed[3]
            assert found.best is not None
            assert best.where != found.best.where
    assert said > 40


def test_a_report_begins_with_the_choice_where_there_is_one() -> None:
    report = summarise(
        run(),
        [trial(1, Config(tp=2)), trial(2, Config(tp=4))],
        [*repeats(1, 1000.0, 1010.0, 990.0), *repeats(2, 1500.0, 1510.0, 1490.0)],
    )
    text = report_markdown(report, recommendations=recommendations(entries_of_run(report)))
    lines = [line for line in text.splitlines() if line]
    place = lines.index("## What the numbers say")
    assert lines[place - 1] == (
        "**Recommended by output throughput, without an SLO: tp=4 dp=1: 1,500 tok/s, "
        "faster than tp=2 dp=1 (1,000) by 49–51 %.**"
    )
    alone = recommendations(entry_ for entry_ in entries_of_run(report) if entry_.trial == 1)
    assert "Recommended" not in report_markdown(report, recommendations=alone)

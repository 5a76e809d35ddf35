"""How long a trial will take: learned from the nearest that was measured, else estimated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST, facts, gpu

from fleetbench.model import Build, Config, Device, Step, Workload
from fleetbench.plan.durations import (
    ESTIMATED,
    Expectation,
    Seen,
    SeenLoad,
    Subject,
    expected,
    in_words,
    size_class,
)
from fleetbench.plan.roofline import Guess, Machine, Shape
from fleetbench.plan.spread import longest_first, makespan_s

H200 = Machine(cpu=False, bandwidth_gb_s=4800, tflops=989)
DENSE_7B = Shape(weights_gib=14.2, layers=28)
MOE_30B = Shape(weights_gib=56.9, layers=48, experts_gib=54.0, experts_share=8 / 128)
GUESS = Guess(shape=DENSE_7B, machine=H200)
WORKLOAD = Workload(num_prompts=2000, max_concurrency=1000)
SUBJECT = Subject(model="m", kind="h200", config=Config(tp=2), workloads=(WORKLOAD,), repeats=3)
SEEN = Seen(
    run="20261130-1",
    model="m",
    kind="h200",
    config=Config(tp=2),
    weights_gib=14.2,
    ready_s=100.0,
    loads=(SeenLoad(workload=WORKLOAD, warm_up_s=40.0, repeat_s=(50.0, 60.0, 55.0)),),
)


def steps(subject: Subject, *seen: Seen, guess: Guess = GUESS) -> dict[Step, Expectation]:
    return {found.step: found for found in expected(subject, seen, guess).steps}


def test_without_anything_measured_every_step_is_estimated_in_its_order() -> None:
    found = expected(SUBJECT, (), GUESS)
    assert [step.step for step in found.steps] == [
        Step.STOP,
        Step.DRAIN,
        Step.LOAD,
        Step.COMPILE,
        Step.WARM_UP,
        Step.MEASURE,
        Step.FETCH,
    ]
    assert {step.source for step in found.steps} == {ESTIMATED}
    assert found.seconds == sum(found.by_step().values())
    assert not found.learned


def test_the_same_trial_is_expected_to_take_what_it_took() -> None:
    found = steps(SUBJECT, SEEN)
    assert found[Step.LOAD].seconds + found[Step.COMPILE].seconds == pytest.approx(100)
    assert found[Step.WARM_UP].seconds == 40
    assert found[Step.MEASURE].seconds == 3 * 55
    assert found[Step.MEASURE].source == "learned from run 20261130-1"
    assert found[Step.STOP].source == ESTIMATED
    assert expected(SUBJECT, (SEEN,), GUESS).learned


def test_a_timeline_tells_loading_from_compiling_and_the_small_steps() -> None:
    timed = replace(SEEN, steps_s={Step.STOP: 4.0, Step.LOAD: 75.0, Step.COMPILE: 25.0})
    found = steps(SUBJECT, timed)
    assert found[Step.LOAD].seconds == pytest.approx(75)
    assert found[Step.COMPILE].seconds == pytest.approx(25)
    assert found[Step.STOP].seconds == 4
    assert found[Step.FETCH].source == ESTIMATED


def test_another_configuration_is_scaled_by_what_the_estimate_says_of_both() -> None:
    other = replace(SEEN, config=Config(tp=1))
    found = steps(SUBJECT, other)
    ratio = GUESS.measure_s(Config(tp=2), WORKLOAD) / GUESS.measure_s(Config(tp=1), WORKLOAD)
    assert found[Step.MEASURE].seconds == pytest.approx(3 * 55 * ratio)
    assert found[Step.MEASURE].source == "learned from run 20261130-1, other configurations"


def test_the_same_configuration_counts_more_than_any_number_of_others() -> None:
    others = [replace(SEEN, run=f"2027-{n}", config=Config(tp=1), ready_s=900.0) for n in range(9)]
    found = steps(SUBJECT, *others, SEEN)
    assert found[Step.LOAD].seconds + found[Step.COMPILE].seconds == pytest.approx(100)


def test_a_model_of_like_size_counts_and_one_of_another_does_not() -> None:
    like = replace(SEEN, model="other", weights_gib=16.0)
    assert steps(SUBJECT, like)[Step.MEASURE].source == "learned from run 20261130-1, other of like size"
    far = replace(like, weights_gib=140.0)
    assert steps(SUBJECT, far)[Step.MEASURE].source == ESTIMATED
    unknown = Guess(shape=replace(DENSE_7B, known=False), machine=H200)
    assert steps(SUBJECT, like, guess=unknown)[Step.MEASURE].source == ESTIMATED
    assert size_class(14.2) == size_class(16.0) != size_class(140.0)


def test_what_another_kind_of_host_took_says_nothing() -> None:
    assert steps(SUBJECT, replace(SEEN, kind="h100"))[Step.LOAD].source == ESTIMATED


def test_what_is_too_far_apart_is_not_scaled() -> None:
    tiny = replace(WORKLOAD, num_prompts=20_000_000)
    found = steps(replace(SUBJECT, workloads=(tiny,)), SEEN)
    assert found[Step.MEASURE].source == ESTIMATED
    assert found[Step.LOAD].source != ESTIMATED


def test_only_the_newest_measurements_count() -> None:
    old = [replace(SEEN, run=f"2025-{n}", ready_s=1.0) for n in range(20)]
    new = [replace(SEEN, run=f"2026-{n}", ready_s=80.0) for n in range(5)]
    found = steps(SUBJECT, *new, *old)
    assert found[Step.LOAD].seconds + found[Step.COMPILE].seconds == pytest.approx(80)
    assert found[Step.LOAD].source == "learned from run 2026-4"


# Seconds that vLLM 0.25.1 took on an H200 until ready (from cold caches, without reading weights) and for
# 2,000 requests at concurrency 1000. The estimate is right when it is within a factor of two.
@pytest.mark.parametrize(
    ("shape", "tp", "ready_s", "requests_s"),
    [(DENSE_7B, 1, 110.0, 22.2), (MOE_30B, 1, 189.2, 42.6), (MOE_30B, 2, 168.8, 29.4)],
)
def test_the_estimate_is_within_a_factor_of_two_of_real_starts_and_runs(
    shape: Shape, tp: int, ready_s: float, requests_s: float
) -> None:
    guess = Guess(shape=shape, machine=H200)
    config = Config(tp=tp)
    assert 0.5 < (guess.load_s(config) + guess.compile_s(config)) / ready_s < 2
    served = guess.measure_s(config, WORKLOAD) - H200.table.client_s
    assert 0.5 < served / requests_s < 2


def test_more_work_takes_longer_and_more_gpus_less() -> None:
    def of(**changed: object) -> float:
        return GUESS.measure_s(Config(), replace(WORKLOAD, **changed))  # type: ignore[arg-type]

    assert of(num_prompts=4000) > of()
    assert of(output_len=512) > of()
    assert of(input_len=4096) > of()
    assert of(request_rate=1.0) >= 2000
    assert GUESS.measure_s(Config(tp=4), WORKLOAD) < GUESS.measure_s(Config(), WORKLOAD)
    assert GUESS.measure_s(Config(dp=4), WORKLOAD) < GUESS.measure_s(Config(), WORKLOAD)
    assert GUESS.compile_s(Config(), ("--enforce-eager",)) < GUESS.compile_s(Config())


def test_a_host_is_known_by_its_gpus_or_taken_as_usual() -> None:
    assert Machine.of(HOST, facts()).bandwidth_gb_s == 3350
    strange = facts(gpus=(replace(gpu(0), name="Accelerator X"),))
    assert Machine.of(HOST, strange) == Machine.usual()
    cpu = replace(HOST, build=Build(name="cpu", version="0.32.0", device=Device.CPU))
    assert Machine.of(cpu, facts(gpus=())).cpu


def test_the_longest_goes_to_whoever_is_free_first() -> None:
    spans = longest_first([1, 6, 5, 2, 4, 3], [0.0, 0.0])
    assert [span.lane for span in spans] == [1, 0, 1, 0, 1, 0]
    assert makespan_s(spans) == 11
    assert [(span.began_s, span.ended_s) for span in spans][:3] == [(9, 10), (0, 6), (0, 5)]
    assert longest_first([], [0.0]) == ()
    assert makespan_s(()) == 0


def test_a_lane_that_is_busy_gets_its_work_later() -> None:
    assert [span.lane for span in longest_first([3, 3], [5.0, 0.0])] == [1, 1]


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (11_100, "3 h 5 min")]
)
def test_times_are_told_as_people_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds) == words

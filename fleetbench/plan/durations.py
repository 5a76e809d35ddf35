"""How long each step of a trial is expected to take: learned from what was measured before, else estimated.

The nearer what was measured, the better: the same model, configuration and workload on the same kind of host;
then another configuration of it; then another model of like size. What was measured of something else is
scaled by what the estimate says of both, so that only the estimate's error counts, not its level.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from fleetbench.model import Config, Step, Workload
from fleetbench.plan.roofline import Guess

ESTIMATED = "estimated"
# What was measured of something else says little when the two are further apart than that.
_MOST_SCALING = 8.0
# Newer measurements count; older ones may be of another driver or another disk.
_LATEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What takes the time: a configuration of a model on a kind of host, and what is measured in it."""

    model: str
    kind: str
    config: Config
    workloads: tuple[Workload, ...]
    repeats: int
    warmup: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLoad:
    """What executions of one workload took, client start and fetching included."""

    workload: Workload
    warm_up_s: float | None = None
    repeat_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A trial that was measured before.

    Attributes:
        run: id of its run; ids sort by time.
        weights_gib: of the model, where they were known when the run was made.
        ready_s: from the server's start until it was ready.
        steps_s: what the run's timeline says of its steps, where there is one.
    """

    run: str
    model: str
    kind: str
    config: Config
    weights_gib: float | None = None
    ready_s: float | None = None
    loads: tuple[SeenLoad, ...] = ()
    steps_s: Mapping[Step, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a step is expected to take, over all its repeats, and where that comes from."""

    step: Step
    seconds: float
    source: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """The steps of a trial, in order."""

    steps: tuple[Expectation, ...]

    @property
    def seconds(self) -> float:
        """All of them."""
        return sum(step.seconds for step in self.steps)

    @property
    def learned(self) -> bool:
        """True when the longest step was measured before."""
        return max(self.steps, key=lambda step: step.seconds).source != ESTIMATED

    def by_step(self) -> dict[Step, float]:
        """The seconds of each step."""
        found: dict[Step, float] = {}
        for step in self.steps:
            found[step.step] = found.get(step.step, 0.0) + step.seconds
        return found


class _Near(IntEnum):
    """How near something seen is to what is asked for, the nearest first."""

    SAME = 0
    OTHER_CONFIG = 1
    LIKE_SIZE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    near: _Near
    seen: Seen
    seconds: float


def expected(
    subject: Subject, seen: Sequence[Seen], guess: Guess, *, arguments: Sequence[str] = ()
) -> Expected:
    """Return the steps of a trial with their expected seconds; `arguments` are the model's own."""
    near = [(found, how) for found in seen if (how := _near(subject, found, guess)) is not None]
    load, compiling = guess.load_s(subject.config), guess.compile_s(subject.config, arguments)

    def ready_of(found: Seen) -> float:
        return guess.load_s(found.config) + guess.compile_s(found.config, arguments)

    start = [
        _Sample(near=how, seen=found, seconds=_scaled(found.ready_s, load + compiling, ready_of(found)))
        for found, how in near
        if found.ready_s is not None
    ]
    ready, source = _best(start, load + compiling)
    loading = _share_of_loading(near, load / (load + compiling))
    table = guess.machine.table
    steps = [
        _plain(Step.STOP, near, table.stop_s),
        _plain(Step.DRAIN, near, table.drain_s),
        Expectation(step=Step.LOAD, seconds=ready * loading, source=source),
        Expectation(step=Step.COMPILE, seconds=ready * (1 - loading), source=source),
    ]
    for workload in subject.workloads:
        if subject.warmup:
            steps.append(_executions(Step.WARM_UP, subject, workload, near, guess, 1))
        steps.append(_executions(Step.MEASURE, subject, workload, near, guess, subject.repeats))
    steps.append(_plain(Step.FETCH, near, table.fetch_s))
    return Expected(tuple(steps))


def _share_of_loading(near: Sequence[tuple[Seen, _Near]], estimate: float) -> float:
    """Return which part of a start was loading where timelines say, else as estimated."""
    both = [
        _Sample(near=how, seen=found, seconds=found.steps_s[Step.LOAD] / whole)
        for found, how in near
        if (whole := found.steps_s.get(Step.LOAD, 0.0) + found.steps_s.get(Step.COMPILE, 0.0)) > 0
        and {Step.LOAD, Step.COMPILE} <= set(found.steps_s)
    ]
    return _best(both, estimate)[0]


def one_wave(workload: Workload) -> int:
    """Return the number of requests of a warm-up."""
    return max(1, min(workload.num_prompts, workload.max_concurrency or 16))


def _executions(
    step: Step,
    subject: Subject,
    workload: Workload,
    near: Sequence[tuple[Seen, _Near]],
    guess: Guess,
    times: int,
) -> Expectation:
    def guessed(config: Config, load: Workload) -> float:
        return guess.measure_s(config, _warm_up(load) if step is Step.WARM_UP else load)

    mine = guessed(subject.config, workload)
    samples = []
    for found, how in near:
        for load in found.loads:
            values = load.repeat_s if step is Step.MEASURE else _present(load.warm_up_s)
            if not values:
                continue
            close = how if load.workload == workload else max(how, _Near.OTHER_CONFIG)
            scaled = _scaled(statistics.median(values), mine, guessed(found.config, load.workload))
            samples.append(_Sample(near=close, seen=found, seconds=scaled))
    seconds, source = _best(samples, mine)
    return Expectation(step=step, seconds=seconds * times, source=source, detail=workload.label)


def _plain(step: Step, near: Sequence[tuple[Seen, _Near]], estimate_s: float) -> Expectation:
    samples = [
        _Sample(near=how, seen=found, seconds=found.steps_s[step])
        for found, how in near
        if step in found.steps_s
    ]
    seconds, source = _best(samples, estimate_s)
    return Expectation(step=step, seconds=seconds, source=source)


def _best(samples: Sequence[_Sample], estimate_s: float) -> tuple[float, str]:
    """Return the median of the nearest samples and what they are, or the estimate."""
    usable = [sample for sample in samples if math.isfinite(sample.seconds)]
    if not usable:
        return estimate_s, ESTIMATED
    nearest = min(sample.near for sample in usable)
    chosen = sorted((s for s in usable if s.near is nearest), key=lambda s: s.seen.run)[-_LATEST:]
    source = f"learned from run {chosen[-1].seen.run}"
    if nearest is _Near.OTHER_CONFIG:
        source += ", other configurations"
    elif nearest is _Near.LIKE_SIZE:
        source += f", {chosen[-1].seen.model} of like size"
    return statistics.median(sample.seconds for sample in chosen), source


def _near(subject: Subject, found: Seen, guess: Guess) -> _Near | None:
    if found.kind != subject.kind:
        return None
    if found.model == subject.model:
        return _Near.SAME if found.config == subject.config else _Near.OTHER_CONFIG
    alike = (
        guess.shape.known
        and found.weights_gib is not None
        and size_class(found.weights_gib) == size_class(guess.shape.weights_gib)
    )
    return _Near.LIKE_SIZE if alike else None


def size_class(weights_gib: float) -> int:
    """Return which models are of like size: one class for each doubling of the weights."""
    return round(math.log2(max(weights_gib, 2**-10)))


def _scaled(seconds: float, mine_s: float, theirs_s: float) -> float:
    """Return what was seen of one thing as it would be of another; no number when they are too far apart."""
    ratio = mine_s / theirs_s
    return seconds * ratio if 1 / _MOST_SCALING <= ratio <= _MOST_SCALING else math.nan


def _warm_up(workload: Workload) -> Workload:
    return replace(workload, num_prompts=one_wave(workload))


def _present(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)


def in_words(seconds: float) -> str:
    """Return a time as people say it: `40 s`, `12 min`, `3 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

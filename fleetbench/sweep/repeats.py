"""The measurements of a trial: a warm-up with another seed, then the repeats; what is done is kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from fleetbench.bench.client import Count
from fleetbench.bench.measure import Server, Task, measure
from fleetbench.bench.prompts import salted, unsalted
from fleetbench.bench.witness import NoWitness
from fleetbench.deploy import CREDENTIAL
from fleetbench.errors import HostRebooted, NotReady
from fleetbench.model import Step, Workload
from fleetbench.results.rows import Finding, MeasurementKind, TrialRow, Verdict
from fleetbench.results.store import Store
from fleetbench.service.diagnose import HANGS
from fleetbench.sweep.alive import Alive, Start, invocation_of
from fleetbench.sweep.ground import Bench, Ground
from fleetbench.sweep.track import Track
from fleetbench.sweep.witness import CounterWitness

_APART = {MeasurementKind.MEASURE: 0, MeasurementKind.WARMUP: 500, MeasurementKind.CONTROL: 750}
SPEED_FROM_S = 2


def is_fresh(row: TrialRow, invocation: str) -> bool:
    """True when the server of a trial that was begun earlier is another one now, and cold."""
    return row.effective.get("invocation", invocation) != invocation


def measure_all(
    ground: Ground,
    row: TrialRow,
    bench: Bench,
    server: Server,
    starts: Sequence[Start],
    *,
    boot: str,
    fresh: bool,
    order: Sequence[tuple[MeasurementKind, int]] = (),
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Run every workload of a trial: a warm-up with another seed, then the repeats; what is done is kept.

    A `fresh` server is warmed up again wherever repeats are left. `order` are other executions of each
    workload, as long as `go_on` says so.
    Raises NotReady with the cause as soon as one of the units that serve is not that start any more;
    HostRebooted when that is because its host has another boot now than `boot`.
    """
    session, said, track = ground.session, ground.said, ground.track
    units = [start.unit for start in starts]
    witness = CounterWitness(ground, row, server, invocation_of(starts), units, bench)
    alive = Alive(session, starts, boot=boot, stall_s=bench.stall_s, confirm=ground.confirm)
    done = {
        (found.workload_index, found.repeat)
        for found in ground.store.measurements(row.run_id, row.number)
        if found.kind is MeasurementKind.MEASURE and found.finished
    }
    for index, workload in enumerate(row.workloads):
        for kind, repeat in order or _order(row, bench):
            if not go_on():
                return
            task = Task(
                run_id=row.run_id,
                trial=row.number,
                workload_index=index,
                workload=apart(warm_up(workload) if kind is MeasurementKind.WARMUP else workload, bench),
                repeat=repeat,
                kind=kind,
                seed=seed_of(bench.seed, kind, index, repeat),
                limit_s=bench.limit_s,
                notes=tuple(filter(None, [unsalted(workload, bench.client.build.version)])),
            )
            track.enter(step_of(kind), f"{workload.label} {kind.value} {repeat}")
            alive.rest()
            left = not done.issuperset((index, number) for number in range(1, row.repeats + 1))
            try:
                found = measure(
                    ground.store,
                    task,
                    server,
                    bench.client,
                    bench.session,
                    credential=CREDENTIAL,
                    programs=bench.programs,
                    again=fresh and left and kind is MeasurementKind.WARMUP,
                    said=said,
                    alive=alive.look,
                    passing=track.progress,
                    counted=partial(_counted, track, task.workload),
                    ended=partial(track.enter, Step.FETCH),
                    witness=witness if kind is MeasurementKind.MEASURE else NoWitness(),
                )
            except HostRebooted:
                raise  # without a verdict: it is measured again
            except NotReady as exc:
                _finish_dead(ground.store, task, exc)
                raise
            speed = found.result.output_throughput if found.result else None
            shown = f"{speed:,.0f} output tok/s" if speed is not None else "no result"
            # One wave is too short for a verdict, on purpose; only that a warm-up failed is worth a word.
            judged = kind is MeasurementKind.MEASURE or found.verdict is Verdict.INVALID
            word = f", {found.verdict}" if judged else ""
            if judged and found.verdict is not Verdict.VALID and found.reasons:
                word += f": {found.reasons[0]}"
            said(f"trial {row.number} {kind.value} {repeat}: {shown}{word}")
            wrong = "" if found.verdict is Verdict.VALID or not judged else word.removeprefix(", ")
            track.repeat(step_of(kind), f"{kind.value} {repeat}: {shown}", speed, wrong)


def warm_up(workload: Workload) -> Workload:
    """Return the workload of a warm-up: the measured shape and concurrency, one wave of it."""
    wave = workload.max_concurrency or 16
    return replace(workload, num_prompts=max(1, min(workload.num_prompts, wave)))


def apart(workload: Workload, bench: Bench) -> Workload:
    """Return the workload so that the same prompts of a file share nothing with an earlier execution, where
    the client's version can do that; another salt for each, also when it is begun once more."""
    return salted(workload, bench.client.build.version, f"fleetbench-{secrets.token_hex(6)}")


def seed_of(base: int, kind: MeasurementKind, workload_index: int, repeat: int) -> int:
    """Return the seed of one execution.

    The same list for every configuration, so that comparisons are paired; never twice the same in one
    server's life, because equal prompts would measure the prefix cache; warm-ups apart from repeats.
    """
    return base * 1_000_000 + workload_index * 1_000 + _APART[kind] + repeat


def _order(row: TrialRow, bench: Bench) -> list[tuple[MeasurementKind, int]]:
    warm = [(MeasurementKind.WARMUP, 1)] if bench.warmup else []
    return warm + [(MeasurementKind.MEASURE, repeat) for repeat in range(1, row.repeats + 1)]


def _finish_dead(store: Store, task: Task, exc: NotReady) -> None:
    store.finish_measurement(
        task.run_id,
        task.trial,
        task.workload_index,
        task.repeat,
        task.kind,
        result=None,
        verdict=Verdict.INVALID,
        findings=(
            Finding(
                rule="server-ended",
                verdict=Verdict.INVALID,
                text=f"the server {_fate(exc)} during the run: {exc.what}",
            ),
        ),
    )


def _fate(exc: NotReady) -> str:
    return "hung" if exc.failure and exc.failure.kind == HANGS else "died"


def step_of(kind: MeasurementKind) -> Step:
    """Return the step of the timeline that an execution belongs to."""
    return Step.WARM_UP if kind is MeasurementKind.WARMUP else Step.MEASURE


def speed_so_far(count: Count, workload: Workload) -> float | None:
    """Return output tokens per second so far; None in the first seconds, which clients count as whole ones.

    It takes each answer to be as long as was asked for; where fewer tokens come, the truth is slower.
    """
    if count.elapsed_s is None or count.elapsed_s < SPEED_FROM_S:
        return None
    return count.done * workload.output_len / (count.elapsed_s + 0.5)


def _counted(track: Track, workload: Workload, count: Count) -> None:
    track.count(count.done, count.wanted, speed_so_far(count, workload))

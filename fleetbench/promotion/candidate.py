"""Which trial of a run is to be promoted, what it measured, and what speaks against it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import NotPossible, UsageError, one_line
from fleetbench.model import ServiceSpec, TrialState
from fleetbench.promotion.measured import Measured, measured_of
from fleetbench.promotion.unit_text import spec_in, units_in
from fleetbench.report.metrics import OUTPUT
from fleetbench.report.summary import Report, ReportRow
from fleetbench.results.rows import RunRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trial as it was measured.

    Attributes:
        servers: the specs of its servers, read from the units that were measured.
        rows: its rows of the report, one for each workload.
        chosen_for: index of the workload that it was chosen for; None: whichever it is best in.
    """

    run: RunRow
    trial: TrialRow
    servers: tuple[ServiceSpec, ...]
    rows: tuple[ReportRow, ...]
    chosen_for: int | None = None

    @property
    def measured(self) -> Measured:
        """What decided how fast it was."""
        return measured_of(self.servers, self.trial.gpu_name)

    @property
    def model(self) -> str:
        """The model as the servers were given it: a Hugging Face name or a path."""
        return self.servers[0].model

    @property
    def name(self) -> str:
        """`trial 3 (tp=2 dp=1) of RUN`."""
        return f"trial {self.trial.number} ({one_line(self.trial.config.label)}) of {self.run.id}"

    @property
    def result(self) -> str:
        """The row that it was chosen for, else its best, in a few words: `1,234 tok/s at c=64`.

        Empty when none of them is valid.
        """
        found = [
            (spread.median, row)
            for row in self.rows
            if row.valid and self.chosen_for in (None, row.workload_index)
            if (spread := row.spreads.get(OUTPUT.key)) is not None
        ]
        if not found:
            return ""
        rate, row = max(found, key=lambda pair: pair[0])
        load = row.workload
        at = f"c={load.max_concurrency}" if load.max_concurrency is not None else "no limit"
        at += f" {load.request_rate:g}/s" if load.request_rate is not None else ""
        return f"{OUTPUT.shown(rate)} tok/s at {at}"

    @property
    def mark(self) -> str:
        """What its service says of it: `RUN/3 1,234 tok/s at c=64`."""
        return f"{self.run.id}/{self.trial.number} {self.result}".strip()


def candidate(report: Report, number: int, chosen_for: int | None = None) -> Candidate:
    """Given a run's report and the number of a trial, return it with the servers that were measured.

    `chosen_for` is the index of the workload that it was chosen for.

    UsageError when there is no such trial, NotPossible when it never had a unit.
    """
    trial = next((each for each in report.trials if each.number == number), None)
    if trial is None:
        known = f"1 to {len(report.trials)}" if report.trials else "none"
        raise UsageError(
            f"run {report.run.id} has no trial {number}",
            cause=f"its trials are {known}",
            next_step=f"fleetbench runs show {report.run.id}",
        )
    texts = units_in(trial.unit_text)
    if not texts:
        why = one_line(trial.failure.cause, 200) if trial.failure else ""
        raise NotPossible(
            f"trial {number} of {report.run.id} never had a unit: it is {trial.state.value}",
            cause=why,
            next_step=f"another trial, see: fleetbench runs show {report.run.id}",
        )
    return Candidate(
        run=report.run,
        trial=trial,
        servers=tuple(map(spec_in, texts)),
        rows=tuple(row for row in report.rows if row.trial.number == number),
        chosen_for=chosen_for,
    )


def doubts(found: Candidate) -> tuple[str, ...]:
    """Return what speaks against promoting a trial, each in a few words; empty: it is valid, and ours."""
    return tuple(_doubts(found))


def refuse_doubtful(found: Candidate) -> None:
    """Raise NotPossible for a trial that is not valid."""
    against = doubts(found)
    if against:
        raise NotPossible(
            f"{found.name} is not valid",
            cause="; ".join(against),
            next_step="promote a valid trial, or this one all the same with --anyway",
        )


def _doubts(found: Candidate) -> Iterator[str]:
    trial = found.trial
    if found.run.origin:  # its units are what somebody says was measured
        yield f"it was not measured here: {one_line(found.run.origin, 200)}"
    if trial.state is not TrialState.MEASURED:
        why = f": {one_line(trial.failure.cause, 200)}" if trial.failure else ""
        yield f"it is {trial.state.value}{why}"
    elif not any(row.valid for row in found.rows):
        yield _why_invalid(found.rows)
    if len(found.servers) != trial.config.units:
        yield f"its evidence has {len(found.servers)} servers of {trial.config.units}"


def _why_invalid(rows: Sequence[ReportRow]) -> str:
    for row in rows:
        if row.verdict is not None:
            reason = next((reason for repeat in row.repeats for reason in repeat.reasons), "")
            reason = reason or next(iter(row.notes), "")
            return f"it is {row.verdict.value}{': ' if reason else ''}{one_line(reason, 200)}"
    return "nothing of it was measured to the end"

"""The trials that are left, and who takes which: one queue for all hosts of a run.

Hosts of one kind (the same GPUs, the same build) take the longest trial next. A trial that a killed
controller left running stays with its host, whose server may still run, until that host is lost. Where a
trial runs is written down before it begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fleetbench.errors import NotReached
from fleetbench.model import Failure, GpuSet, TrialState
from fleetbench.plan.durations import in_words
from fleetbench.plan.implied import implied
from fleetbench.plan.schedule import Place, gpu_set
from fleetbench.results.rows import MeasurementRow, TrialRow
from fleetbench.results.store import Store
from fleetbench.sweep.remaining import Busy, Durations, Unknown, remaining_s

ENDED = (TrialState.MEASURED, TrialState.FAILED, TrialState.IMPLIED, TrialState.NOT_RUN)
# Kind of the failure of a trial that waits for its host: `--resume` takes it up again.
AWAY = "host-away"
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A trial that a host has taken.

    `lost_on` is the host that went away in the middle of it, `before` what had been measured there: it counts
    no more.
    """

    row: TrialRow
    lost_on: str = ""
    before: tuple[MeasurementRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A host that does not answer: `since` when (UTC), and the last answer to asking."""

    since: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    host: str
    began: float


class Work:
    """What is left of a run. Safe to use from the threads of all hosts."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        kinds: Mapping[str, str],
        *,
        client: str = "",
        times: Durations | None = None,
        prune: bool = True,
        said: Callable[[str, str], None] = lambda text, host: None,
        skipped: Callable[[TrialRow, Failure], None] = lambda row, failure: None,
    ) -> None:
        """`kinds` says of each host what makes it like another; `client` is the host of the bench clients
        (empty: each server's own); `times` is how long trials are expected to take."""
        self._store, self._run_id, self._kinds, self._client = store, run_id, kinds, client
        self._times, self._prune = times or Unknown(), prune
        self._said, self._skipped = said, skipped
        self._changed = threading.Condition()
        self._held: dict[int, _Held] = {}
        self._left: set[str] = set()
        self.lost: dict[str, Loss] = {}
        again = store.take_up_again(run_id, AWAY)
        if again:
            said(f"taken up again: trial {', '.join(map(str, again))}", "")
        for row in store.trials(run_id):
            if row.state is TrialState.FAILED:  # a controller may have died before it said what follows
                self._skip_implied(row)

    def has(self, host: str) -> bool:
        """True when there is a trial that the host could take now."""
        with self._changed:
            return self._next(host) is not None

    def needs(self, host: str) -> Mapping[int, int]:
        """Return how many trials the host could take now, by the number of GPUs that they need."""
        with self._changed:
            rows = self._free(host)
        counts: dict[int, int] = {}
        for row in rows:
            counts[row.config.gpus] = counts.get(row.config.gpus, 0) + 1
        return counts

    def take(self, place: Place, *, need: int = 0) -> Taken | None:
        """Return the trial that a host does next, with its place written down; None when there is none.

        With `need` only one for so many GPUs, and of those that had begun one on GPUs of the place.
        """
        host = place.host.name
        with self._changed:
            row = self._next(host, need, place.gpus if need else None)
            if row is None:
                return None
            taken = Taken(row=row)
            if row.state is TrialState.PENDING or row.host != host:
                taken = self._placed(row, place)
            self._held[row.number] = _Held(host=host, began=time.monotonic())
        if taken.lost_on:
            self._said(f"trial {row.number} is begun anew here: {taken.lost_on} is lost", host)
        return taken

    def begin_again(self, number: int) -> tuple[MeasurementRow, ...]:
        """Take back what was measured of a trial, which stays on its host; return it as it was."""
        with self._changed:
            row = next(row for row in self._store.trials(self._run_id) if row.number == number)
            before = self._store.begin_elsewhere(
                self._run_id,
                number,
                host=row.host,
                gpus=row.gpus,
                port=row.port,
                member_ports=row.member_ports,
                client=self._client or row.host,
            )
            self._held.pop(number, None)
            self._changed.notify_all()
            return before

    def gpus(self, place: Place) -> GpuSet:
        """Return the GPUs of a host that what is left may need: the union over the trials of its kind."""
        kind = self._kinds[place.host.name]
        with self._changed:
            rows = self._store.trials(self._run_id)
        left = [row for row in rows if row.state not in ENDED and self._kinds.get(row.host) == kind]
        sets = [
            row.gpus if row.host == place.host.name else gpu_set(row.config, place.gpus, place.topology)
            for row in left
        ]
        return GpuSet(tuple(sorted({index for one in sets for index in one.indices})))

    def ended(self, number: int) -> None:
        """Let go of a trial that has come to its end, and skip what its failure implies."""
        with self._changed:
            self._held.pop(number, None)
            row = next(row for row in self._store.trials(self._run_id) if row.number == number)
            if row.state is TrialState.FAILED:
                self._skip_implied(row)
            self._times.learn()
            self._changed.notify_all()
        self._said(self.progress(), "")

    def wait(self, host: str, stopped: Callable[[], bool]) -> bool:
        """Wait until there is a trial for the host again; False when there will be none.

        There may be one while a host of its kind is in the middle of a trial: that host may be lost.
        """
        with self._changed:
            while self._next(host) is None:
                if stopped() or not self._others_busy(host):
                    return False
                self._changed.wait(_LOOK_S)
            return not stopped()

    def lose(self, host: str, exc: NotReached) -> None:
        """Give up a host that does not answer: what it was doing may be begun on another one."""
        with self._changed:
            self.lost[host] = Loss(since=exc.since or self._store.now(), cause=exc.cause or exc.what)
            self._let_go(host)

    def leave(self, host: str) -> None:
        """Note that a host takes no more trials."""
        with self._changed:
            self._let_go(host)

    def close(self) -> tuple[TrialRow, ...]:
        """End the trials that no host is left for because theirs were lost; return them as they are then."""
        with self._changed:
            closed = []
            for row in self._store.trials(self._run_id):
                loss = self._loss_of(row)
                if row.state in ENDED or loss is None:
                    continue
                host, what = loss
                failure = Failure(
                    kind=AWAY,
                    cause=f"{host} does not answer since {what.since}",
                    evidence=what.cause,
                    advice=f"when it is back: invoke sweep --resume {self._run_id}",
                )
                self._store.set_trial(self._run_id, row.number, state=TrialState.NOT_RUN, failure=failure)
                closed.append(replace(row, state=TrialState.NOT_RUN, failure=failure))
            return tuple(closed)

    def remaining_s(self) -> float:
        """Return how long the rest of the run is expected to take, over all its hosts."""
        now = time.monotonic()
        with self._changed:
            rows = [row for row in self._store.trials(self._run_id) if row.state not in ENDED]
            busy = {n: Busy(host=held.host, elapsed_s=now - held.began) for n, held in self._held.items()}
            gone = set(self._left)
        return remaining_s(rows, busy, self._kinds, gone, self._times)

    def progress(self) -> str:
        """Return how far the run is, as a sentence."""
        rows = self._store.trials(self._run_id)
        done = sum(row.state in ENDED for row in rows)
        left = self.remaining_s()
        return f"{done} of {len(rows)} trials done" + (f", about {in_words(left)} left" if left else "")

    def _next(self, host: str, need: int = 0, gpus: GpuSet | None = None) -> TrialRow | None:
        free = [row for row in self._free(host) if need in (0, row.config.gpus)]
        mine = [row for row in free if row.state is TrialState.RUNNING and row.host == host]
        for row in mine:
            if gpus is None or set(row.gpus.indices) <= set(gpus.indices):
                return row
        others = [row for row in free if row not in mine]
        return max(others, key=lambda row: (self._times.seconds(row), -row.number), default=None)

    def _free(self, host: str) -> list[TrialRow]:
        """Return the trials that a host may take: what it had begun, and what its kind has left."""
        if host in self._left:
            return []
        kind = self._kinds[host]
        rows = [row for row in self._store.trials(self._run_id) if row.number not in self._held]
        return [
            row
            for row in rows
            if (row.state is TrialState.RUNNING and row.host == host)
            or (self._kinds.get(row.host) == kind and self._is_free(row))
        ]

    def _is_free(self, row: TrialRow) -> bool:
        return row.state is TrialState.PENDING or (row.state is TrialState.RUNNING and row.host in self.lost)

    def _placed(self, row: TrialRow, place: Place) -> Taken:
        host, gpus = place.host.name, gpu_set(row.config, place.gpus, place.topology)
        ports = place.member_ports(row.config)
        if row.state is TrialState.PENDING:
            self._store.place_trial(
                self._run_id, row.number, host=host, gpus=gpus, port=place.port, member_ports=ports
            )
            return Taken(row=replace(row, host=host, gpus=gpus, port=place.port, member_ports=ports))
        before = self._store.begin_elsewhere(
            self._run_id,
            row.number,
            host=host,
            gpus=gpus,
            port=place.port,
            member_ports=ports,
            client=self._client or host,
        )
        now = next(found for found in self._store.trials(self._run_id) if found.number == row.number)
        return Taken(row=now, lost_on=row.host, before=before)

    def _others_busy(self, host: str) -> bool:
        """True while another host of the kind has, or may find again, a trial in the middle."""
        alike = {other for other, kind in self._kinds.items() if kind == self._kinds[host]} - {host}
        if any(held.host in alike for held in self._held.values()):
            return True
        rows = self._store.trials(self._run_id)
        there = alike - self._left
        return any(row.state is TrialState.RUNNING and row.host in there for row in rows)

    def _let_go(self, host: str) -> None:
        self._left.add(host)
        self._held = {number: held for number, held in self._held.items() if held.host != host}
        self._changed.notify_all()

    def _loss_of(self, row: TrialRow) -> tuple[str, Loss] | None:
        """Return the lost host that a trial waits for; None when there is another, or none was lost."""
        if row.state is TrialState.RUNNING:
            return (row.host, self.lost[row.host]) if row.host in self.lost else None
        alike = [host for host, kind in self._kinds.items() if kind == self._kinds.get(row.host)]
        lost = [host for host in alike if host in self.lost]
        return (lost[0], self.lost[lost[0]]) if lost and len(lost) == len(alike) else None

    def _skip_implied(self, failed: TrialRow) -> None:
        """Mark the pending trials of a kind that cannot work after a failure on one of its hosts either."""
        if failed.failure is None or not self._prune:
            return
        for row in self._store.trials(self._run_id):
            alike = self._kinds.get(row.host) == self._kinds.get(failed.host)
            pending = row.state is TrialState.PENDING and row.number not in self._held
            if alike and pending and implied(failed.config, failed.failure, row.config):
                cause = f"implied by trial {failed.number}: {failed.failure.cause}"
                why = replace(failed.failure, kind="implied", cause=cause)
                self._store.set_trial(self._run_id, row.number, state=TrialState.IMPLIED, failure=why)
                self._said(f"trial {row.number} ({row.config.label}) is skipped: {cause}", failed.host)
                self._skipped(row, why)

"""--pack: trials side by side on disjoint GPU sets of one host, where a control shows that it does no harm.

The control is made for each number of GPUs: one trial is measured alone, as always, and once more while each
of the other GPU sets runs a trial. When that changes it beyond the noise of its repeats, those that ran
beside it are begun again, and all go one after the other. What was decided is read from the store, so that a
resumed run knows it too.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import Interrupted, NotPossible, NotReady
from fleetbench.model import Config, GpuSet, Step, TrialState
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.plan.schedule import Place
from fleetbench.results.interference import differences
from fleetbench.results.rows import MeasurementKind, TrialRow
from fleetbench.results.timeline import SIDE_BY_SIDE
from fleetbench.sweep.heartbeat import Either
from fleetbench.sweep.lane import Lane, open_lane
from fleetbench.sweep.serving import take_down
from fleetbench.sweep.trial import run_control
from fleetbench.sweep.work import Taken, Work

_LOOK_S = 0.5
# A control shows nothing when what runs beside it fails or ends too soon.
_MOST_CONTROLS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One of the disjoint GPU sets of a host, with a port of its own."""

    place: Place

    @property
    def name(self) -> str:
        """As the timeline and the display tell it."""
        return f"GPU {self.place.gpus}"


class Packing:
    """The trials of one host, side by side where they fit and do not disturb each other."""

    def __init__(self, lane: Lane, work: Work, place: Place, ports: Sequence[int], gpus: GpuSet) -> None:
        """`lane` is the host's own; `ports` are free there; `gpus` are those that are borrowed."""
        self._lane, self._work, self._place, self._ports, self._gpus = lane, work, place, ports, gpus
        self._store, self._run = lane.engine.store, lane.run.id
        self._broken = threading.Event()
        for each in (lane.session, lane.client_session):
            each.stop = Either(*filter(None, (each.stop, self._broken)))
        self._lock = threading.Lock()
        self._active: dict[int, bool] = {}
        self._refused: set[int] = set()
        self._controls: dict[int, int] = {}

    def do_trials(self) -> None:
        """Bring all trials of the host to their ends, those that need the most GPUs first."""
        for need in self._needs():
            self._begin_undecided_again(need)
        for need in self._needs():
            slots = self.slots(need)
            while self._left(need):
                if len(slots) > 1 and self._may_pack(need, slots):
                    self._side_by_side(need, slots)
                # What is left then had begun on GPUs that are no slot's.
                if (found := self._work.take(self._place, need=need)) is not None:
                    self._alone(found)

    def slots(self, need: int) -> tuple[Slot, ...]:
        """Return the disjoint GPU sets of the host for trials that need so many, the best connected first."""
        count = len(self._place.gpus.indices) // need if need else 0
        count = min(count, len(self._ports))
        if count < 2:
            return ()
        sets = gpu_sets(Config(tp=need, units=count), self._place.gpus, self._place.topology)
        share = len(self._ports) // count  # a trial of several units needs more than one
        return tuple(
            Slot(
                place=Place(
                    host=self._place.host,
                    gpus=chosen,
                    kind=self._place.kind,
                    port=self._ports[turn * share],
                    topology=self._place.topology,
                    more_ports=tuple(self._ports[turn * share + 1 : (turn + 1) * share]),
                )
            )
            for turn, chosen in enumerate(sets)
        )

    def _needs(self) -> list[int]:
        mine = {row.config.gpus for row in self._rows()}
        return sorted(mine | set(self._work.needs(self._place.host.name)), reverse=True)

    def _rows(self) -> list[TrialRow]:
        return [row for row in self._store.trials(self._run) if row.host == self._place.host.name]

    def _left(self, need: int) -> int:
        return self._work.needs(self._place.host.name).get(need, 0)

    def _may_pack(self, need: int, slots: Sequence[Slot]) -> bool:
        """True when a control allows it; makes the control where there is none and work is left for it."""
        if need in self._refused or self._left(need) < 2:
            return False
        decided = self._decided(need)
        if decided is None:
            self._controls[need] = self._controls.get(need, 0) + 1
            decided = self._control(need, slots)
        if decided is False or (decided is None and self._controls[need] >= _MOST_CONTROLS):
            self._refused.add(need)
            self._lane.said(f"--pack is refused for trials on {need} GPUs; going on one after the other")
        self._begin_undecided_again(need)
        return decided is True

    def _begin_undecided_again(self, need: int) -> None:
        """Take back what was measured beside other trials, unless a control has shown that it may be."""
        if self._decided(need):
            return
        for row in self._rows():
            if row.config.gpus == need and row.packed_with:
                take_down(self._lane.ground(), row)
                self._lane.said(f"trial {row.number} ran beside others; it is begun again alone")
                self._lane.put_aside(row.number, "packed", self._work.begin_again(row.number))

    def _decided(self, need: int) -> bool | None:
        """Return what the control of a number of GPUs showed on this host; None when there was none."""
        for row in self._rows():
            if row.config.gpus == need and row.state is TrialState.MEASURED:
                found = differences(self._store.measurements(self._run, row.number))
                if found:
                    return not any(one.beyond_noise for one in found)
        return None

    def _alone(self, found: Taken) -> None:
        self._lane.bring_to_end(found, self._gpus)
        self._lane.end_server(found.row)
        self._work.ended(found.row.number)

    def _control(self, need: int, slots: Sequence[Slot]) -> bool | None:
        """Measure a trial alone, then beside one on each other GPU set; None when that showed nothing."""
        found = self._work.take(slots[0].place, need=need)
        if found is None:
            return None
        number, lane = found.row.number, self._lane
        lane.said(f"--pack: trial {number} alone first, then beside others, as a control")
        state = lane.bring_to_end(found, self._gpus)
        beside: list[int] = []
        if state is TrialState.MEASURED:
            with self._entered(number, marked=False):
                jobs = [self._job(slot, need, beside, once=True) for slot in slots[1:]]
                self._together([*jobs, lambda: self._measure_beside(found.row, beside)])
        lane.end_server(found.row)
        self._work.ended(number)
        shown = differences(self._store.measurements(self._run, number))
        for one in shown:
            lane.said(f"control, trial {number}: {one}{', BEYOND THE NOISE' if one.beyond_noise else ''}")
        decided = self._decided(need)
        if decided:
            lane.said(f"--pack: the control is within the noise, trials on {need} GPUs go on side by side")
            for other in beside:
                self._work.ended(other)
        return decided

    def _measure_beside(self, row: TrialRow, beside: list[int]) -> None:
        """Measure a trial again while all of the others are measured."""

        def measured() -> bool:
            kinds = [
                {found.kind for found in self._store.measurements(self._run, number) if not found.finished}
                for number in list(beside)
            ]
            return bool(kinds) and all(MeasurementKind.MEASURE in kind for kind in kinds)

        def ended() -> bool:
            states = [self._lane.row(number).state for number in list(beside)]
            return any(state not in (TrialState.PENDING, TrialState.RUNNING) for state in states)

        while not measured():
            if ended() or self._broken.is_set():
                return
            time.sleep(_LOOK_S)
        try:
            run_control(self._lane.ground(), row, self._lane.bench, lambda: not ended())
        except (NotReady, NotPossible) as exc:
            self._lane.said(f"--pack: no control, so nothing is packed: {exc.what}")

    def _side_by_side(self, need: int, slots: Sequence[Slot]) -> None:
        self._lane.track.enter(Step.IDLE, SIDE_BY_SIDE)
        self._together([self._job(slot, need, [], once=False) for slot in slots])

    def _job(self, slot: Slot, need: int, taken: list[int], *, once: bool) -> Callable[[], None]:
        """Return what a GPU set does: one trial after the other, or `once` one whose end is left open."""

        def work_through() -> None:
            with open_lane(
                self._lane.engine,
                self._lane.run,
                self._lane.host,
                name=slot.name,
                stop=self._lane.session.stop,
                beside=self._lane,
            ) as lane:
                while not self._broken.is_set():
                    found = self._work.take(slot.place, need=need)
                    if found is None:
                        return
                    number = found.row.number
                    taken.append(number)
                    with self._entered(number):
                        lane.bring_to_end(found, self._gpus)
                        lane.end_server(found.row)
                    if once:
                        return
                    self._work.ended(number)

        return work_through

    @contextlib.contextmanager
    def _entered(self, number: int, *, marked: bool = True) -> Iterator[None]:
        """Note in the row of each trial which others run beside it; a control's own repeats were alone."""
        with self._lock:
            self._active[number] = marked
            for one in [one for one, counts in self._active.items() if counts]:
                others = set(self._lane.row(one).packed_with) | self._active.keys() - {one}
                self._store.set_trial(self._run, one, packed_with=others)
        try:
            yield
        finally:
            with self._lock:
                del self._active[number]

    def _together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do all jobs at once; when one fails the others end too, and its error is raised."""
        errors: list[BaseException] = []

        def guarded(job: Callable[[], None]) -> None:
            try:
                job()
            except BaseException as exc:  # raised again below, in the thread that waits
                errors.append(exc)
                self._broken.set()

        with concurrent.futures.ThreadPoolExecutor(max_workers=len(jobs)) as pool:
            try:
                concurrent.futures.wait([pool.submit(guarded, job) for job in jobs])
            except BaseException:  # Ctrl-C: nobody is left working when production is given back
                self._broken.set()
                raise
        for exc in errors:
            if not isinstance(exc, Interrupted):
                raise exc
        if errors:
            raise errors[0]

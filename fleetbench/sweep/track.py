"""One host's track through a sweep: which step it is in, told to the timeline and to whoever watches."""

from __future__ import annotations

from fleetbench.errors import one_line
from fleetbench.model import Step, TrialState
from fleetbench.results.timeline import Period, as_iso
from fleetbench.service_log import Phase, ServiceLog, follow
from fleetbench.sweep.events import Event, EventKind, Expected, Watcher, ignore, nothing_expected
from fleetbench.sweep.timeline import Timeline

WAITING = "waiting for the host"
_AFTER_LOADING = (Phase.COMPILING, Phase.CAPTURING, Phase.READY)


class Track:
    """What a host (or a lane of it, with `--pack`) does, one step at a time.

    Steps belong to the trial that `begin_trial` named last, until `end_trial`.
    """

    def __init__(
        self,
        timeline: Timeline | None = None,
        host: str = "",
        lane: str = "",
        *,
        watch: Watcher = ignore,
        expected: Expected = nothing_expected,
    ) -> None:
        self.timeline = timeline or Timeline()
        self.host, self.lane = host, lane
        self._watch = watch
        self._expected = expected
        self._trial: int | None = None
        self._config = ""
        self._interrupted: Period | None = None

    def begin_trial(self, number: int, config: str) -> None:
        """Say which trial the following steps belong to."""
        self._trial, self._config = number, config
        self._tell(EventKind.TRIAL, state=TrialState.RUNNING)

    def end_trial(self, state: TrialState, cause: str = "") -> None:
        """Say how the trial ended; what follows still belongs to it, until the next or `leave_trial`."""
        self._tell(EventKind.TRIAL, state=state, cause=cause)

    def leave_trial(self) -> None:
        """What follows belongs to no trial."""
        self._trial, self._config = None, ""

    def skip_trial(self, number: int, config: str, state: TrialState, cause: str) -> None:
        """Say that another trial ends without having been begun."""
        self._tell(EventKind.TRIAL, trial=number, config=config, state=state, cause=cause)

    def enter(self, step: Step, note: str = "", *, ago_s: float = 0.0) -> None:
        """Begin a step, which ends the one before; `ago_s` in the past when it is learnt of only now."""
        self._interrupted = None
        self._enter(step, note, ago_s)
        self._tell(EventKind.STEP, text=note)

    def journal(self, line: str, ago_s: float = 0.0) -> None:
        """Follow a start by a line that its journal got `ago_s` ago: after the weights, compiling begins."""
        present = self.timeline.present(self.host, self.lane)
        if present is None or present.step is not Step.LOAD:
            return
        shown = follow(ServiceLog(), line)
        if shown.model_load_s is not None or shown.phase in _AFTER_LOADING:
            self.enter(Step.COMPILE, present.note, ago_s=ago_s)

    def progress(self, text: str) -> None:
        """Tell how far the present step is, in words."""
        self._tell(EventKind.PROGRESS, text=text)

    def count(self, done: int, wanted: int, tokens_per_s: float | None) -> None:
        """Tell how many requests are done, and the speed so far."""
        self._tell(EventKind.COUNT, done=done, wanted=wanted, tokens_per_s=tokens_per_s)

    def repeat(self, step: Step, text: str, tokens_per_s: float | None, cause: str = "") -> None:
        """Tell what came out of one execution of the bench client, which was a warm-up or a measurement."""
        self._tell(EventKind.REPEAT, step=step, text=text, tokens_per_s=tokens_per_s, cause=cause)

    def away(self, gone: bool) -> None:
        """The host stopped answering, or answers again: unseen time is idle, then the step goes on."""
        if gone and self._interrupted is None:
            present = self.timeline.present(self.host, self.lane)
            if present is None or present.step is Step.IDLE:
                return
            self._enter(Step.IDLE, f"{WAITING} ({present.step.value})", 0.0)
            self._interrupted = present
            self._tell(EventKind.STEP, text=WAITING)
        elif not gone and self._interrupted is not None:
            before, self._interrupted = self._interrupted, None
            self._enter(before.step, before.note, 0.0)
            self._tell(EventKind.STEP, text=before.note)

    def close(self) -> None:
        """End the host's part."""
        self.leave_trial()
        self.timeline.close(self.host, self.lane)
        self._tell(EventKind.LEFT)

    def _enter(self, step: Step, note: str, ago_s: float) -> None:
        self.timeline.enter(
            self.host,
            step,
            lane=self.lane,
            trial=self._trial,
            config=self._config,
            note=one_line(note, 200),
            ago_s=ago_s,
        )

    def _tell(
        self,
        kind: EventKind,
        *,
        trial: int | None = None,
        config: str = "",
        step: Step | None = None,
        text: str = "",
        cause: str = "",
        done: int | None = None,
        wanted: int | None = None,
        tokens_per_s: float | None = None,
        state: TrialState | None = None,
    ) -> None:
        number = self._trial if trial is None else trial
        own = trial is None
        present = self.timeline.present(self.host, self.lane) if own else None
        if step is None and present is not None:
            step = present.step
        elapsed = expected = None
        if number is not None and step is not None:
            elapsed = self.timeline.spent_s(number, step)
            expected = self._expected(number).get(step)
        elif present is not None:
            elapsed = present.seconds
        self._watch(
            Event(
                kind=kind,
                time=as_iso(self.timeline.now_ms()),
                host=self.host,
                lane=self.lane,
                trial=number,
                config=config or (self._config if own else ""),
                step=step,
                elapsed_s=elapsed,
                expected_s=expected,
                done=done,
                wanted=wanted,
                tokens_per_s=tokens_per_s,
                state=state,
                text=one_line(text, 300),
                cause=one_line(cause, 300),
            )
        )

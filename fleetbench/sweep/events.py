"""What happens in a sweep, as values: for the live table, for `--format json`, and for plain lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleetbench.errors import one_line, without_secrets
from fleetbench.model import Step, TrialState


class EventKind(StrEnum):
    """What an event is about; docs/operators.md says what each carries."""

    RUN = "run"
    STEP = "step"
    PROGRESS = "progress"
    COUNT = "count"
    REPEAT = "repeat"
    TRIAL = "trial"
    LEFT = "left"
    MESSAGE = "message"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        time: when, ISO 8601 in UTC with milliseconds.
        host, lane, trial, config: where; empty and None for what concerns the whole run or host.
        step: what the host does now.
        elapsed_s: how long this trial has been in this step so far, over all its repeats.
        expected_s: how long that is expected to take; None when nobody knows.
        done, wanted: requests of the client that runs.
        tokens_per_s: output tokens per second so far (an estimate while a client runs), or of a repeat.
        state: of a trial that began or ended.
        text: for people.
        cause: why it failed, empty when it did not.
    """

    kind: EventKind
    time: str
    host: str = ""
    lane: str = ""
    trial: int | None = None
    config: str = ""
    step: Step | None = None
    elapsed_s: float | None = None
    expected_s: float | None = None
    done: int | None = None
    wanted: int | None = None
    tokens_per_s: float | None = None
    state: TrialState | None = None
    text: str = ""
    cause: str = ""


Watcher = Callable[[Event], None]
# Given a trial's number, the seconds that each of its steps is expected to take; the unknown is left out.
Expected = Callable[[int], Mapping[Step, float]]


def ignore(event: Event) -> None:
    """Nobody watches."""


def nothing_expected(trial: int) -> Mapping[Step, float]:
    """Nothing is known about how long a trial takes."""
    return {}


def as_object(event: Event) -> dict[str, object]:
    """Return an event as the object of its JSON line: what it does not carry is left out."""
    found: dict[str, object] = {"event": event.kind.value, "time": event.time}
    for name in ("host", "lane", "config", "text", "cause"):
        text = getattr(event, name)
        if text:
            found[name] = without_secrets(one_line(text, 1000))
    for name in ("trial", "done", "wanted"):
        if getattr(event, name) is not None:
            found[name] = getattr(event, name)
    if event.step is not None:
        found["step"] = event.step.value
    if event.state is not None:
        found["state"] = event.state.value
    for name in ("elapsed_s", "expected_s", "tokens_per_s"):
        number = getattr(event, name)
        if number is not None and math.isfinite(number):
            found[name] = round(number, 3)
    return found

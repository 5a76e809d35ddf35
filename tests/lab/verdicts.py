"""Servers that fail each in its own way, and how long after their end the sweep said why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from invoked import Running, until
from standin_host import Fleet

UNIT = "vllm-sweep-8101.service"
# When the main process of the unit was last seen to end, in microseconds since the epoch; empty: never.
_ENDED = r"""
journalctl -u "$1" -o json --no-pager | grep -F 'Main process exited' | tail -n 1 |
  grep -oE '"__REALTIME_TIMESTAMP" ?: ?"[0-9]+"' | grep -oE '[0-9]+'
exit 0
"""


@dataclass(frozen=True)
class Kind:
    """A way to fail: the stand-in's model, the class that the verdict has to have, words that it says.

    `exits` says whether the server ends by itself; else the verdict comes from a limit of the sweep.
    """

    name: str
    model: str
    failure: str
    words: str
    exits: bool = True
    sweep: str = "watched"


KINDS = (
    Kind("at once", "exit", "gpu-out-of-memory", "memory"),
    Kind("after 5 s", "exit-after-5", "gpu-out-of-memory", "memory"),
    Kind("on the first request", "first", "unknown", "RuntimeError: the kernel of the first request"),
    # Lab hosts have no memory controller: SIGKILL out of nowhere is what the OOM killer looks like.
    Kind("killed as for lack of memory", "killed", "killed-by-signal", "9/KILL"),
    Kind(
        "never opens its port", "hang", "timeout.ready", "the last phase was", exits=False, sweep="impatient"
    ),
    Kind("hangs while it is measured", "stall", "server-hangs", "it hangs", exits=False),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one: class, cause, and seconds from the server's end to the verdict (None: no end)."""

    failure: str
    cause: str
    evidence: str
    seconds: float | None
    timed_out: bool


def outcome_of(fleet: Fleet, kind: Kind) -> Outcome:
    """Sweep a model that fails, and return what was said and when."""
    sweep = fleet.begin("sweep", "--model", kind.model, "--hosts", "lab-01", "--sweep", kind.sweep)
    said_at = _moment(sweep, "trial 1 failed")
    done = sweep.done()
    assert done.status == 0, done.err
    (trial,) = fleet.shown("runs", "show", "latest")["trials"]
    ended = fleet.on("lab-01", _ENDED, UNIT)
    failure = trial["failure"]
    return Outcome(
        failure=failure["kind"],
        cause=failure["cause"],
        evidence=failure["evidence"],
        seconds=said_at - int(ended) / 1e6 if kind.exits and ended else None,
        timed_out=failure["kind"].startswith("timeout"),
    )


def outcomes(fleet: Fleet) -> Iterator[tuple[Kind, Outcome]]:
    """Each kind with its outcome, one after the other on a clean host."""
    for kind in KINDS:
        yield kind, outcome_of(fleet, kind)
        fleet.clean()


def _moment(sweep: Running, text: str) -> float:
    """Return when something was said, seconds since the epoch."""
    seen: list[float] = []

    def there() -> bool:
        if text in sweep.err:
            seen.append(time.time())
        return bool(seen)

    until(there, 90, lambda: f"{text!r} was not said, but:\n{sweep.err}")
    return seen[0]

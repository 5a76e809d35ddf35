"""Who watches a sweep: plain lines, one for each thing that an operator without a terminal wants to read."""

from __future__ import annotations

from fleetbench import console
from fleetbench.sweep.events import Event, EventKind


def plain(event: Event) -> None:
    """Write what passes as a line; what is lasting is written by the engine itself."""
    if event.kind is EventKind.PROGRESS:
        console.progress(event.text, host=event.host)

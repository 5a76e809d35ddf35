"""How long the rest of a run will take, over all its hosts: what is in the middle, then the longest first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fleetbench.plan.spread import longest_first, makespan_s
from fleetbench.results.rows import TrialRow


class Durations(Protocol):
    """How long trials are expected to take."""

    def seconds(self, row: TrialRow) -> float:
        """Return how long a trial is expected to take in all."""
        ...

    def learn(self) -> None:
        """Take in what the run has measured by now."""
        ...


class Unknown:
    """Nothing is known: all trials take equally long."""

    def seconds(self, row: TrialRow) -> float:
        """Nothing."""
        return 0.0

    def learn(self) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A host that is in the middle of a trial, since `elapsed_s`."""

    host: str
    elapsed_s: float


def remaining_s(
    rows: Sequence[TrialRow],
    busy: Mapping[int, Busy],
    kinds: Mapping[str, str],
    gone: Collection[str],
    times: Durations,
) -> float:
    """Given the trials that have not ended, who is in the middle of which, the kind of each host and those
    that are gone, return when the last trial ends, in seconds from now."""
    expected = {row.number: times.seconds(row) for row in rows}
    free = {host: 0.0 for host in kinds if host not in gone}
    for number, held in busy.items():
        if held.host in free and number in expected:
            free[held.host] += max(0.0, expected[number] - held.elapsed_s)
    longest = max(free.values(), default=0.0)
    for kind in {kinds[host] for host in free}:
        lanes = [seconds for host, seconds in free.items() if kinds[host] == kind]
        waiting = [row for row in rows if row.number not in busy and kinds.get(row.host) == kind]
        spans = longest_first([expected[row.number] for row in waiting], lanes)
        longest = max(longest, makespan_s(spans))
    return longest

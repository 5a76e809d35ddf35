"""Who watches a measurement besides its client. The reading before is taken before the client starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fleetbench.results.rows import NOTHING, Finding, Json, MeasurementRow
from fleetbench.results.values import BenchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a witness has to say of one measurement; see `MeasurementRow` for the two mappings."""

    findings: tuple[Finding, ...] = ()
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)


class Witness(Protocol):
    """Looks at the server before and after; whatever it cannot see is a finding, never an error.

    `before` is for a client that has not begun: one that ended for lack of room is begun anew under the same
    name, and what it had sent must not be taken for somebody else's requests.
    """

    def outlived(self, row: MeasurementRow) -> bool:
        """True when the reading before of this attempt is of a server that is gone since."""
        ...

    def before(self, row: MeasurementRow) -> None:
        """Take the reading before the client begins, in the place of an earlier one."""
        ...

    def after(self, row: MeasurementRow, result: BenchResult | None) -> Seen:
        """Take the reading after, and say what both together mean for the result."""
        ...

    def forget(self, row: MeasurementRow, *, keep: bool = False) -> None:
        """Take off the hosts what watched this attempt; with `keep`, what it saw is kept first."""
        ...


class NoWitness:
    """Nobody watches: of a warm-up, which never counts."""

    def outlived(self, row: MeasurementRow) -> bool:
        """Nobody knows."""
        return False

    def before(self, row: MeasurementRow) -> None:
        """Do nothing."""

    def after(self, row: MeasurementRow, result: BenchResult | None) -> Seen:
        """Find nothing."""
        return Seen()

    def forget(self, row: MeasurementRow, *, keep: bool = False) -> None:
        """Nothing is there."""

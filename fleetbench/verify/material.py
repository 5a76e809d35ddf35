"""A run as `verify` sees it: the rows of the store, and the raw files below its directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fleetbench.errors import Unreadable
from fleetbench.results import raw_files
from fleetbench.results.rows import MeasurementRow, RunRow, TrialRow
from fleetbench.results.rules.around import Around, around

NOTHING_ABSENT: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTrial:
    """A trial with its directory."""

    run: RunRow
    row: TrialRow
    directory: Path
    absent: Mapping[str, str] = field(default_factory=lambda: NOTHING_ABSENT)

    @property
    def place(self) -> str:
        """Its path below the run's directory."""
        return self.directory.name

    def files(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those files that are there and can be read, by name."""
        found = {name: self.read(name) for name in names}
        return {name: content for name, content in found.items() if content is not None}

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None when it is not there, or broken (the manifest names it)."""
        return raw_file(self.directory, name)

    def lacks(self, names: Iterable[str]) -> str:
        """Return which of those files was there once and is not any more, and why; empty when none."""
        return _lacking(self.absent, self.place, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMeasurement:
    """A finished measurement with its directory.

    `earlier` are finished repeats of the same before it, `near` is what it was judged with.
    """

    run: RunRow
    trial: TrialRow
    row: MeasurementRow
    directory: Path
    earlier: tuple[MeasurementRow, ...] = ()
    near: Around = field(default_factory=Around)
    absent: Mapping[str, str] = field(default_factory=lambda: NOTHING_ABSENT)

    @property
    def place(self) -> str:
        """Its path below the run's directory."""
        return self.row.directory

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None when it is not there, or broken (the manifest names it)."""
        return raw_file(self.directory, name)

    def lacks(self, names: Iterable[str], of_trial: Iterable[str] = ()) -> str:
        """Return which of those files, or of its trial's, was there once and is not any more."""
        trial = self.directory.parent.parent.name
        return _lacking(self.absent, self.place, names) or _lacking(self.absent, trial, of_trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Everything of one run."""

    run: RunRow
    directory: Path
    trials: tuple[OfTrial, ...] = ()
    measurements: tuple[OfMeasurement, ...] = ()
    unfinished: tuple[MeasurementRow, ...] = field(default=())


def material(
    run: RunRow,
    directory: Path,
    trials: Iterable[TrialRow],
    rows: Iterable[MeasurementRow],
    absent: Mapping[str, str] = NOTHING_ABSENT,
) -> Material:
    """Return a run's rows with the directories of their raw files.

    `absent`: raw files that were there once, by their path below the run's directory, and why they are not.
    """
    known, measured = {row.number: row for row in trials}, tuple(rows)
    return Material(
        run=run,
        directory=directory,
        trials=tuple(
            OfTrial(run=run, row=row, directory=directory / f"trial-{row.number:02d}", absent=absent)
            for row in known.values()
        ),
        measurements=tuple(
            OfMeasurement(
                run=run,
                trial=known[row.trial],
                row=row,
                directory=directory / row.directory,
                earlier=tuple(other for other in measured if _before(other, row)),
                near=around(row, known.values(), measured),
                absent=absent,
            )
            for row in measured
            if row.finished
        ),
        unfinished=tuple(row for row in measured if not row.finished),
    )


def _before(other: MeasurementRow, row: MeasurementRow) -> bool:
    same = (other.trial, other.workload_index, other.kind) == (row.trial, row.workload_index, row.kind)
    return same and other.finished and other.repeat < row.repeat


def raw_file(directory: Path, name: str) -> bytes | None:
    """Return the content of a raw file; None when it is not there, or broken."""
    try:
        return raw_files.read(directory, name)
    except Unreadable:
        return None


def _lacking(absent: Mapping[str, str], place: str, names: Iterable[str]) -> str:
    for name in names:
        plain = f"{place}/{name}"
        if why := absent.get(plain) or absent.get(f"{plain}{raw_files.SUFFIX}"):
            return f"{name} {why}"
    return ""

"""Whether a run's stored numbers still follow from its raw files, and whether these are as they were sealed.

What is derived once more stands in three lists; a new number gets its function there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fleetbench.errors import Unreadable
from fleetbench.results import manifest
from fleetbench.results.manifest import Differences
from fleetbench.results.store import Store
from fleetbench.verify import headlines, measurements, trials
from fleetbench.verify.claims import Checked, Claim, Unchecked
from fleetbench.verify.derived import Derived, derived
from fleetbench.verify.material import Material, OfMeasurement, OfTrial, material

OF_A_TRIAL: tuple[Callable[[OfTrial], Iterator[Checked]], ...] = (
    trials.unit,
    trials.effective,
    trials.versions,
)
OF_A_MEASUREMENT: tuple[Callable[[OfMeasurement, Derived], Iterator[Checked]], ...] = (
    measurements.client,
    measurements.result,
    measurements.samples,
    measurements.telemetry,
    measurements.ceiling,
    measurements.judgement,
)
OF_A_RUN: tuple[Callable[[Material, Mapping[str, Derived]], Iterator[Checked]], ...] = (
    headlines.statistics,
    headlines.tables,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """How the raw files compare with the manifest.

    Attributes:
        listed: how many it names. sealed_at: when it was completed; empty: the run goes on, or was cut off.
        problem: why nothing can be compared; empty: it was.
    """

    listed: int = 0
    sealed_at: str = ""
    problem: str = ""
    differences: Differences = field(default_factory=Differences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of it: `checked` numbers, those of them that do not hold, and what could not be checked."""

    run_id: str
    files: Files
    checked: int
    broken: tuple[Claim, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def holds(self) -> bool:
        """True when every number holds and every file is as it was; a file that was added harms nothing."""
        changed = self.files.differences
        return not (self.broken or changed.altered or changed.missing)


def verify(store: Store, name: str) -> Verification:
    """Given a run's id, its beginning or `latest`, derive each stored number of it once more."""
    run = store.run(name)
    whole = material(run, store.directory(run.id), store.trials(run.id), store.measurements(run.id))
    found = tuple(_checked(whole))
    stated = [one for one in found if isinstance(one, Claim)]
    return Verification(
        run_id=run.id,
        files=_files(whole),
        checked=len(stated),
        broken=tuple(claim for claim in stated if not claim.holds),
        unchecked=tuple(one for one in found if isinstance(one, Unchecked)),
    )


def _checked(whole: Material) -> Iterator[Checked]:
    again = {case.place: derived(case) for case in whole.measurements}
    for trial in whole.trials:
        for of_trial in OF_A_TRIAL:
            yield from of_trial(trial)
    for case in whole.measurements:
        for of_measurement in OF_A_MEASUREMENT:
            yield from of_measurement(case, again[case.place])
    for of_run in OF_A_RUN:
        yield from of_run(whole, again)


def _files(whole: Material) -> Files:
    try:
        known = manifest.read(whole.directory)
    except Unreadable as exc:
        return Files(problem=f"{exc.what}: {exc.cause}" if exc.cause else exc.what)
    if known is None:
        return Files(problem="the run has no manifest: it is older than manifests, or its file was removed")
    compared = manifest.differences(whole.directory, known)
    return Files(listed=len(known.files), sealed_at=known.sealed_at, differences=compared)

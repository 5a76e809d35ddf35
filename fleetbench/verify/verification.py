"""Whether a run's stored numbers still follow from its raw files, and whether these are as they were sealed.

What is derived once more stands in three lists; a new number gets its function there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetbench.errors import Unreadable
from fleetbench.results import left_out, manifest, raw_files
from fleetbench.results.manifest import Differences, Entry
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
LEFT_OUT = "was left out of the archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """How the raw files compare with the manifest.

    Attributes:
        listed: how many it names. sealed_at: when it was completed; empty: the run goes on, or was cut off.
        left_out: those that the run's archive did not have: they never were here.
        problem: why nothing can be compared; empty: it was.
    """

    listed: int = 0
    sealed_at: str = ""
    left_out: tuple[str, ...] = ()
    problem: str = ""
    differences: Differences = field(default_factory=Differences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of it.

    Attributes:
        checked: numbers that were compared; `rounded` of them hold as far as a file has their decimals.
        broken: those of them that do not hold.
        unchecked: what could not be compared, and why.
    """

    run_id: str
    files: Files
    checked: int
    rounded: int
    broken: tuple[Claim, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def holds(self) -> bool:
        """True when every number that can be checked holds, and every file that came here is as it was.

        A file that was added harms nothing.
        """
        changed = self.files.differences
        return not (self.broken or changed.altered or changed.missing)


def verify(store: Store, name: str) -> Verification:
    """Given a run's id, its beginning or `latest`, derive each stored number of it once more."""
    run = store.run(name)
    directory = store.directory(run.id)
    files, absent = _files(directory)
    whole = material(run, directory, store.trials(run.id), store.measurements(run.id), absent)
    found = tuple(_checked(whole))
    stated = [one for one in found if isinstance(one, Claim)]
    return Verification(
        run_id=run.id,
        files=files,
        checked=len(stated),
        rounded=sum(claim.rounded and claim.holds and claim.stored != claim.found for claim in stated),
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


def _files(directory: Path) -> tuple[Files, Mapping[str, str]]:
    """Return how the raw files compare; and those that are not there any more, by path, with the reason."""
    never = _left_out(directory)
    try:
        known = manifest.read(directory)
    except Unreadable as exc:
        return _not_compared(f"{exc.what}: {exc.cause}" if exc.cause else exc.what, never)
    if known is None:
        return _not_compared(
            "the run has no manifest: it is older than manifests, or its file was removed", never
        )
    compared = manifest.differences(directory, known)
    never = {path: entry for path, entry in never.items() if known.files.get(path, entry) == entry}
    gone = tuple(path for path in compared.missing if path not in never)
    files = Files(
        listed=len(known.files),
        sealed_at=known.sealed_at,
        left_out=tuple(never),
        differences=replace(compared, missing=gone),
    )
    absent = dict.fromkeys(gone, "is missing") | dict.fromkeys(never, LEFT_OUT)
    # One that was packed or unpacked since is as good.
    return files, {path: why for path, why in absent.items() if not _is_there(directory, path)}


def _not_compared(problem: str, never: Mapping[str, Entry]) -> tuple[Files, Mapping[str, str]]:
    return Files(problem=problem, left_out=tuple(never)), dict.fromkeys(never, LEFT_OUT)


def _left_out(directory: Path) -> Mapping[str, Entry]:
    try:
        return left_out.read(directory)
    except Unreadable:
        return {}  # then these files are missing


def _is_there(directory: Path, path: str) -> bool:
    place = directory / path.removesuffix(raw_files.SUFFIX)
    try:
        return bool(raw_files.stored_name(place.parent, place.name))
    except (OSError, ValueError):  # a name that no file has
        return False

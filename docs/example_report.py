"""The example reports of docs/example-report/, made once more from the rows that lie there.

    python docs/example_report.py              # the reports
    python docs/example_report.py --pictures   # and the README's pictures, for which Chromium is needed

The rows are archives (`fleetbench export RUN --format archive --small`) of real runs, and the published
figures of `inventory/published/`. Nothing is fetched, and the same rows give the same files.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from fleetbench.ceiling.foreign import ceiling_of_foreign  # noqa: E402
from fleetbench.export.adding import add_archive  # noqa: E402
from fleetbench.report.files import write_report  # noqa: E402
from fleetbench.report.imported import read_imported, write_imported  # noqa: E402
from fleetbench.report.together.files import read_several, write_several  # noqa: E402
from fleetbench.results.imports.judging import judged  # noqa: E402
from fleetbench.results.imports.read import read_source  # noqa: E402
from fleetbench.results.store import Store, open_store  # noqa: E402

PLACE = ROOT / "docs" / "example-report"
PUBLISHED = ROOT / "inventory" / "published"
# Reports by directory: the archives of runs that each is made of.
RUNS: Mapping[str, tuple[str, ...]] = {
    "h200": ("h200-ladder", "h200-thousand"),
    "cpu": ("cpu-splits",),
}
IMPORTED = "published"
READ_AT = datetime(2026, 12, 1, tzinfo=UTC)  # of the published figures: a report says when they were read
PICTURES = {"h200": "h200.png", "cpu": "cpu.png", IMPORTED: "published.png"}


def main() -> int:
    """Write the reports, and on request their pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", action="store_true")
    pictures = parser.parse_args().pictures
    with example_store() as store:
        for name in (*RUNS, IMPORTED):
            shutil.rmtree(PLACE / name, ignore_errors=True)
            write(store, name, PLACE / name)
    if pictures:
        draw_pictures()
    return 0


@contextmanager
def example_store() -> Iterator[Store]:
    """Yield a store of its own with every run and the published figures in it."""
    with (
        tempfile.TemporaryDirectory(prefix="fleetbench-example-") as place,
        open_store(f"sqlite:///{place}/rows.sqlite", Path(place), clock=lambda: READ_AT) as store,
    ):
        for path in sorted((PLACE / "runs").glob("*.tar.xz")):
            add_archive(store, path)
        for path in sorted(PUBLISHED.glob("*.toml")):
            source = read_source(path.name, [(path.name, path.read_text("utf-8"))])
            store.keep_import(source, judged(source, ceiling_of_foreign))
        yield store


def write(store: Store, name: str, directory: Path) -> None:
    """Write one of the reports into a directory."""
    if name == IMPORTED:
        write_imported(store, read_imported(store), directory)
        return
    runs = [run_of(store, archive) for archive in RUNS[name]]
    if len(runs) == 1:
        write_report(store, runs[0], directory)
    else:
        write_several(store, read_several(store, runs), directory=directory)


def run_of(store: Store, archive: str) -> str:
    """Return the id of the run that an archive is of."""
    return next(run.id for run in store.runs() if archive in run.origin)


def draw_pictures() -> None:
    """Write a picture of the first screen of each report."""
    from chromium import browser, opened

    with browser() as started:
        for name, picture in PICTURES.items():
            viewport = {"width": 1280, "height": 900}
            with opened(started, PLACE / name / "report.html", viewport=viewport) as seen:
                seen.page.screenshot(path=PLACE / picture)


if __name__ == "__main__":
    sys.exit(main())

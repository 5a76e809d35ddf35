"""The example reports of docs/example-report/, made once more from the rows that lie there.

    python docs/example_report.py              # the reports
    python docs/example_report.py --pictures   # and the README's pictures, for which Chromium is needed

The rows are archives (`fleetbench export RUN --format archive --small`) of real runs, and the published
figures of `inventory/published/`. Nothing is fetched, and the same rows give the same files.
"""

from __future__ import annotations

import argparse
import re
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
from fleetbench.choice.recommend import recommendations  # noqa: E402
from fleetbench.export.adding import add_archive  # noqa: E402
from fleetbench.report.files import read_report, write_files  # noqa: E402
from fleetbench.report.imported import imported_markdown, read_imported, write_imported  # noqa: E402
from fleetbench.report.markdown import markdown  # noqa: E402
from fleetbench.report.own_entries import entries_of_run  # noqa: E402
from fleetbench.report.together.files import read_several, write_several  # noqa: E402
from fleetbench.report.together.text import text_of_several  # noqa: E402
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
            lighten(PLACE / name)
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
    runs = runs_of(store, name)
    if len(runs) == 1:
        report = read_report(store, runs[0])
        advice = recommendations(entries_of_run(report))
        write_files(report, directory, store.directory(runs[0]), advice)
    else:
        joined = read_several(store, runs)
        write_several(store, joined, directory, recommendations=recommendations(joined.entries))


def text_of(store: Store, name: str) -> str:
    """Return the text of one of the reports, without its charts."""
    if name == IMPORTED:
        return imported_markdown(read_imported(store))
    runs = runs_of(store, name)
    if len(runs) == 1:
        report = read_report(store, runs[0])
        return markdown(report, (), recommendations(entries_of_run(report)))
    joined = read_several(store, runs)
    return text_of_several(joined, recommendations=recommendations(joined.entries))


def lighten(directory: Path) -> None:
    """Leave the pictures to the SVG files, which are a fifth of the size in a repository."""
    for picture in (directory / "charts").glob("*.png"):
        picture.unlink()
    (directory / "charts" / "charts.json").unlink(missing_ok=True)
    text = directory / "report.md"
    text.write_text(re.sub(r"(\]\(charts/[^)]+)\.png\)", r"\1.svg)", text.read_text("utf-8")), "utf-8")


def runs_of(store: Store, name: str) -> list[str]:
    """Return the ids of the runs that a report is made of."""
    return [next(run.id for run in store.runs() if archive in run.origin) for archive in RUNS[name]]


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

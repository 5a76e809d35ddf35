"""Charts as files: each as PNG and as SVG, and one list of them with their specifications."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from fleetbench.drawing.drawers import Drawers, Picture
from fleetbench.report.charts.frame import Chart
from fleetbench.whole_file import write_whole

LIST = "charts.json"
# What earlier versions drew, which had no list.
_OF_OLD = re.compile(
    r"(output|total-token|request)-throughput\.png|(median|p99)-(ttft|tpot|itl|e2el)-ms\.png|timeline\.(png|svg)"
)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,150}\.(png|svg)")
_LARGEST_LIST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChart:
    """A chart whose files are there.

    Attributes:
        png, svg: its files.
        text: what is in `svg`.
    """

    chart: Chart
    png: Path
    svg: Path
    text: str


def write_charts(
    charts: Iterable[Chart], directory: Path, drawers: Drawers | None = None
) -> tuple[WrittenChart, ...]:
    """Write each chart into a directory, and charts.json; return where they are.

    Charts of an earlier report that are not among them are removed; other files are left alone. OSError where
    there is no room or no right. The first are drawn while the next are made; `drawers` that are up already
    save the time in which new ones would come up.
    """
    earlier = _earlier(directory)
    with Drawers() if drawers is None else nullcontext(drawers) as ready:
        drawn = [(chart, ready.draw(chart.specification)) for chart in charts]
        written = tuple(_written(chart, picture.result(), directory) for chart, picture in drawn)
    kept = {path.name for each in written for path in (each.png, each.svg)}
    for name in earlier - kept:
        (directory / name).unlink(missing_ok=True)
    if written:
        listed = [_listed(each) for each in written]
        write_whole(directory / LIST, json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode())
    else:
        (directory / LIST).unlink(missing_ok=True)
    return written


def _written(chart: Chart, picture: Picture, directory: Path) -> WrittenChart:
    png, svg = (directory / f"{chart.key}.{kind}" for kind in ("png", "svg"))
    write_whole(svg, picture.svg)
    write_whole(png, picture.png)
    return WrittenChart(chart=chart, png=png, svg=svg, text=picture.svg.decode())


def _listed(written: WrittenChart) -> dict[str, object]:
    return {
        "key": written.chart.key,
        "section": written.chart.section.value,
        "finding": written.chart.finding,
        "alt": written.chart.alt,
        "files": [written.png.name, written.svg.name],
        "specification": written.chart.specification,
    }


def _earlier(directory: Path) -> set[str]:
    """Return the files that an earlier report drew here, by its list; nothing else is ours to remove."""
    names = {path.name for path in directory.glob("*") if _OF_OLD.fullmatch(path.name)}
    try:
        with (directory / LIST).open("rb") as file:
            listed = json.loads(file.read(_LARGEST_LIST))
    except (OSError, ValueError, RecursionError):
        return names
    for entry in listed if isinstance(listed, list) else ():
        files = entry.get("files") if isinstance(entry, dict) else None
        names |= {
            name
            for name in (files if isinstance(files, list) else ())
            if isinstance(name, str) and _NAME.fullmatch(name)
        }
    return names

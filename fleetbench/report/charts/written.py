"""Charts as files: each as PNG and as SVG, and one list of them with their specifications."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fleetbench.report.charts.frame import Chart, png_of_svg, svg_of
from fleetbench.whole_file import write_whole

LIST = "charts.json"
MOST_WAITING = 4
# What earlier versions drew, which had no list.
_OF_OLD = re.compile(
    r"(output|total-token|request)-throughput\.png|(median|p99)-(ttft|tpot|itl|e2el)-ms\.png|timeline\.(png|svg)"
)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,150}\.(png|svg)")
_LARGEST_LIST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChart:
    """A chart whose files are there; its paths, and what Markdown says of it."""

    png: Path
    svg: Path
    finding: str
    alt: str


def write_charts(charts: Iterable[Chart], directory: Path) -> tuple[WrittenChart, ...]:
    """Write each chart into a directory, and charts.json; return where they are.

    Charts of an earlier report that are not among them are removed; other files are left alone. OSError where
    there is no room or no right.
    """
    earlier = _earlier(directory)
    written: list[WrittenChart] = []
    listed: list[dict[str, object]] = []
    # The next SVG is made while the last one becomes a PNG.
    with ThreadPoolExecutor(max_workers=1) as thread:
        pngs: list[tuple[Path, Future[bytes]]] = []
        for chart in charts:
            svg = svg_of(chart.specification)
            png = directory / f"{chart.key}.png"
            pngs.append((png, thread.submit(png_of_svg, svg)))
            write_whole(png.with_suffix(".svg"), svg)
            written.append(
                WrittenChart(png=png, svg=png.with_suffix(".svg"), finding=chart.finding, alt=chart.alt)
            )
            listed.append(
                {
                    "key": chart.key,
                    "section": chart.section.value,
                    "finding": chart.finding,
                    "alt": chart.alt,
                    "files": [png.name, f"{chart.key}.svg"],
                    "specification": chart.specification,
                }
            )
            while len(pngs) > MOST_WAITING:
                _write_first(pngs)
        while pngs:
            _write_first(pngs)
    kept = {path.name for each in written for path in (each.png, each.svg)}
    for name in earlier - kept:
        (directory / name).unlink(missing_ok=True)
    if listed:
        write_whole(directory / LIST, json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode())
    else:
        (directory / LIST).unlink(missing_ok=True)
    return tuple(written)


def _write_first(pngs: list[tuple[Path, Future[bytes]]]) -> None:
    path, made = pngs.pop(0)
    write_whole(path, made.result())


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

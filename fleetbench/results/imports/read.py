"""From the text of files to a source with rows: which format it is, and what is derived from its numbers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from fleetbench.errors import Unreadable, UsageError, one_line
from fleetbench.results.imports.aiperf import aiperf_rows, is_aiperf
from fleetbench.results.imports.derive import derived
from fleetbench.results.imports.documents import load
from fleetbench.results.imports.guidellm import guidellm_rows, is_guidellm
from fleetbench.results.imports.mapping import Columns, read_mapping
from fleetbench.results.imports.reports import SWEPT, report_rows
from fleetbench.results.imports.tables import csv_rows, figure_rows
from fleetbench.results.imports.values import ForeignRow, Provenance, Source

MOST_ROWS = 100_000
_TABLES = (".csv", ".tsv")
# What only a report of GuideLLM or AIPerf has; looked for before a large JSON is read a second time.
_MARKS = ('"requests_per_second"', '"request_throughput"', '"output_token_throughput"', '"request_latency"')


def read_source(
    name: str,
    files: Sequence[tuple[str, str]],
    mapping: tuple[str, str] | None = None,
    provenance: Mapping[str, str] | None = None,
) -> Source:
    """Given a file or directory as its name and its texts, return its rows, with what follows from them.

    Args:
        name: of the file or directory, without its path.
        files: path within it (the name itself for a single file) and text, in order.
        mapping: name and text of a mapping for CSV files.
        provenance: fields of `Provenance` that are said on the command line; they win.

    Raises `Unreadable` when a text holds no result, `UsageError` when the mapping is wrong.
    """
    columns = None if mapping is None else read_mapping(mapping[1], mapping[0])
    if columns is not None and columns.tables:
        raise UsageError(
            f"{one_line(mapping[0]) if mapping else ''}: this mapping has tables of its own",
            next_step="import it by itself: fleetbench import FILE.toml",
        )
    rows: list[ForeignRow] = []
    about = columns.provenance if columns else Provenance()
    for path, text in files:
        if path.endswith(".toml"):
            figures = read_mapping(text, path)
            about = figures.provenance
            rows += figure_rows(figures, one_line(path, 120))
        else:
            rows += _rows(path, text, columns)
    if not rows:
        raise Unreadable(f"{one_line(name)}: there is no row in it")
    if len(rows) > MOST_ROWS:
        raise Unreadable(f"{one_line(name)}: more than {MOST_ROWS:,} rows")
    digest = _digest(files, mapping)
    return Source(
        id=f"{_short(name)}-{digest[:8]}",
        name=one_line(name, 200),
        sha256=digest,
        provenance=_with(about, provenance or {}),
        rows=tuple(derived(row) for row in rows),
    )


def _rows(path: str, text: str, columns: Columns | None) -> Sequence[ForeignRow]:
    source = one_line(path, 200)
    if path.lower().endswith(_TABLES):
        return csv_rows(text, source, columns)
    if columns is not None:
        raise UsageError(f"{source}: a mapping is for CSV, and this is none by its name")
    if text.lstrip("\ufeff \t\r\n")[:1] == "{" and any(mark in text for mark in _MARKS):
        document = _whole_json(text, source)
        if is_guidellm(document):
            return guidellm_rows(document, source)
        if is_aiperf(document):
            return aiperf_rows(document, source)
    folder = PurePosixPath(path).parent.name
    return report_rows(text, source, swept=folder if SWEPT.fullmatch(folder) else "")


def _short(name: str) -> str:
    """Return what of a file's name is safe in an id and in a path."""
    words = re.findall(r"[a-z0-9]+", PurePosixPath(name[:200]).stem.lower())
    return "-".join(words)[:40].strip("-") or "file"


def _whole_json(text: str, source: str) -> Any:
    """JSON Lines and cut files are for the parser of reports, which says what is wrong with them."""
    try:
        return load(text, source)
    except Unreadable:
        return None


def _digest(files: Sequence[tuple[str, str]], mapping: tuple[str, str] | None) -> str:
    """The same content read through the same mapping is the same source, wherever its file lies."""
    parts = [text for _, text in files] if len(files) == 1 else [f"{path}\0{text}" for path, text in files]
    parts += [] if mapping is None else [mapping[1]]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode("utf-8", "replace")).digest())
    return digest.hexdigest()


def _with(about: Provenance, said: Mapping[str, str]) -> Provenance:
    values = {name: getattr(about, name) for name in Provenance.__dataclass_fields__}
    return Provenance(**(values | {name: one_line(value, 2000) for name, value in said.items() if value}))

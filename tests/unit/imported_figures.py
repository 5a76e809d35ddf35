"""The published figures as the store would give them back."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fleetbench.results.imports.judging import judged
from fleetbench.results.imports.read import read_source
from fleetbench.results.imports.values import ImportedRow, ImportedSource

PUBLISHED = Path(__file__).parents[2] / "inventory" / "published"


@cache
def published(name: str) -> tuple[ImportedSource, tuple[ImportedRow, ...]]:
    """A file of `inventory/published/` with its rows, judged."""
    source = read_source(name, [(name, (PUBLISHED / name).read_text("utf-8"))])
    about = ImportedSource(
        id=source.id,
        name=source.name,
        sha256=source.sha256,
        provenance=source.provenance,
        imported_at="2026-12-01T00:00:00Z",
        rows=len(source.rows),
    )
    return about, judged(source)

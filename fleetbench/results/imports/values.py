"""What a source says: where it is from, how its rows were measured, and the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetbench.results.rows import NOTHING, Finding, Json, Verdict
from fleetbench.results.samples import Samples
from fleetbench.results.values import BenchResult

# Below the directory of runs: copies of what was imported, and the report on it.
IMPORTED_DIRECTORY = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where figures are from. Empty: not said.

    Attributes:
        title, author, url: of the document.
        published, retrieved: dates as `2026-11-30`.
        quoted_by: the document that was read, where it only quotes the one above.
        note: what a reader of the figures has to know.
    """

    title: str = ""
    author: str = ""
    url: str = ""
    published: str = ""
    retrieved: str = ""
    quoted_by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a row was measured, as far as its source says. Empty or None: not said.

    Attributes:
        gpu: as the source calls it; gpus: how many in all.
        tp, dp, pp, units: split of the model, as in `fleetbench.model.Config`.
        max_model_len: tokens of context that the server was started for; context_varied: the row is meant
            to show what that length does.
        serve_args: further arguments of the server.
        input_len, output_len: tokens asked for, of each request.
        ignore_eos: whether answers run to the length asked for. same_prompt: every request sent one text.
        client: program that measured, with its version; engine, engine_version: what served.
    """

    model: str = ""
    gpu: str = ""
    gpus: int | None = None
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    units: int | None = None
    max_model_len: int | None = None
    context_varied: bool | None = None
    serve_args: str = ""
    dataset: str = ""
    input_len: int | None = None
    output_len: int | None = None
    ignore_eos: bool | None = None
    same_prompt: bool | None = None
    client: str = ""
    client_args: str = ""
    engine: str = ""
    engine_version: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRow:
    """One row of a source.

    Attributes:
        table: title of the table that it stands in; rows of one table are compared with each other.
        label: what the source calls the row.
        place: where it stands, for people: `report.txt line 12`.
        form: format that it was read from: `vllm-json`, `guidellm-json`, `figures` …
        complete, problems: how well it could be read.
        derived: numbers of `result` that the source does not print, by name, with how they follow.
        samples: each request, where a result file has them; for the rules, not kept in the store.
    """

    table: str = ""
    label: str = ""
    place: str = ""
    form: str
    conditions: Conditions = field(default_factory=Conditions)
    result: BenchResult
    complete: bool = True
    problems: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    samples: Samples | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One import: a file, or a directory of files that belong together.

    Attributes:
        id: name of the source and the beginning of its hash; the same content has the same id.
        name: of the file or directory, without its path.
        sha256: of the content, and of the mapping that it was read with.
    """

    id: str
    name: str
    sha256: str
    provenance: Provenance = field(default_factory=Provenance)
    rows: tuple[ForeignRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """A row that was judged, as the store keeps it.

    Attributes:
        source, position: id of its source, and its place in it from 1.
        ceiling: how near it came to what its hardware can do, as in `MeasurementRow`; empty: not known.
    """

    source: str
    position: int
    row: ForeignRow
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSource:
    """A source in the store, and how many of its rows are what."""

    id: str
    name: str
    sha256: str
    provenance: Provenance
    imported_at: str
    fleetbench_version: str = ""
    rows: int = 0
    verdicts: Mapping[str, Json] = field(default_factory=lambda: NOTHING)

"""A run as one file: its rows, its evidence, and the hash of each part.

A plain tar of regular files, packed by xz or gzip:

    RUN/archive.json    what this is: version, run, hash and size of every other member, what was left out
    RUN/rows.json       all rows of the run
    RUN/files/...       the run's directory: raw files and their manifest; the report is made from the rows

`archiving` writes one, `adding` is the way back. Pure: what `archive.json` says, to text and back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetbench.errors import Unreadable, one_line
from fleetbench.results import bounded_json
from fleetbench.results.left_out import document_of, entries_of
from fleetbench.results.manifest import Entry
from fleetbench.results.schema_history import MIGRATIONS

ABOUT, ROWS, FILES = "archive.json", "rows.json", "files"
FORMAT, VERSION = "fleetbench archive", 1
SUFFIXES = (".tar.xz", ".tar.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an archive says of itself.

    Attributes:
        schema: version of the store's schema that the rows are of.
        members: every other member, by its path below the run's id.
        left_out: raw files that are not in it, or never were here, by their path below the run's directory.
    """

    run_id: str
    schema: int
    fleetbench_version: str = ""
    members: Mapping[str, Entry] = field(default_factory=dict)
    left_out: Mapping[str, Entry] = field(default_factory=dict)


def about_document(about: About) -> bytes:
    """Return the text of `archive.json`."""
    return (
        json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "run": about.run_id,
                "schema": about.schema,
                "fleetbench_version": about.fleetbench_version,
                "members": document_of(about.members),
                "left_out": document_of(about.left_out),
            },
            indent=1,
        ).encode()
        + b"\n"
    )


def read_about(content: bytes, source: str) -> About:
    """Given the text of `archive.json`, return what it says; Unreadable when that is nothing we know."""
    try:
        document = bounded_json.loads(content)
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise Unreadable(
                f"{one_line(source)} is an archive of another kind or version",
                cause=f"{one_line(str(document['format']), 40)} {one_line(str(document['version']), 20)}",
                next_step="add it with the fleetbench that is as new as the one that made it",
            )
        if not isinstance(document["schema"], int) or document["schema"] > MIGRATIONS[-1].version:
            raise Unreadable(
                f"{one_line(source)} has rows of schema {one_line(str(document['schema']), 20)}",
                cause=f"this fleetbench knows versions up to {MIGRATIONS[-1].version}",
                next_step="add it with a newer fleetbench",
            )
        return About(
            run_id=str(document["run"]),
            schema=document["schema"],
            fleetbench_version=one_line(str(document["fleetbench_version"]), 40),
            members=entries_of(document["members"]),
            left_out=entries_of(document["left_out"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        cause = one_line(f"{type(exc).__name__}: {exc}", 200)
        raise Unreadable(f"{one_line(source)}: {ABOUT} cannot be read", cause=cause) from exc

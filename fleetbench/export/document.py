"""A table as one JSON document that says which version its columns have. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fleetbench import __version__
from fleetbench.report.columns import Table
from fleetbench.results.dictionary import SCHEMA, version


def json_document(table: Table, name: str, runs: Sequence[str]) -> str:
    """Return the rows as objects below `rows`, with the version of the columns beside them."""
    document = {
        "schema": SCHEMA,
        "schema_version": version(),
        "fleetbench": __version__,
        "table": name,
        "runs": list(runs),
        "rows": table.objects(),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"

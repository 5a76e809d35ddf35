"""Blocks as rows: for JSON a list of objects, for CSV and tables columns, named as in vLLM's result JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from fleetbench.results.values import BenchResult, Block

# Always there, null when unknown, so that a script can rely on them.
_STATISTICS = ("mean", "median", "p99")
_METRICS = ("ttft", "tpot", "itl", "e2el")
_ALWAYS = tuple(f"{statistic}_{metric}_ms" for metric in _METRICS for statistic in _STATISTICS)
_OWN = tuple(f.name for f in fields(BenchResult) if f.name not in ("latencies", "extra"))
_ABOUT = ("source", "dialect", "first_line", "last_line", "complete")

_SIDE_BY_SIDE = 3

# A terminal has room for what one compares; JSON and CSV carry everything.
_TABLE = (
    ("source", "source"),
    ("first_line", "line"),
    ("completed", "ok"),
    ("failed", "failed"),
    ("max_concurrency", "conc."),
    ("request_rate", "rate"),
    ("duration", "seconds"),
    ("request_throughput", "req/s"),
    ("output_throughput", "out tok/s"),
    ("total_token_throughput", "total tok/s"),
    ("mean_ttft_ms", "TTFT ms"),
    ("p99_ttft_ms", "P99"),
    ("mean_tpot_ms", "TPOT ms"),
    ("p99_tpot_ms", "P99"),
    ("mean_itl_ms", "ITL ms"),
    ("p99_itl_ms", "P99"),
    ("complete", "complete"),
)


def as_rows(blocks: Iterable[Block]) -> list[dict[str, object]]:
    """Given blocks, return one flat dictionary each, ready for JSON; unknown values are None.

    Keys: source, dialect, first_line, last_line, complete, problems (a list), then vLLM's own names. The
    usual latencies are always there; other percentiles and other numbers where a block has them.
    """
    return [_row(block) for block in blocks]


def as_csv(blocks: Iterable[Block]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Given blocks, return columns and rows for one CSV: the same columns for all, problems last as text."""
    rows = as_rows(blocks)
    found = dict.fromkeys(key for row in rows for key in row if key != "problems")
    columns = (*found, "problems")
    return columns, [tuple(_csv_cell(row.get(column)) for column in columns) for row in rows]


def as_table(blocks: Iterable[Block]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Given blocks, return columns and rows for a terminal.

    A few blocks stand side by side with everything known of them; many as one row each, with what one
    compares.
    """
    rows = as_rows(blocks)
    if len(rows) <= _SIDE_BY_SIDE:
        return _side_by_side(rows)
    shown = [tuple(_plain(row.get(key)) for key, _ in _TABLE) for row in rows]
    return tuple(title for _, title in _TABLE), shown


def _side_by_side(rows: list[dict[str, object]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    hidden = ("source", "first_line", "last_line", "problems")
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in hidden]
    known = [key for key in keys if key == "failed" or any(row.get(key) is not None for row in rows)]
    cells = [[_text(row.get(key)) for key in known] for row in rows]
    widths = [max(map(len, column), default=0) for column in cells]
    lines: list[tuple[object, ...]] = [
        (key, *(column[n].rjust(width) for column, width in zip(cells, widths, strict=True)))
        for n, key in enumerate(known)
    ]
    return ("", *(f"{row['source']}:{row['first_line']}" for row in rows)), lines


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(_plain(value))


def _row(block: Block) -> dict[str, object]:
    result = block.result
    row: dict[str, object] = {name: getattr(block, name) for name in _ABOUT}
    row["problems"] = list(block.problems)
    row |= {name: getattr(result, name) for name in _OWN}
    row |= {key: result.latencies.get(key) for key in _ALWAYS}
    row |= {key: value for key, value in result.latencies.items() if key not in row}
    # A key of the file may shadow one of ours (`--metadata source=x`): ours stays.
    row |= {key: value for key, value in result.extra.items() if key not in row}
    return row


def _csv_cell(value: object) -> object:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return value


def problem_lines(blocks: Sequence[Block]) -> list[str]:
    """Given blocks, return one line for each problem, with the place where it is."""
    return [f"{block.source}: {problem}" for block in blocks for problem in block.problems]

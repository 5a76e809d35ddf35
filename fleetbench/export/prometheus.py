"""The newest results as text for node_exporter's textfile collector.

One series for each host, model, GPU, configuration and workload: gauges of the newest valid result, and which
verdict the newest result of all has. The run's id is on an info metric alone, so that a new run starts no new
series of numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from fleetbench.errors import one_line
from fleetbench.model import Workload
from fleetbench.results.rows import Verdict

MOST_LETTERS = 200  # of a label
LABELS = ("host", "model", "gpu", "configuration", "workload")
_WORKLOAD = (*("dataset", "input_len", "output_len", "num_prompts", "max_concurrency", "request_rate"),)
# name, column of the view, factor to Prometheus' base unit, help
GAUGES = (
    ("output_throughput_tokens_per_second", "output_throughput", 1, "Generated tokens by duration."),
    (
        "total_throughput_tokens_per_second",
        "total_token_throughput",
        1,
        "Prompt and generated tokens by duration.",
    ),
    ("request_throughput_requests_per_second", "request_throughput", 1, "Answered requests by duration."),
    ("ttft_median_seconds", "median_ttft_ms", 0.001, "Median time to first token."),
    ("ttft_p99_seconds", "p99_ttft_ms", 0.001, "99th percentile of the time to first token."),
    ("tpot_median_seconds", "median_tpot_ms", 0.001, "Median time per output token after the first."),
    ("tpot_p99_seconds", "p99_tpot_ms", 0.001, "99th percentile of the time per output token."),
    ("ready_seconds", "ready_s", 1, "From the server's start until it answered."),
    ("repeats", "repeats_counted", 1, "Repeats that the numbers rest on."),
)
COLUMNS = (
    *(
        "run",
        "trial",
        "host",
        "model",
        "gpu",
        "configuration",
        "vllm_version",
        "verdict",
        "state",
        "ended_at",
    ),
    *_WORKLOAD,
    *(column for _, column, _, _ in GAUGES),
)
QUERY = f"SELECT {', '.join(COLUMNS)} FROM results WHERE ended_at <> '' ORDER BY ended_at, run, trial"  # noqa: S608

Row = Mapping[str, Any]


def exposition(rows: Iterable[Row]) -> str:
    """Given rows of the view `results` from old to new, return the newest of each as Prometheus' text.

    Times are in the values: the collector refuses samples with times of their own.
    """
    newest: dict[tuple[str, ...], Row] = {}
    valid: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = _key(row)
        newest[key] = row
        if row["verdict"] == Verdict.VALID.value:
            valid[key] = row
    return "".join(f"{line}\n" for line in _lines(newest, valid))


def _lines(newest: Mapping[tuple[str, ...], Row], valid: Mapping[tuple[str, ...], Row]) -> Iterator[str]:
    for name, column, factor, text in GAUGES:
        yield from _head(name, text)
        for key, row in valid.items():
            if row[column] is not None:
                yield f"fleetbench_{name}{{{_labels(key)}}} {float(row[column]) * factor:.9g}"
    yield from _head("result_timestamp_seconds", "When the newest valid result was measured, UTC.")
    for key, row in valid.items():
        if (when := _seconds(row["ended_at"])) is not None:
            yield f"fleetbench_result_timestamp_seconds{{{_labels(key)}}} {when}"
    yield from _head("result_info", "Where the newest valid result stands in the store.")
    for key, row in valid.items():
        about = _pairs(("run", "trial", "vllm_version"), (row["run"], row["trial"], row["vllm_version"]))
        yield f"fleetbench_result_info{{{_labels(key)},{about}}} 1"
    yield from _head(
        "newest_verdict", "Verdict of the newest result, valid or not; a failed trial is `failed`."
    )
    for key, row in newest.items():
        verdict = row["verdict"] or row["state"]
        yield f"fleetbench_newest_verdict{{{_labels(key)},{_pairs(('verdict',), (verdict,))}}} 1"


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP fleetbench_{name} {text}", f"# TYPE fleetbench_{name} gauge"


def _key(row: Row) -> tuple[str, ...]:
    known = {name: row[name] for name in _WORKLOAD if row[name] is not None}
    workload = _label(Workload(**known).label)
    return (*(_label(row[name] or "") for name in LABELS[:-1]), workload)


def _labels(key: tuple[str, ...]) -> str:
    return _pairs(LABELS, key)


def _pairs(names: Iterable[str], values: Iterable[object]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _label(value: object) -> str:
    """Return a value as one printable line; a long one ends with the hash of it all, so that two stay two."""
    text = one_line(str(value), len(str(value)))
    if len(text) <= MOST_LETTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: MOST_LETTERS - len(digest) - 1]}…{digest}"


def _escaped(value: object) -> str:
    """Return a label's value as the format wants it."""
    return _label(value).replace("\\", "\\\\").replace('"', '\\"')


def _seconds(when: str) -> int | None:
    try:
        return int(datetime.fromisoformat(when).timestamp())
    except ValueError:
        return None

"""Entries as the table of the page: columns, rows, filters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry, Status, of_load
from fleetbench.report.html.values import Column, Evidence, Filter, Results, Row, Value
from fleetbench.report.metrics import (
    DERIVED,
    MEAN_LATENCY,
    METRICS,
    OUTPUT,
    PER_GPU,
    PER_REQUEST,
    PER_USER,
    PROMPT,
    Metric,
)
from fleetbench.report.terminal import interval_text

# What one compares first. The other columns are there, and shown when they are asked for.
_MAIN = {OUTPUT.key, PER_GPU.key, PER_USER.key}
_MAIN |= {"median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms"}
_MAIN_IMPORTED = {PROMPT.key, PER_REQUEST.key, MEAN_LATENCY.key}
_ORDER = tuple(dict.fromkeys((OUTPUT, PER_GPU, PER_USER, *METRICS, *DERIVED)))

# Axes: what tells entries apart. Key, label, and how an entry says it; `_` where it does not.
UNKNOWN = "not said"
_AXES: tuple[tuple[str, str, Callable[[Entry], str]], ...] = (
    ("source", "Source", lambda entry: entry.source if entry.imported else ""),
    ("table", "Table", lambda entry: entry.table),
    ("model", "Model", lambda entry: entry.model),
    ("gpu", "GPU", lambda entry: entry.gpu),
    ("gpus", "GPUs", lambda entry: str(entry.gpus) if entry.gpus else ""),
    ("tp", "tp", lambda entry: _split(entry, entry.config.tp)),
    ("dp", "dp", lambda entry: _split(entry, entry.config.dp)),
    ("pp", "pp", lambda entry: _split(entry, entry.config.pp)),
    ("units", "Units", lambda entry: _split(entry, entry.config.units)),
    ("len", "Context", lambda entry: str(entry.config.max_model_len or "")),
    ("workload", "Workload", lambda entry: entry.load),
    ("host", "Host", lambda entry: entry.host),
    ("vllm", "vLLM", lambda entry: entry.vllm_version),
)
_AS_COLUMN = {"workload": True, "gpu": True, "source": False, "table": True, "model": True, "gpus": False}
_AS_COLUMN |= {"host": False, "vllm": False}

Few = Callable[[Entry, Metric], bool]


def results(
    entries: Sequence[Entry],
    ids: Sequence[str],
    evidence: Callable[[Entry], Evidence],
    *,
    trials: Callable[[Entry], tuple[int, ...]] = lambda entry: (),
    best: Callable[[Entry], bool] = lambda entry: False,
    few: Few = lambda entry, metric: False,
    notes: tuple[str, ...] = (),
) -> Results:
    """Return the table of some entries, each with the evidence that a function has for it.

    `ids` are unique in the page. `best`: whether an entry is the best of its workload beyond noise. `few`:
    whether a percentile rests on too few requests.
    """
    metrics = [metric for metric in _ORDER if any(_counts(entry, metric) for entry in entries)]
    axes = {key: [_said(of(entry)) for entry in entries] for key, _, of in _AXES}
    highest = _highest(entries)
    filters = tuple(_filters(axes))
    told = {found.key for found in filters}
    rows = []
    for place, (entry, name) in enumerate(zip(entries, ids, strict=True)):
        own = {key: values[place] for key, values in axes.items()}
        cells = {key: Value(text=said or "–", sort=_sortable(said)) for key, said in own.items()}
        cells |= dict(_numbers(entry, metrics, few, highest[id(entry)]))
        rows.append(
            Row(
                id=name,
                name=entry.name,
                status=entry.status,
                best=best(entry),
                gap=gap(entry),
                cells=cells,
                axes={key: said or UNKNOWN for key, said in own.items() if key in told},
                evidence=evidence(entry),
                trials=trials(entry),
            )
        )
    counts = Counter(entry.status for entry in entries)
    return Results(
        words=tuple(_words(axes)),
        numbers=tuple(_columns(entries, metrics)),
        rows=tuple(rows),
        filters=filters,
        counts={status: counts[status] for status in Status if counts[status]},
        notes=notes,
    )


def _highest(entries: Sequence[Entry]) -> dict[int, float]:
    """Return what each entry's bar is a share of: the most under its load, or under any where none has two.

    A row beside no other one would be the whole of itself.
    """
    loads = tuple(of_load(entries).values())
    ranks = any(sum(entry.valid for entry in load) > 1 for load in loads)
    return {
        id(entry): max((found.values.get(OUTPUT.key, 0.0) for found in group if found.valid), default=0.0)
        for group in (loads if ranks else (tuple(entries),))
        for entry in group
    }


def gap(entry: Entry) -> str:
    """Return what stands in the place of an entry's numbers; empty where these may be shown as such."""
    if entry.status in (Status.VALID, Status.SUSPECT):
        return ""
    what = {
        Status.INVALID: "Invalid, no result",
        Status.FAILED: "Failed, no result",
        Status.IMPLIED: "Not tried, another failure implies that it fails",
        Status.NOT_RUN: "Not run, no result",
        Status.UNMEASURED: "Not measured, no result",
    }[entry.status]
    return f"{what}: {one_line(entry.cause, 220)}" if entry.cause else what


def _counts(entry: Entry, metric: Metric) -> bool:
    return not gap(entry) and entry.value(metric) is not None


def _words(axes: Mapping[str, Sequence[str]]) -> Iterator[Column]:
    """Yield the axes that are columns: those that tell rows apart, and no part of the name already."""
    for key, label, _ in _AXES:
        if key in _AS_COLUMN and len(set(axes[key]) - {""}) > 1:
            numeric = key == "gpus"
            yield Column(key=key, heading=label, title=label, numeric=numeric, main=_AS_COLUMN[key])


def _filters(axes: Mapping[str, Sequence[str]]) -> Iterator[Filter]:
    for key, label, _ in _AXES:
        found = {said or UNKNOWN for said in axes[key]}
        if len(found - {UNKNOWN}) > 1:
            yield Filter(key=key, label=label, options=tuple(sorted(found, key=_natural)))


def _columns(entries: Sequence[Entry], metrics: Sequence[Metric]) -> Iterator[Column]:
    shown = [entry for entry in entries if not gap(entry)]
    imported = any(entry.imported for entry in entries)
    main = _MAIN | _MAIN_IMPORTED if imported else _MAIN
    common = {
        metric.key for metric in metrics if 3 * sum(_counts(entry, metric) for entry in shown) > len(shown)
    }
    for metric in metrics:
        better = "higher is better" if metric.higher_is_better else "lower is better"
        yield Column(
            key=metric.key,
            heading=metric.heading,
            title=f"{metric.title}, {metric.unit}, {better}",
            metric=True,
            main=metric.key in main & common,
        )
        if metric is OUTPUT:
            yield from (
                Column(key=key, heading=heading, title=title, main=first)
                for key, heading, title, of, first in _BESIDE
                if any(of(entry) is not None for entry in shown)
            )


def _numbers(
    entry: Entry, metrics: Sequence[Metric], few: Few, highest: float
) -> Iterator[tuple[str, Value]]:
    if gap(entry):
        return
    doubtful = not entry.valid
    for metric in metrics:
        value = entry.value(metric)
        if value is None:
            continue
        shown = metric.shown(value)
        share = 100 * value / highest if metric is OUTPUT and highest and not doubtful else None
        text = f"({shown})" if few(entry, metric) else shown
        yield metric.key, Value(text=text, sort=value, share=share, doubtful=doubtful)
    for key, _, _, of, _ in _BESIDE:
        found = of(entry)
        if found is not None:
            yield key, Value(text=found[0], sort=found[1], doubtful=doubtful)


def _interval(entry: Entry) -> tuple[str, float] | None:
    spread = entry.spread(OUTPUT)
    text = interval_text(spread)
    return (text, spread.interval.low) if text and spread and spread.interval else None


def _noise(entry: Entry) -> tuple[str, float] | None:
    spread = entry.spread(OUTPUT)
    cv = spread.cv_percent if spread else None
    return None if cv is None else (f"{cv:.1f}", cv)


def _plain(value: object, decimals: int = 0) -> tuple[str, float] | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return f"{value:,.{decimals}f}", float(value)


def _warmup(entry: Entry) -> tuple[str, float] | None:
    value = entry.warmup_output_tps
    return None if value is None else (OUTPUT.shown(value), value)


_BESIDE: tuple[tuple[str, str, str, Callable[[Entry], tuple[str, float] | None], bool], ...] = (
    (
        "interval",
        "95 % interval",
        "interval that holds the typical output tok/s with 95 % confidence",
        _interval,
        True,
    ),
    ("noise", "±%", "coefficient of variation of the output tok/s over the repeats", _noise, False),
    ("warmup", "warm-up", "output tok/s of the warm-up, which never counts", _warmup, False),
    (
        "of_ceiling",
        "of ceiling %",
        "share of what the hardware could do at most",
        lambda entry: _plain(entry.ceiling.get("of_ceiling_percent"), 1),
        False,
    ),
    (
        "failed_requests",
        "failed requests",
        "requests that failed, over all repeats",
        lambda entry: _plain(entry.failed),
        False,
    ),
)


def _split(entry: Entry, size: int) -> str:
    return str(size) if entry.split_known else ""


def _said(text: str) -> str:
    return one_line(text, 120)


def _sortable(said: str) -> float | str | None:
    return float(said) if _is_count(said) else said.lower() or None


def _natural(said: str) -> tuple[int, float, str]:
    """Numbers by their size, then words, then what is not said."""
    if said == UNKNOWN:
        return 2, 0.0, said
    return (0, float(said), "") if _is_count(said) else (1, 0.0, said.lower())


def _is_count(said: str) -> bool:
    return said.isascii() and said.isdigit()

"""The ratios of a pair, metric by metric, with what may be said of them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fleetbench.errors import UsageError
from fleetbench.report.compare.pairs import Pair
from fleetbench.report.metrics import DERIVED, METRICS, OUTPUT, PER_GPU, PER_JOULE, PER_USER, PROMPT, Metric
from fleetbench.results.comparison import MORE, Comparison

ALL = (*METRICS, *DERIVED)
# What all GPUs come to together: says little where one side has more of them.
TOTALS = frozenset((OUTPUT.key, "total_token_throughput", "request_throughput", PROMPT.key))
_OF_OTHERS = frozenset(metric.key for metric in DERIVED) - {PER_GPU.key, PER_USER.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One metric of a pair.

    `comparison` is that of the other side with the baseline; None where one of the values is not above 0.
    """

    metric: Metric
    baseline: float
    other: float
    comparison: Comparison | None

    @property
    def better(self) -> bool | None:
        """Whether the other side is better; None where that is not known."""
        found = self.comparison
        if found is None or not found.differs:
            return None
        return (found.ratio > 1) is self.metric.higher_is_better

    @property
    def sentence(self) -> str:
        """What may be said: `faster by 6–9 %`."""
        if self.comparison is None:
            return "the same" if self.baseline == self.other else "no ratio: a value is not above 0"
        words = MORE if self.metric.unit == "tok/J" else None  # no token per joule is fast
        return self.comparison.sentence(higher_is_better=self.metric.higher_is_better, words=words)


def compared_as(metric: Metric, *, per_gpu: bool = False) -> Metric:
    """Return what is compared where a metric is asked for: under `per_gpu` output throughput for each GPU.

    UsageError for another total then: it has no such form.
    """
    if not per_gpu or metric.key not in TOTALS:
        return metric
    if metric is OUTPUT:
        return PER_GPU
    raise UsageError(
        f"{metric.key} is what all GPUs come to together, which --per-gpu leaves out",
        next_step=f"{PER_GPU.key}, or without --per-gpu",
    )


def figures(pair: Pair, *, per_gpu: bool = False, only: Collection[str] = ()) -> tuple[Figure, ...]:
    """Return each metric that both entries have; `per_gpu`: none that grows with the GPUs."""
    one, two = pair.baseline.entry, pair.other.entry
    found: list[Figure] = []
    for metric in ALL:
        before, after = one.value(metric), two.value(metric)
        left_out = (per_gpu and metric.key in TOTALS) or (only and metric.key not in only)
        if before is None or after is None or left_out:
            continue
        comparison = two.against(one, metric)
        found.append(Figure(metric=metric, baseline=before, other=after, comparison=comparison))
    return tuple(found)


def brief(found: Collection[Figure], pair: Pair, *, headlines: bool) -> tuple[Figure, ...]:
    """Return the figures that a table shows: the headlines alone where there are many pairs.

    Throughput per GPU where the numbers of GPUs differ or nothing else is there; what others publish where
    one side is imported.
    """
    one, two = pair.baseline.entry, pair.other.entry
    keys = {figure.metric.key for figure in found}
    with_gpus = one.gpus != two.gpus or OUTPUT.key not in keys
    shown = {metric.key for metric in METRICS if (metric.headline if headlines else metric.table)}
    shown |= {PER_GPU.key} if with_gpus else set()
    shown |= {PER_JOULE.key} if not headlines else set()
    if one.imported or two.imported:
        shown |= _OF_OTHERS
    return tuple(figure for figure in found if figure.metric.key in shown)

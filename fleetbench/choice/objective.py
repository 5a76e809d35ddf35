"""What "best" means: the objectives of `fleetbench recommend`, each one metric of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleetbench.errors import UsageError, one_line
from fleetbench.report.metrics import METRICS, OUTPUT, PER_GPU, PER_JOULE, Metric
from fleetbench.results.comparison import DEARER, FASTER, MORE, Words

GOODPUT = Metric(
    key="goodput",
    heading="goodput req/s",
    title="goodput (requests that meet the SLO)",
    unit="req/s",
    higher_is_better=True,
)
COST = Metric(
    key="cost_per_million_output_tokens",
    heading="cost/M tokens",
    title="cost of a million output tokens",
    unit="per million output tokens",
)
COST_TOTAL = "cost_per_million_total_tokens"
"""Key of `Entry.values`: the same of input and output tokens together."""
REQUESTS = next(metric for metric in METRICS if metric.key == "request_throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is to be had most of, or least.

    Attributes:
        name: as it is typed.
        missing: why an entry has no value of it.
        words: how two values are compared in a sentence.
        of_gpus: it is about GPUs, so what no GPU served has none.
    """

    name: str
    metric: Metric
    missing: str
    words: Words = FASTER
    of_gpus: bool = False


TOKENS = Objective(name="tokens/s", metric=OUTPUT, missing="no output throughput was reported")
OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        each.name: each
        for each in (
            TOKENS,
            Objective(
                name="tokens/s/gpu",
                metric=PER_GPU,
                missing="how many GPUs it took is not known",
                of_gpus=True,
            ),
            Objective(name="requests/s", metric=REQUESTS, missing="no request throughput was reported"),
            Objective(
                name="goodput", metric=GOODPUT, missing="the single requests are not to be had", words=MORE
            ),
            Objective(name="cost", metric=COST, missing="it cannot be priced", words=DEARER),
            Objective(
                name="energy",
                metric=PER_JOULE,
                missing="not measured: no power samples",
                words=MORE,
                of_gpus=True,
            ),
        )
    }
)


def objective_named(name: str) -> Objective:
    """Return an objective by its name, in any case; UsageError with the names otherwise."""
    found = OBJECTIVES.get(name.strip().lower())
    if found is None:
        raise UsageError(
            f"no objective is called {one_line(name, 60)!r}", next_step=f"one of {', '.join(OBJECTIVES)}"
        )
    return found

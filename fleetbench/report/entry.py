"""What tables, charts, comparisons and choices are made of: one configuration under one workload. Pure.

An entry is made of an own run's rows or of one imported row, and has the same names in both cases. What
failed, was implied or never tried is an entry like any other. `None`, an empty text and a length of 0 mean
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fleetbench.model import Config, Workload
from fleetbench.report.metrics import OUTPUT, Metric
from fleetbench.results.comparison import Comparison, Observation, compare
from fleetbench.results.rows import NOTHING, Finding, Json
from fleetbench.results.rules.table import thresholds
from fleetbench.results.statistics import Spread, nested_spread


class Status(StrEnum):
    """What became of an entry. Only `valid` ones are ranked; all of them are shown."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"
    FAILED = "failed"
    IMPLIED = "implied"
    NOT_RUN = "not run"
    UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One configuration on one kind of GPU under one workload.

    Attributes:
        source: id of the run, or of what was imported; `imported` says which. In a report on several runs it
            is the report's name; `run` is the run's id in any case.
        series: in a report on several runs, what parts entries that are alike otherwise: `vLLM 0.11.0`.
            Figures of different series are in one table only where each row names it.
        place: where its evidence is: `trial 3, workload 0`, `row 12`.
        name: short, unique among the entries of its source and workload.
        table: title of the table that an imported row stands in.
        model, gpu, host: as the run, the driver and the inventory call them, or the source.
        gpus: of all units together; None where a source does not say.
        split_known: whether `config` says how the model was split; else its 1s mean nothing.
        load: the workload in words; entries are compared only where it is equal.
        versions: vLLM, and which client measured.
        cause: why it is not valid: the failure's cause, or the first reason against it.
        advice: what to do about it.
        completed, failed: requests over all repeats that count.
        values: headline by metric key, as in `METRICS` and `DERIVED`, and every latency that is known under
            vLLM's name (`p95_e2el_ms`); of suspect and invalid ones, too.
        pooled: whether percentiles are over the requests of all repeats together; else medians of each's own.
        observations: each repeat's value by metric key, with the start of a server that it belongs to.
        telemetry, ceiling: numbers as in `MeasurementRow`, medians over the repeats; words as they are.
        trial, workload_index: of an own entry; several starts: of the first.
        spec_hash: of the unit that was measured.
    """

    source: str
    run: str = ""
    series: str = ""
    imported: bool = False
    place: str = ""
    name: str
    table: str = ""
    model: str = ""
    gpu: str = ""
    gpus: int | None = None
    host: str = ""
    config: Config = field(default_factory=Config)
    split_known: bool = True
    workload: Workload = field(default_factory=Workload)
    load: str = ""
    vllm_version: str = ""
    client: str = ""
    status: Status
    cause: str = ""
    advice: str = ""
    repeats: int = 0
    completed: int | None = None
    failed: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    observations: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)
    pooled: bool = False
    findings: tuple[Finding, ...] = ()
    warmup_output_tps: float | None = None
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    trial: int | None = None
    workload_index: int | None = None
    spec_hash: str = ""

    @property
    def valid(self) -> bool:
        """Whether it may be ranked."""
        return self.status is Status.VALID

    @property
    def on_gpus(self) -> bool:
        """Whether its devices are GPUs: own ones without a name are processors, or not known."""
        return bool(self.gpu) or self.imported

    def value(self, metric: Metric) -> float | None:
        """Return a metric's headline; None where it is unknown."""
        return self.values.get(metric.key)

    def spread(self, metric: Metric) -> Spread | None:
        """Return the spread of a metric over its repeats, those of each start together."""
        starts: dict[str, list[float]] = {}
        for found in self.observations.get(metric.key, ()):
            starts.setdefault(found.start, []).append(found.value)
        return nested_spread(list(starts.values())) if starts else None

    def rests_on_few(self, metric: Metric) -> bool:
        """Whether the metric is a p99 over fewer requests than it takes, as far as that is known."""
        if self.completed is None:
            return False
        behind = self.completed if self.pooled else self.completed // max(1, self.repeats)
        return metric.key.startswith("p99_") and behind < thresholds().p99_samples

    def against(self, other: Entry, metric: Metric) -> Comparison | None:
        """Compare with another entry; None where one of them has no value above 0.

        Repeats of equal seeds are pairs only where one client drew the prompts.
        """
        one, two = (found.observations.get(metric.key, ()) for found in (self, other))
        if self.client.partition(" ")[0] != other.client.partition(" ")[0]:
            one, two = _unpaired(one), _unpaired(two)
        return compare(one, two)


def of_load(entries: Iterable[Entry]) -> dict[tuple[str, str], tuple[Entry, ...]]:
    """Return the entries by model and load, in the order in which these first appear."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.model, entry.load), []).append(entry)
    return {key: tuple(group) for key, group in found.items()}


def traffic(workload: Workload) -> Workload:
    """Return what a workload sends, whatever the load: two of a ladder of concurrencies have the same."""
    return replace(workload, num_prompts=0, max_concurrency=None, request_rate=None)


def ranked(entries: Iterable[Entry], metric: Metric = OUTPUT) -> tuple[Entry, ...]:
    """Return the valid entries that have the metric, the best first."""
    found = [
        (value, entry) for entry in entries if entry.valid and (value := entry.value(metric)) is not None
    ]
    return tuple(
        entry for _, entry in sorted(found, key=lambda pair: pair[0], reverse=metric.higher_is_better)
    )


def _unpaired(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    return tuple(Observation(value=found.value, start=found.start) for found in observations)

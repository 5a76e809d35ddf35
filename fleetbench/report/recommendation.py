"""What a choice comes to, as values that reports print and draw; `fleetbench/choice/` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetbench.report.entry import Entry
from fleetbench.report.metrics import Metric
from fleetbench.results.comparison import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A configuration at one load, and what it comes to.

    Attributes:
        load: what tells the load from the others that were measured: `c=64`; empty where there is one only.
        value: of the objective, in its unit.
    """

    entry: Entry
    load: str
    value: float

    @property
    def name(self) -> str:
        """The configuration, as tables call it."""
        return self.entry.name

    @property
    def trial(self) -> int | None:
        """The trial to promote; None of an imported entry."""
        return self.entry.trial

    @property
    def where(self) -> str:
        """Configuration and load: `tp=2 dp=1 at c=64`."""
        return f"{self.name} at {self.load}" if self.load else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An entry that could not be chosen, and why, in one clause."""

    name: str
    load: str
    status: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which configuration to deploy, for one model on one kind of GPU under one shape of requests.

    Attributes:
        question: what was asked, in words: model, GPU, requests, objective, SLO.
        slo: bounds that the best meets; empty: none was given.
        best: None where nothing can be chosen; the first reason says why.
        runner_up: the best of another configuration; `comparison` is the best against it.
        reasons: sentences, the answer first.
        sensitivity: sentences: who wins at which load, what would change the choice.
        candidates: everything that could have been chosen, the best first.
        pareto: of those, what no other exceeds both in output per GPU and in speed per user.
        currency: of the tariff; empty without one, or where it names none.
        nearest: where nothing meets the SLO, what comes nearest.
    """

    question: str
    objective: Metric
    slo: str = ""
    best: Pick | None
    runner_up: Pick | None = None
    comparison: Comparison | None = None
    reasons: tuple[str, ...] = ()
    sensitivity: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    candidates: tuple[Pick, ...] = ()
    pareto: tuple[Pick, ...] = ()
    nearest: Pick | None = None
    currency: str = ""

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.reasons[0] if self.reasons else ""

    @property
    def leads(self) -> bool:
        """Whether a report begins with it: it was a choice among several, or nothing meets the SLO."""
        return self.runner_up is not None or self.nearest is not None


def leading(found: Sequence[Recommendation]) -> tuple[str, ...]:
    """Return the sentence that a report begins with, for each recommendation that leads."""
    return tuple(
        f"{'Recommended' if one.best else 'Nothing to recommend'}"
        f"{f' for {one.question}' if len(found) > 1 else _by(one)}: {one.sentence}"
        for one in found
        if one.leads
    )


def _by(found: Recommendation) -> str:
    """Say what the best is best in: without an SLO it may keep its users waiting."""
    return f" by {found.objective.title}{f', under {found.slo}' if found.slo else ', without an SLO'}"

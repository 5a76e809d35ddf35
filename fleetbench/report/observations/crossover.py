"""Where on a ladder of concurrencies another configuration takes the lead. Pure.

Only what can be told apart counts: a winner is better than each other configuration beyond noise, so figures
that were measured once have no crossover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fleetbench.report.entry import Entry, of_load, ranked, traffic
from fleetbench.report.finding import clear
from fleetbench.report.metrics import OUTPUT, Metric
from fleetbench.report.observations.said import Said, name
from fleetbench.report.tables.shown import gpus_text, several


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """A configuration that wins clearly at each concurrency from `first` to `last` that was measured.

    `lightest`: nothing lighter was measured; `heaviest`: nothing heavier.
    """

    winner: Entry
    first: int
    last: int
    lightest: bool = False
    heaviest: bool = False


def reigns(entries: Sequence[Entry], metric: Metric = OUTPUT) -> tuple[tuple[Reign, ...], ...]:
    """Return the reigns of each model, GPU, number of GPUs and kind of requests, by concurrency.

    Where no configuration is clearly the best, nobody reigns.
    """
    groups: dict[object, dict[int, list[Entry]]] = {}
    for entry in entries:
        load = entry.workload
        if load.max_concurrency is not None and load.request_rate is None:
            key = (
                *(entry.source, entry.series, entry.table, entry.model, entry.gpu, entry.gpus),
                traffic(load),
            )
            groups.setdefault(key, {}).setdefault(load.max_concurrency, []).append(entry)
    return tuple(found for steps in groups.values() if (found := tuple(_reigns(steps, metric))))


def said_of_crossovers(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield a sentence for each group in which the lead changes."""
    for found in reigns(entries):
        if several(reign.winner.config for reign in found):
            parts = [f"{name(reign.winner)} wins {_where(reign)}" for reign in found]
            head = found[0].winner
            on = f"On {gpus_text(head)}, " if head.gpus else ""
            yield Said(topic="crossover", text=f"{on}{', '.join(parts)} ({OUTPUT.title})")


def _reigns(steps: dict[int, list[Entry]], metric: Metric) -> Iterator[Reign]:
    order = sorted(steps)
    winners = [_winner(steps[concurrency], metric) for concurrency in order]
    won = zip(order, winners, strict=True)
    for _, group in groupby(won, key=lambda pair: pair[1].config if pair[1] is not None else None):
        reign = list(group)
        winner = reign[0][1]
        if winner is not None:
            first, last = reign[0][0], reign[-1][0]
            yield Reign(
                winner=winner, first=first, last=last, lightest=first == order[0], heaviest=last == order[-1]
            )


def _winner(entries: Sequence[Entry], metric: Metric) -> Entry | None:
    """Return who wins under each of the loads that tell; these differ in their numbers of prompts."""
    orders = [ranked(group, metric) for group in of_load(entries).values()]
    leaders = [order[0] if clear(order, metric) else None for order in orders if len(order) > 1]
    alike = not several(leader.config if leader is not None else None for leader in leaders)
    return leaders[0] if leaders and alike else None


def _where(reign: Reign) -> str:
    """Say where it wins: without an end only where nothing beyond was measured."""
    if reign.lightest and not reign.heaviest:
        return f"up to c={reign.last}"
    if reign.heaviest and not reign.lightest:
        return f"from c={reign.first} on"
    return f"at c={reign.first}" if reign.first == reign.last else f"from c={reign.first} to c={reign.last}"

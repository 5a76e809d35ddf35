"""What could not be chosen, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fleetbench.choice.questions import Question
from fleetbench.choice.slo import Bound, Slo
from fleetbench.report.entry import Entry
from fleetbench.report.recommendation import LeftOut, Pick

FAR_PERCENT = 100.0  # beyond that a miss is told as a multiple


def left_out(
    question: Question, ordered: Sequence[Pick], slo: Slo, missing: Callable[[Entry], str]
) -> tuple[LeftOut, ...]:
    """Return every entry that is no candidate, in the order of the entries; loads of one reason together.

    `ordered` are the entries that have a value of the objective; `missing` says why a valid one has none.
    """
    priced = {id(pick.entry) for pick in ordered}
    found: dict[tuple[str, str, str], list[str]] = {}
    for entry in question.entries:
        why = _why(entry, slo) if id(entry) in priced else entry.cause if not entry.valid else missing(entry)
        if why or not entry.valid:
            name = f"{entry.name} ({entry.place})" if entry.imported else entry.name
            key = name, entry.status.value, why
            found.setdefault(key, []).append(question.loads[entry.load])
    every = len(question.loads)
    return tuple(
        LeftOut(
            name=name,
            load=", ".join(filter(None, loads)) if len(loads) < every else "",
            status=status,
            why=why,
        )
        for (name, status, why), loads in found.items()
    )


def miss(bound: Bound, value: float) -> str:
    """Return by how much a value misses a bound: `ttft_p99_ms<2000 by 12 % (2,240 ms)`."""
    over = (value / bound.limit_ms - 1) * 100
    if over >= FAR_PERCENT:
        return f"{bound} ({shown_ms(value)}, {value / bound.limit_ms:,.3g} times the limit)"
    far = f"{over:.0f} %" if over >= 10 else f"{over:.1f} %" if over >= 0.05 else "less than 0.1 %"
    return f"{bound} by {far} ({shown_ms(value)})"


def shown_ms(value: float) -> str:
    """Return milliseconds as they are printed: `2,240 ms`, `41.3 ms`."""
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2g} ms"


def _why(entry: Entry, slo: Slo) -> str:
    return "; ".join(_parts(entry, slo))


def _parts(entry: Entry, slo: Slo) -> Iterator[str]:
    missed, unknown = slo.missed(entry), slo.unknown(entry)
    if missed:
        yield "misses " + " and ".join(miss(bound, entry.values[bound.key]) for bound in missed)
    if unknown:
        yield f"not measured: {', '.join(bound.name for bound in unknown)}"

"""What further GPUs gave, tensor against pipeline, and what concurrency costs: as sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import OUTPUT, PROMPT
from fleetbench.report.observations.said import Said, listed, name
from fleetbench.report.tables.concurrency import ladders as of_concurrency
from fleetbench.report.tables.scaling import Scaled, ladders
from fleetbench.report.tables.shown import OneDigit, device_word, gpus_text, number, section, several
from fleetbench.report.tables.strategies import Pair, pairs
from fleetbench.results.comparison import RESTART_PERCENT

_MOST_LADDERS = 6
_MOST_STEPS = 5
_FAR_PERCENT = 30.0  # of the ceiling: kernels alone do not waste that much (docs/ceiling.md)


class Gain(Enum):
    """What one entry has over another: more throughput, none, none as far as a single figure tells.

    None is what another start may be all of: the whole interval lies below 3 % more.
    """

    MORE = auto()
    NONE = auto()
    NONE_BY_ONE = auto()
    UNKNOWN = auto()


_NO_GAIN = {
    Gain.NONE: "More {}s for nothing",
    Gain.NONE_BY_ONE: "More {}s for nothing, as far as single figures tell",
    Gain.UNKNOWN: "It cannot be told whether more {}s gave more",
}


def said_of_scaling(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield a sentence for each ladder of GPUs, or one for all of them where there are many."""
    found = ladders(entries)
    if len(found) > _MOST_LADDERS:
        yield from _in_all(found)
        return
    for ladder in found:
        base = ladder[0].base
        steps = [_best_on(ladder, gpus) for gpus in dict.fromkeys(step.entry.gpus for step in ladder[1:])]
        steps = [step for step in steps if step.entry.gpus != base.gpus]
        word = device_word(base)
        parts = [
            f"{name(step.entry)} gives {step.speed_up:.2f}× on {step.entry.gpus} {word}s "
            f"({step.efficiency_percent:.0f} % a {word})"
            for step in steps[:_MOST_STEPS]
        ]
        kind = f" {one_line(base.gpu, 60) or word}"
        if len(found) > 1 and base.table:
            kind += f", {one_line(section(base), 40)}"
        start = f"{number(base, base.value(OUTPUT)):,} {OUTPUT.unit} on {base.gpus}{kind}"
        yield Said(topic="scaling", text=f"From {name(base)} ({start}): {'; '.join(parts)}")
        yield from _no_gain(base, steps)


def _best_on(ladder: Sequence[Scaled], gpus: int | None) -> Scaled:
    return max((step for step in ladder if step.entry.gpus == gpus), key=lambda step: step.speed_up)


def _no_gain(base: Entry, steps: Sequence[Scaled]) -> Iterator[Said]:
    """Say which further GPUs gave nothing, and of which that cannot be told."""
    word = device_word(base)
    before = base
    found: dict[Gain, list[str]] = {}
    for step in steps:
        match gain(step.entry, before):
            case Gain.MORE:
                before = step.entry
            case Gain.UNKNOWN as what:
                compared = step.entry.against(before, OUTPUT)
                says = compared.sentence(against=name(before)) if compared else ""
                text = f"on {step.entry.gpus} {word}s {name(step.entry)} is {says}"
                found.setdefault(what, []).append(text)
            case what:
                text = f"{step.entry.gpus} {word}s with {name(step.entry)} no more than {before.gpus}"
                found.setdefault(what, []).append(f"{text}{_far(step)}")
    for what, head in _NO_GAIN.items():
        if parts := found.get(what):
            yield Said(topic="scaling", text=f"{head.format(word)}: {'; '.join(parts)}")


def _far(step: Scaled) -> str:
    """Say that the GPUs cannot be what held it back, where they can do several times as much."""
    share = step.entry.ceiling.get("of_ceiling_percent")
    if isinstance(share, int | float) and 0 < share < _FAR_PERCENT:
        return f" (at {share:.0f} % of what its GPUs can do, so something beside them held it back)"
    return ""


def gain(one: Entry, other: Entry) -> Gain:
    """Return whether one has a higher output throughput than another, as far as that can be told."""
    found = one.against(other, OUTPUT)
    if found is None or found.high is None:
        more = (one.value(OUTPUT) or 0) > (other.value(OUTPUT) or 0)
        return Gain.MORE if more else Gain.NONE_BY_ONE
    if found.differs and found.ratio > 1:
        return Gain.MORE
    return Gain.NONE if found.high <= 1 + RESTART_PERCENT / 100 else Gain.UNKNOWN


def _in_all(found: Sequence[Sequence[Scaled]]) -> Iterator[Said]:
    steps = [step for ladder in found for step in ladder if step.entry.gpus != step.base.gpus]
    gains = [gain(step.entry, step.base) for step in steps]
    slower = [found for found in gains if found in (Gain.NONE, Gain.NONE_BY_ONE)]
    hidden = gains.count(Gain.UNKNOWN)
    noise = f", and of {hidden} that cannot be told at this noise" if hidden else ""
    best = max(steps, key=lambda step: step.efficiency_percent)
    where = f"{name(best.entry)}, {one_line(best.entry.table, 60)}" if best.entry.table else name(best.entry)
    yield Said(
        topic="scaling",
        text=f"{len(slower)} of {len(steps)} rows on several GPUs give no more than the fewest GPUs of their "
        f"kind{noise}; the most that each GPU gave is {best.efficiency_percent:.0f} % ({where})",
    )


def said_of_strategies(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield by how much tensor is faster than pipeline on the same GPUs, and what noise that is seen in."""
    for group in pairs(entries):
        yield from (_speed_up(pair) for pair in group if _known(pair))
        alike = [pair for pair in group if pair.alike and _known(pair)]
        apart = [
            abs(up) for pair in alike for metric in (PROMPT, OUTPUT) if (up := pair.speed_up_percent(metric))
        ]
        if apart:
            yield Said(
                topic="speed-up",
                text="On one GPU there is nothing to split: "
                f"{listed(name(pair.tensor) for pair in alike)} were measured twice as one configuration and "
                f"differ by up to {max(apart):.1f} %, so a difference of that size means nothing here",
            )


def _known(pair: Pair) -> bool:
    return pair.speed_up_percent(OUTPUT) is not None


def _speed_up(pair: Pair) -> Said:
    if pair.tensor.imported:
        parts = [
            f"{_percent(up)} % {what}"
            for metric, what in ((PROMPT, "prompt"), (OUTPUT, "generation"))
            if (up := pair.speed_up_percent(metric)) is not None
        ]
        text = f"Tensor against pipeline on {name(pair.tensor)}: {', '.join(parts)} speed-up"
        return Said(topic="speed-up", text=text)
    found = pair.tensor.against(pair.pipeline, OUTPUT)
    says = found.sentence(against=name(pair.pipeline)) if found else "not comparable"
    return Said(topic="speed-up", text=f"On {gpus_text(pair.tensor)}, {name(pair.tensor)} is {says}")


def _percent(value: float) -> str:
    return f"{OneDigit(value)}"


def said_of_concurrency(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield for the fastest configurations what more requests at the same time gave, and what they cost."""
    counting = [_counting(ladder) for ladder in of_concurrency(entries)]
    found = [ladder for ladder in counting if several(entry.workload.max_concurrency for entry in ladder)]
    found.sort(key=lambda ladder: ladder[-1].value(OUTPUT) or 0, reverse=True)
    for ladder in found[:_MOST_LADDERS]:
        low, high = ladder[0], ladder[-1]
        gave = f"{_ratio(high, low, OUTPUT.key):.2f} times the generation TPS"
        costs = [what.format(ratio) for what, key in _COSTS if (ratio := _ratio(high, low, key))]
        counts = f"{low.workload.max_concurrency} to {high.workload.max_concurrency} requests at a time"
        yield Said(
            topic="concurrency",
            text=f"{name(high)}, from {counts}: {gave}{'; ' if costs else ''}{', '.join(costs)}",
        )


_COSTS = (
    ("a request gets {:.0%} of its rate", "request_generation_level_tps"),
    ("latency is {:.2f} times as long", "avg_latency_s"),
    ("median TTFT is {:.2f} times as long", "median_ttft_ms"),
)


def _counting(ladder: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in ladder if (entry.valid or entry.imported) and entry.value(OUTPUT)]


def _ratio(one: Entry, other: Entry, key: str) -> float:
    above, below = one.values.get(key), other.values.get(key)
    return above / below if above and below and below > 0 else 0.0

"""What held configurations back: room for keys and values, the links, the client, the scheduler. Pure.

From the ceilings of the rows (docs/ceiling.md), and from samples where no ceiling is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fleetbench.errors import one_line
from fleetbench.report.entry import Entry
from fleetbench.report.observations.said import Said, listed, name
from fleetbench.report.observations.scaling import Gain, gain
from fleetbench.report.tables.scaling import ladders
from fleetbench.report.tables.shown import configuration

# What `binds` says (ceiling/binds.py) -> what it means for who reads the report.
_WORDS = {
    "kv-room": "KV-starved, so memory is what is missing",
    "interconnect": "bound by the links between the GPUs, so a wider split does not help",
    "client": "held back by the bench client, so the server can do more than this",
    "api-server": "held back by its API server, which is one process, not by its GPUs",
    "scheduler": "held back by the server's host, not by its GPUs",
}
_HARDWARE = frozenset({"bandwidth", "compute"})
_KV_FULL = 0.95  # as in ceiling/binds.py
_ENOUGH = 0.98  # share of the requests asked for, as there


def said_of_bounds(entries: Sequence[Entry]) -> Iterator[Said]:
    """Yield a sentence for each bound that is no ordinary one, and what room a wider split gave."""
    counting = [entry for entry in entries if entry.valid or entry.imported]
    for word, meaning in _WORDS.items():
        # Where the hardware binds in another repeat, the odd one is no bound of the configuration.
        found = [e for e in counting if word in bounds(e) and not _HARDWARE.intersection(bounds(e))]
        if found:
            called = _called(counting)
            verb = "is" if len({called(entry) for entry in found}) == 1 else "are"
            because = next((f" ({called(e)}: {why})" for e in found if (why := _evidence(e, word))), "")
            yield Said(topic="bound", text=f"{listed(map(called, found))} {verb} {meaning}{because}")
    yield from _room(counting)


def _called(entries: Sequence[Entry]) -> Callable[[Entry], str]:
    """Return what names an entry: with how many requests at a time where that varies."""
    loads: dict[object, set[int | None]] = {}
    for entry in entries:
        loads.setdefault(configuration(entry), set()).add(entry.workload.max_concurrency)

    def called(entry: Entry) -> str:
        at = entry.workload.max_concurrency
        return f"{name(entry)} at c={at}" if at and len(loads[configuration(entry)]) > 1 else name(entry)

    return called


def bounds(entry: Entry) -> tuple[str, ...]:
    """Return what binds an entry: of its repeats each different word; KV room also by samples alone."""
    words = tuple(word for word in _each(entry, "binds") if word != "unknown")
    return words or (("kv-room",) if _sampled(entry) else ())


def _evidence(entry: Entry, word: str) -> str:
    """Return why that binds; empty where several bounds have sentences that may be another one's."""
    words, sentences = _each(entry, "binds"), _each(entry, "why")
    if sentences and word in words and len(words) in (1, len(sentences)):
        return one_line(sentences[words.index(word)], 300)
    return _sampled(entry) if word == "kv-room" else ""


def _each(entry: Entry, key: str) -> list[str]:
    """Return what the repeats said, each different thing once (report/nearness.py)."""
    said = entry.ceiling.get(key)
    return said.split("; ") if isinstance(said, str) and said else []


def _sampled(entry: Entry) -> str:
    """Return what of the samples says that the KV cache was full; empty where nothing does."""
    use, waiting, lost = (
        _number(entry.telemetry.get(key)) for key in ("kv_usage_max", "waiting_mean", "preemptions")
    )
    if use < _KV_FULL or (waiting < 1 and lost <= 0):
        return ""
    what = f"{waiting:,.0f} requests waited" if waiting >= 1 else f"{lost:,.0f} requests lost their place"
    return f"the KV cache was {use:.0%} full while {what}"


def _room(entries: Sequence[Entry]) -> Iterator[Said]:
    """Say where a wider split gained room: its base had too little for the requests."""
    for ladder in ladders(entries):
        base = ladder[0].base
        for step in ladder[1:]:
            more = gain(step.entry, base) is Gain.MORE
            if more and _wider(step.entry, base) and (room := _gained(step.entry, base)):
                yield Said(
                    topic="bound",
                    text=f"{name(base)} is KV-starved, {room}: of the {step.speed_up:.2f}× that "
                    f"{name(step.entry)} gives a part is room for keys and values, not arithmetic",
                )
                break


def _wider(one: Entry, other: Entry) -> bool:
    """Whether one has more memory to a server, and no more servers or ranks, which would schedule more."""
    mine, its = one.config, other.config
    more = mine.tp * mine.pp > its.tp * its.pp
    return more and (mine.dp, mine.units) == (its.dp, its.units)


def _gained(one: Entry, base: Entry) -> str:
    """Return how the room grew, in words; empty where it was enough, or did not."""
    asked = base.workload.max_concurrency or base.workload.num_prompts
    room, more = (_number(entry.ceiling.get("in_flight")) for entry in (base, one))
    if 0 < room < asked * _ENOUGH and more > room / _ENOUGH:
        fits = "all" if more >= asked * _ENOUGH else f"{more:,.0f}"
        return f"with room for about {room:,.0f} of {asked:,} requests where {name(one)} has it for {fits}"
    if "kv-room" in bounds(base) and "kv-room" not in bounds(one):
        return f"which {name(one)} is not"
    return ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

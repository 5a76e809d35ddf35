"""Service level objectives: `ttft_p99_ms<2000,tpot_p99_ms<=60`, read and held against entries. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from fleetbench.errors import UsageError, one_line
from fleetbench.report.entry import Entry
from fleetbench.results.rules.table import thresholds

LATENCIES = ("ttft", "tpot", "itl", "e2el")
MOST_BOUNDS = 20
LONGEST_MS = 1e9  # eleven days: nobody waits longer for a token
_TO_MS = {"us": 0.001, "µs": 0.001, "ms": 1.0, "s": 1000.0}
_TERM = re.compile(r"([a-z0-9_.]{1,40})\s*(<=|<|≤|:|>=|>|==?)\s*([0-9.e+-]{1,20})\s*(us|µs|ms|s)?")
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?)")
_NAMES = tuple(f"{latency}_{how}_ms" for latency in LATENCIES for how in ("p99", "p95", "median", "mean"))
EXAMPLE = "--slo 'ttft_p99_ms<2000,tpot_p99_ms<60'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A latency that must not be exceeded.

    Attributes:
        latency: `ttft`, `tpot`, `itl` or `e2el`. statistic: `p99`, `median`, `mean` …
        inclusive: whether the limit itself is good enough.
    """

    latency: str
    statistic: str
    limit_ms: float
    inclusive: bool = False

    @property
    def key(self) -> str:
        """vLLM's name of the number: `p99_ttft_ms`."""
        return f"{self.statistic}_{self.latency}_ms"

    @property
    def name(self) -> str:
        """The number as an SLO calls it: `ttft_p99_ms`."""
        return f"{self.latency}_{self.statistic}_ms"

    @property
    def limit(self) -> str:
        """The bound without its name: `<2000`."""
        return f"{'<=' if self.inclusive else '<'}{_number(self.limit_ms)}"

    def __str__(self) -> str:
        return f"{self.name}{self.limit}"

    @property
    def percentile(self) -> float | None:
        """The share of requests in percent that it is about; None of a mean."""
        if self.statistic == "median":
            return 50.0
        found = _PERCENTILE.fullmatch(self.statistic)
        return float(found[1]) if found else None

    @property
    def requests_needed(self) -> int:
        """How many requests the number has to rest on: as many beyond it as beyond a p99 of 1,000."""
        beyond = 100 - (self.percentile if self.percentile is not None else 50.0)
        return math.ceil(thresholds().p99_samples / max(beyond, 0.001) - 1e-9)

    def met_by(self, value_ms: float) -> bool:
        """Return whether a value is good enough."""
        return value_ms <= self.limit_ms if self.inclusive else value_ms < self.limit_ms

    def below(self, limit_ms: float, *, inclusive: bool) -> Bound:
        """Return the same bound with another limit."""
        return replace(self, limit_ms=limit_ms, inclusive=inclusive)


@dataclass(frozen=True, slots=True)
class Slo:
    """All bounds that must hold together; none is met by everything."""

    bounds: tuple[Bound, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.bounds))

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def unknown(self, entry: Entry) -> tuple[Bound, ...]:
        """Return the bounds of which it is not known whether an entry meets them."""
        return tuple(bound for bound in self.bounds if bound.key not in entry.values)

    def missed(self, entry: Entry) -> tuple[Bound, ...]:
        """Return the bounds that an entry is known not to meet."""
        return tuple(
            bound
            for bound in self.bounds
            if (value := entry.values.get(bound.key)) is not None and not bound.met_by(value)
        )

    def met_by(self, entry: Entry) -> bool:
        """Return whether an entry is known to meet all bounds."""
        return not self.unknown(entry) and not self.missed(entry)

    def excess(self, entry: Entry) -> float | None:
        """Return the largest ratio of a value to its limit; None where one is not known."""
        if self.unknown(entry):
            return None
        return max((entry.values[bound.key] / bound.limit_ms for bound in self.bounds), default=0.0)

    @property
    def of_each_request(self) -> dict[str, Bound]:
        """The bound that a single request has to keep, by latency: what goodput counts.

        Of several bounds of one latency it is that of the highest percentile; a mean bounds no request where
        there is a percentile. Pauses between tokens (`itl`) are no property of a request: as in vLLM's
        `--goodput`, they do not count.
        """
        found: dict[str, Bound] = {}
        for bound in sorted(self.bounds, key=lambda each: each.percentile or 0.0):
            if bound.latency != "itl":
                found[bound.latency] = bound
        return found


NO_SLO = Slo()


def parse_slo(text: str) -> Slo:
    """Given bounds with commas between them, return them; UsageError says what is wrong with which.

    Names are `ttft_p99_ms` or vLLM's own `p99_ttft_ms`; the unit may follow the number (`ttft_p99<2s`). A
    colon is `<=`, as in vLLM's `--goodput ttft:2000`, and needs no quotes in a shell.
    """
    terms = [term.strip() for term in text[:2000].split(",") if term.strip()]
    if len(terms) > MOST_BOUNDS or len(text) > 2000:
        raise UsageError(f"the SLO has more than {MOST_BOUNDS} bounds", next_step=EXAMPLE)
    found: dict[str, Bound] = {}
    for term in terms:
        bound = _bound(term)
        twin = found.setdefault(bound.key, bound)
        if twin is not bound:
            raise UsageError(f"the SLO bounds {bound.name} twice", cause=f"{twin} and {bound}")
    return Slo(tuple(found.values()))


def _bound(term: str) -> Bound:
    shown = one_line(term, 60)
    matched = _TERM.fullmatch(term.lower())
    if matched is None:
        raise UsageError(
            f"{shown!r} is no bound of an SLO",
            cause="expected name, < or <=, and a number",
            next_step=f"{EXAMPLE} (the quotes keep < from the shell)",
        )
    name, sign, digits, unit = matched.groups()
    if sign.startswith((">", "=")):
        raise UsageError(
            f"{shown!r}: a latency is bounded from above", next_step=f"write {name}<{digits}{unit or ''}"
        )
    latency, statistic, unit_of_name = _parts(name, shown, f"{sign}{digits}{unit or ''}")
    unit = unit or unit_of_name
    if not unit:
        raise UsageError(
            f"{shown!r}: {digits} of what?",
            next_step=f"write {latency}_{statistic}_ms{sign}{digits}, or {latency}_{statistic}{sign}2s",
        )
    limit = _limit(digits, shown) * _TO_MS[unit]
    if not 0 < limit <= LONGEST_MS:
        raise UsageError(f"{shown!r}: expected a time above 0 and below {LONGEST_MS:g} ms")
    return Bound(latency=latency, statistic=statistic, limit_ms=limit, inclusive=sign != "<")


def _parts(name: str, shown: str, rest: str) -> tuple[str, str, str]:
    """Return latency, statistic and unit of a name, whichever of the two comes first."""
    words = name.split("_")
    unit = words.pop() if words[-1] in ("ms", "s", "us") else ""
    latencies = [word for word in words if word in LATENCIES]
    statistics = [word for word in words if word in ("median", "mean") or _PERCENTILE.fullmatch(word)]
    if len(words) == 2 and len(latencies) == len(statistics) == 1:
        statistic = statistics[0]
        match = _PERCENTILE.fullmatch(statistic)
        plain = f"p{float(match[1]):g}" if match else statistic
        return latencies[0], "median" if plain == "p50" else plain, unit
    if len(words) == 1 and latencies:
        raise UsageError(
            f"{shown!r}: of which share of the requests?", next_step=f"write {latencies[0]}_p99_ms{rest}"
        )
    near = _near(name)
    hint = f"did you mean {near}?" if near else f"names are {', '.join(f'{x}_p99_ms' for x in LATENCIES)}"
    raise UsageError(f"{shown!r}: there is no latency {one_line(name, 40)!r}", next_step=hint)


def _near(name: str) -> str:
    """Return the right name that looks most like a wrong one."""
    flipped = {f"{s}_{latency}_ms": f"{latency}_{s}_ms" for latency, s, _ in (n.split("_") for n in _NAMES)}
    known = {each: each for each in _NAMES} | flipped
    meant = name[:60].replace("latency", "e2el").replace("e2e_", "e2el_")
    close = get_close_matches(meant, known, n=1, cutoff=0.6)
    return known[close[0]] if close else ""


def _limit(digits: str, shown: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise UsageError(f"{shown!r}: {one_line(digits, 20)!r} is no number") from None


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "") if value == round(value) else f"{value:g}"

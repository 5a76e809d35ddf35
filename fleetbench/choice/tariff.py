"""What a million tokens cost on a configuration, from an own tariff and measured power. Pure.

    share            = GPUs that it takes / GPUs of the host
    capital per hour = price / (years × 8,760 h) / utilisation × share
    energy per hour  = kW × price of a kWh × PUE
    cost of a million output tokens = (capital + energy) per hour / output tokens per hour × 1,000,000

The price is borne by the hours in which the host serves at the measured rate; the power of its idle hours is
not counted. Power is measured where it was sampled: the whole machine's where the configuration takes all its
GPUs, else that of its GPUs with its share of `host_watts`. Where nothing was sampled, each GPU counts with
the power limit that it comes with, which is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleetbench.choice.objective import COST, COST_TOTAL, Objective
from fleetbench.choice.questions import gpus_of
from fleetbench.model import Tariff, Tariffs
from fleetbench.plan.hardware import card_named
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import METRICS, OUTPUT
from fleetbench.results.rows import Json

HOURS_PER_YEAR = 8760.0
_MILLION = 1e6
_TOTAL = next(metric for metric in METRICS if metric.key == "total_token_throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one configuration costs while it serves.

    Attributes:
        share: of the host that it takes.
        power_w: before PUE; power_from: how that is known, in words.
    """

    tariff: Tariff
    share: float
    capital_per_hour: float
    energy_per_hour: float
    power_w: float
    power_from: str

    @property
    def per_hour(self) -> float:
        """Capital and energy of one hour."""
        return self.capital_per_hour + self.energy_per_hour

    def per_million(self, tokens_per_s: float) -> float:
        """Return what a million tokens cost at that rate."""
        return self.per_hour / (tokens_per_s * 3600) * _MILLION


def cost(entry: Entry, tariff: Tariff) -> Cost | str:
    """Return what an hour of an entry's configuration costs, or why that cannot be told."""
    gpus = gpus_of(entry) if entry.on_gpus else 0
    if gpus is None:
        return "how many GPUs it took is not known"
    if gpus and not tariff.gpus:
        return "the tariff is for a host without GPUs (gpus = 0)"
    if not gpus and tariff.gpus:
        return f"no GPU is named, and the tariff is for a host with GPUs (gpus = {tariff.gpus})"
    share = gpus / tariff.gpus if gpus else 1.0
    power = _power(entry, tariff, gpus, share)
    if isinstance(power, str):
        return power
    watts, known = power
    return Cost(
        tariff=tariff,
        share=share,
        capital_per_hour=tariff.host_price / (tariff.years * HOURS_PER_YEAR) / tariff.utilisation * share,
        energy_per_hour=watts / 1000 * tariff.kwh_price * tariff.pue,
        power_w=watts,
        power_from=known,
    )


def cost_of(entry: Entry, tariffs: Tariffs) -> Cost | str:
    """Return the same with the tariff that holds for the entry's GPUs and host."""
    return cost(entry, tariffs.of(entry.gpu, entry.host.partition(",")[0]))


def with_cost(entries: Iterable[Entry], tariffs: Tariffs | None) -> tuple[Entry, ...]:
    """Return entries with the cost of a million tokens, of output and of all, where it can be told.

    What it is made of is there, too: `capital_per_hour`, `energy_per_hour`, `priced_power_w` before PUE.
    """
    return tuple(_with(entry, tariffs) if tariffs is not None else entry for entry in entries)


def in_currency(objective: Objective, tariffs: Tariffs | None) -> Objective:
    """Return an objective whose cost is in the tariff's currency; any other one as it is."""
    if objective.metric.key != COST.key or tariffs is None or not tariffs.common.currency:
        return objective
    money = tariffs.common.currency
    metric = replace(objective.metric, heading=f"{money}/M tokens", unit=f"{money} {objective.metric.unit}")
    return replace(objective, metric=metric)


def _with(entry: Entry, tariffs: Tariffs) -> Entry:
    found = cost_of(entry, tariffs)
    output, total = entry.value(OUTPUT), entry.value(_TOTAL)
    if isinstance(found, str) or not output:
        return entry
    parts = {
        "capital_per_hour": found.capital_per_hour,
        "energy_per_hour": found.energy_per_hour,
        "priced_power_w": found.power_w,
    }
    values = {**entry.values, **parts, COST.key: found.per_million(output)}
    if total:
        values[COST_TOTAL] = found.per_million(total)
    seen = tuple(
        replace(one, value=found.per_million(one.value))
        for one in entry.observations.get(OUTPUT.key, ())
        if one.value > 0
    )
    return replace(entry, values=values, observations={**entry.observations, COST.key: seen})


def _power(entry: Entry, tariff: Tariff, gpus: int, share: float) -> tuple[float, str] | str:
    """Return watts and how they are known, or why they are not."""
    whole, of_gpus = (_number(entry.telemetry, name) for name in ("bmc_power_w_mean", "gpu_power_w_mean"))
    rest = tariff.host_watts * share
    beside = f", and {rest:,.0f} W for the rest of the host by the tariff" if rest else ""
    if whole is not None and share == 1:
        return whole, "the whole machine measured"
    if not gpus:
        return rest, "by the tariff"
    if of_gpus is not None:
        return of_gpus + rest, f"GPUs measured at {of_gpus:,.0f} W{beside}"
    card = card_named(entry.gpu)
    if card is None:
        return "no power was measured, and the catalogue does not have its GPU"
    return card.power_w * gpus + rest, f"assumed: {gpus} × {card.power_w:,.0f} W, the GPUs' limit{beside}"


def _number(figures: Mapping[str, Json], name: str) -> float | None:
    value = figures.get(name)
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
    )

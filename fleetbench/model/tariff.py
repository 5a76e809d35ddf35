"""What a host costs: its price, for how long, and its power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Prices are in one currency, whichever it is.

    Attributes:
        host_price: of one host with all that belongs to it.
        gpus: of that host; a configuration bears the share of the host whose GPUs it takes.
        years: that it is used before it is written off.
        kwh_price: of a kilowatt-hour, as it is bought.
        pue: watts of the data centre for each watt of a host (power usage effectiveness).
        host_watts: of the host beside its GPUs, while it serves; a measured power of the whole machine wins.
        utilisation: share of those years in which it serves, 0 to 1; the price is borne by these hours.
    """

    host_price: float
    gpus: int
    years: float
    kwh_price: float
    pue: float = 1.0
    host_watts: float = 0.0
    utilisation: float = 1.0
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariffs:
    """A tariff, and what differs from it: for `gpus`, by a part of their name, and for `hosts`.

    The currency never differs: costs are compared with each other, and nothing is converted.
    """

    common: Tariff
    gpus: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)

    def of(self, gpu: str, host: str) -> Tariff:
        """Return what holds for a host with such GPUs: its own table wins over that of its GPUs.

        Of several names that are parts of the GPU's, the longest counts.
        """
        named = sorted((name for name in self.gpus if name.lower() in gpu.lower()), key=len)
        own = dict(self.gpus[named[-1]]) if named else {}
        return replace(self.common, **{**own, **self.hosts.get(host, {})})

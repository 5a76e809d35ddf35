"""Splits that a version of vLLM cannot run, or that were seen to fail: rows of `data/plan_gates.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fleetbench.model import Config
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.reason import Effect, Reason
from fleetbench.vllm_features import Version, parse_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One row; None means that it does not matter. The file says what each field means."""

    name: str
    effect: str
    text: str
    architectures: tuple[str, ...] = ()
    moe: bool | None = None
    mxfp4: bool | None = None
    ep: bool | None = None
    dp_from: int = 1
    tp_from: int = 1
    headroom_below_gib: float | None = None
    since: str = ""
    before: str = ""

    def about(
        self, architecture: Architecture, config: Config, version: Version, headroom: float | None
    ) -> bool:
        """True when the row is about this model, split, version and GPU."""
        span = not (self.since and version < parse_version(self.since)) and not (
            self.before and version >= parse_version(self.before)
        )
        asked = (
            (self.moe, architecture.experts is not None),
            (self.mxfp4, architecture.mxfp4),
            (self.ep, config.ep),
        )
        return (
            span
            and (not self.architectures or architecture.name in self.architectures)
            and all(wanted is None or wanted == real for wanted, real in asked)
            and config.dp >= self.dp_from
            and config.tp >= self.tp_from
            and (self.headroom_below_gib is None or (headroom or 0.0) < self.headroom_below_gib)
            and (self.headroom_below_gib is None or headroom is not None)
        )


@cache
def gates() -> tuple[Gate, ...]:
    """Return the rows that come with this package."""
    data = tomllib.loads((resources.files("fleetbench") / "data" / "plan_gates.toml").read_text("utf-8"))
    return tuple(
        Gate(**{**row, "architectures": tuple(row.get("architectures", ()))}) for row in data["gate"]
    )


def gate_reasons(
    architecture: Architecture, config: Config, version: Version, headroom_gib: float | None
) -> tuple[Reason, ...]:
    """Return what the rows say; `headroom_gib` is what the budget leaves of a GPU, None when not known."""
    words = {
        "version": version,
        "tp": config.tp,
        "dp": config.dp,
        "headroom": f"{headroom_gib:.1f}" if headroom_gib is not None else "?",
    }
    return tuple(
        Reason(gate.name, Effect(gate.effect), gate.text.format(**words))
        for gate in gates()
        if gate.about(architecture, config, version, headroom_gib)
    )

"""The table of rules and thresholds: `data/rules.toml`, read and checked once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from fleetbench.errors import FleetbenchError
from fleetbench.results.rows import Verdict

GROUPS = ("report", "asked", "load", "client", "server", "machine", "physics", "foreign")
_FOR = ("own", "foreign", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        id: as in `Finding.rule`.
        group: topic, one of `GROUPS`.
        verdicts: what a finding may make of a row, the worst first; `valid` is a remark.
        applies_to: `own`, `foreign` or `both`.
        title: what it finds. explanation: why that speaks against a number. action: what to do.
    """

    id: str
    group: str
    verdicts: tuple[Verdict, ...]
    applies_to: str
    title: str
    explanation: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where a number becomes a reason; what each means is in `data/rules.toml` and docs/measurement.md."""

    waves: int
    p99_samples: int
    output_short: float
    output_long: float
    foreign_output_short: float
    prompt_short: float
    prompt_cut: float
    prompt_long: float
    prompt_slack_tokens: float
    context_used: float
    arithmetic: float
    percentile_order: float
    latency_sum: float
    little_over: float
    little_over_derived: float
    little_under: float
    little_under_varied: float
    stall_ratio: float
    stall_s: float
    stall_times: float
    stall_share: float
    drift: float
    drift_third_s: float
    drift_requests: int
    repeats_apart: float
    python_streams: int
    python_context: int
    client_cores: float
    client_window_s: float
    client_added: float
    client_added_ms: float
    client_said: float
    client_said_ms: float
    ttft_said: float
    ttft_said_ms: float
    send_lag: float
    offered: float
    server_tokens: float
    tables_apart: float
    throttled: float
    skew_ms: float
    missed_share: float
    missed_least: int
    ceiling_percent: float
    tpot_floor_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """All rules, the thresholds, and what each threshold means."""

    rules: tuple[Rule, ...]
    thresholds: Thresholds
    meanings: tuple[tuple[str, str], ...]

    def rule(self, name: str) -> Rule:
        """Return a rule by its id; KeyError when there is none of that name."""
        for rule in self.rules:
            if rule.id == name:
                return rule
        raise KeyError(name)


@cache
def rule_table() -> RuleTable:
    """Return the table that comes with fleetbench."""
    return parse_rules(resources.files("fleetbench").joinpath("data/rules.toml").read_text("utf-8"))


def thresholds() -> Thresholds:
    """Return the thresholds that hold."""
    return rule_table().thresholds


def parse_rules(text: str) -> RuleTable:
    """Given the TOML text of a table, return it checked; FleetbenchError says what is wrong."""
    try:
        document = tomllib.loads(text)
        found = tuple(_rule(entry) for entry in document["rule"])
        values = {entry["name"]: entry["value"] for entry in document["threshold"]}
        limits = Thresholds(**values)
        meanings = tuple((entry["name"], entry["meaning"]) for entry in document["threshold"])
    except (KeyError, TypeError, ValueError) as exc:
        raise FleetbenchError("the table of rules cannot be read", cause=str(exc)) from exc
    for names in ([rule.id for rule in found], [name for name, _ in meanings]):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise FleetbenchError("the table of rules is wrong", cause=f"defined twice: {', '.join(twice)}")
    for field in fields(Thresholds):
        if type(values[field.name]) is bool or not isinstance(values[field.name], int | float):
            raise FleetbenchError("the table of rules is wrong", cause=f"{field.name} is not a number")
    return RuleTable(rules=found, thresholds=limits, meanings=meanings)


def _rule(entry: dict[str, Any]) -> Rule:
    rule = Rule(
        id=entry["id"],
        group=entry["group"],
        verdicts=tuple(Verdict(name) for name in entry["verdicts"]),
        applies_to=entry["for"],
        title=entry["title"],
        explanation=entry["explanation"],
        action=entry["action"],
    )
    if rule.group not in GROUPS or rule.applies_to not in _FOR or not rule.verdicts:
        raise ValueError(f"{rule.id}: group, for or verdicts is none that is known")
    return rule

"""Trials as a sweep leaves them, and hosts before and after one is promoted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from nouns import HOST, MODEL, facts, unit
from report_rows import repeats, run, trial

from fleetbench.deploy import Wish, service_spec
from fleetbench.facts.values import File, HostFacts
from fleetbench.model import Config, GpuSet, Host, Model, ServiceSpec
from fleetbench.promotion.candidate import Candidate, candidate
from fleetbench.promotion.intent import intent_of
from fleetbench.promotion.place import Asked, place_of
from fleetbench.promotion.target import Target, target_of
from fleetbench.report.summary import summarise
from fleetbench.results.rows import TrialRow
from fleetbench.sweep.arrangement import arrange
from fleetbench.sweep.balancer import unit_text
from fleetbench.units import hash_in, render, spec_hash

TOOLS = {"nginx": "/usr/sbin/nginx"}
NGINX = facts(tools=TOOLS, cpus=8)
TWO = Config(tp=2)
ANYWHERE = Asked()
H100 = "NVIDIA H100 80GB HBM3"
ODD_MODEL = replace(
    MODEL,
    serve_args=("--override", '{"a": "b c", "d": "100%"}', "--max-num-seqs=64"),
    env={"A_B": 'say "hi" \\ 5%\n\ttwo $HOME é\x85', "VLLM_CACHE_ROOT": "/data/own", "EMPTY": ""},
)


def measured_trial(config: Config = TWO, model: Model = MODEL, host: Host = HOST, **changes: Any) -> TrialRow:
    """A trial as a sweep leaves it: with the text of what served it."""
    row = trial(
        1,
        config,
        host=host.name,
        gpu_name=H100,
        vllm_version="0.19.1",
        member_ports=tuple(range(8102, 8102 + config.units)) if config.units > 1 else (),
    )
    there = arrange(host, model, row, NGINX)
    row = replace(row, unit_name=there.unit, unit_text=there.text, spec_hash=there.spec_hash)
    return replace(row, **changes)


def found(row: TrialRow | None = None, *outputs: float) -> Candidate:
    """The candidate that a measured trial is."""
    row = row or measured_trial()
    return candidate(summarise(run(), [row], repeats(1, *(outputs or (1000.0, 1001.0, 1002.0)))), row.number)


def target(
    one: Candidate | None = None,
    there: HostFacts = NGINX,
    host: Host = HOST,
    asked: Asked = ANYWHERE,
    **known: Any,
) -> Target:
    one = one or found()
    given = {"builds": {"cuda": HOST.build}, "measured_on": HOST} | known
    return target_of(one, host, place_of(one, host, there, asked), there, **given)


def installed(done: Target, there: HostFacts = NGINX) -> HostFacts:
    """The facts after a promotion, with everything running."""
    outcome = intent_of(done, there)
    left = there
    for spec in done.units.members:
        left = running(
            left, spec.unit, spec.unit_path, render(spec), spec_hash(spec), spec.port, str(spec.gpus)
        )
    balancer = done.units.balancer
    if balancer is not None:
        text = unit_text(balancer)
        left = running(left, balancer.unit, balancer.unit_path, text, hash_in(text), balancer.port, "")
        left = left.with_unit(replace(left.units[balancer.unit], running_spec="", servers=balancer.members))
    for step in outcome.steps:
        action = step.action
        if hasattr(action, "content") and action.path.endswith(".conf"):
            left = left.with_file(file_of(action.path, action.content.decode()))
    return left.with_file(File(path="/etc/fleetbench", kind="directory", mode=0o755, owner="root:root"))


def running(there: HostFacts, name: str, path: str, text: str, spec: str, port: int, gpus: str) -> HostFacts:
    made = unit(port, gpus, name=name, fragment=path, spec=spec, running_spec=spec)
    return there.with_file(file_of(path, text)).with_unit(made)


def file_of(path: str, text: str) -> File:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return File(path=path, sha256=digest, mode=0o644, owner="root:root", text=text)


def sweep_spec(model: Model = ODD_MODEL, config: Config = TWO) -> ServiceSpec:
    wish = Wish(model=model, port=8101, gpus=GpuSet((0, 1)), config=config)
    return service_spec(HOST, wish, facts(), persistent=False)

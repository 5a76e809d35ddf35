"""Hosts, models and plans that tests of the planner share: the servers of the two published reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fleetbench.facts.document import from_json
from fleetbench.facts.values import HostFacts
from fleetbench.inventory import load
from fleetbench.model import Build, Config, Device, Host, Model, Sweep
from fleetbench.plan.architecture import Architecture, read_architecture
from fleetbench.plan.hardware import facts_from_words
from fleetbench.plan.planner import Candidate, Plan, plan_sweep

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "fixtures" / "models"
HOSTS = ROOT / "tests" / "fixtures" / "hosts"
PLANS = ROOT / "tests" / "fixtures" / "plans"

# The first report served with this one; which one the second used it does not say.
FIRST_REPORT, SECOND_REPORT = "0.10.1.1", "0.9.2"
# Model of the inventory, its saved config.json.
FIRST_MODELS = {
    "qwen3-coder": "qwen3-coder-30b-a3b",
    "gpt-oss-120b": "gpt-oss-120b",
    "llama-3.1-8b": "llama-3.1-8b",
}
SECOND_MODELS = {
    "r1-qwen-1.5b": "r1-distill-qwen-1.5b",
    "llama-3.2-3b": "llama-3.2-3b",
    "llama-3.1-8b-eager": "llama-3.1-8b",
    "r1-qwen-32b": "r1-distill-qwen-32b",
}
# Saved facts: tests/fixtures/hosts/NAME.json.
SERVERS = ("8xh100", "8xh200")
PRESETS = ("gpu-small", "gpu-medium", "gpu-large", "gpu-xlarge", "mi210x1", "mi210x2", "h100x1", "h100x2")


def architecture(name: str, **changed: Any) -> Architecture:
    """The shape of a saved model; keywords replace fields."""
    return replace(read_architecture((MODELS / f"{name}.json").read_text("utf-8")), **changed)


def host(version: str, device: Device = Device.CUDA) -> Host:
    """A host with that vLLM."""
    return Host(name="h", build=Build(name="b", version=version, device=device))


def plan(
    config: str,
    words: str,
    *configs: Config,
    version: str = FIRST_REPORT,
    model: Model | None = None,
    sweep: Sweep | None = None,
    facts: HostFacts | None = None,
    **more: Any,
) -> Plan:
    """A plan of some configurations (all tp×dp without any) of a saved model on some GPUs."""
    chosen = sweep or Sweep(name="s", parallel=configs or "all")
    return plan_sweep(
        chosen,
        model or Model(name="m", repo="a/m", max_model_len=8192),
        architecture(config),
        facts or facts_from_words(words),
        host(version),
        **more,
    )


def only(found: Plan) -> Candidate:
    """The only candidate of a plan."""
    (candidate,) = found.candidates
    return candidate


def rules(candidate: Candidate) -> list[str]:
    """Names of the rules that speak, decisive ones first."""
    return [reason.rule for reason in candidate.reasons]


def saved_facts(name: str) -> HostFacts:
    """The facts of one of the reports' hosts."""
    return from_json((HOSTS / f"{name}.json").read_text("utf-8"))


def report_plan(model_name: str, config: str, server: str, sweep_name: str, version: str) -> Plan:
    """The plan of a sample model and sweep of the inventory, as the reports measured them."""
    inventory = load(ROOT / "inventory")
    return plan_sweep(
        inventory.sweeps[sweep_name],
        inventory.models[model_name],
        architecture(config),
        saved_facts(server),
        host(version, Device.ROCM if server.startswith("mi") else Device.CUDA),
        builds=inventory.builds,
    )

"""What the planner says of a run's trials: what is skipped, with its numbers, and what is predicted."""

from __future__ import annotations

from plan_cases import architecture, host, saved_facts

from fleetbench.facts.values import HostFacts
from fleetbench.model import Config, Model, Sweep, Trial
from fleetbench.plan.hardware import facts_from_words
from fleetbench.plan.planner import plan_sweep
from fleetbench.plan.ruled_out import with_verdicts
from fleetbench.plan.schedule import Place, trials

MODEL = Model(name="m", repo="a/m", max_model_len=8192)


def judged(name: str, facts: HostFacts, *configs: Config, try_all: bool = False) -> tuple[Trial, ...]:
    sweep = Sweep(name="s", parallel=configs)
    machine = host("0.19.1")
    planned = trials(sweep, MODEL, [Place.of(machine, facts)])
    plan = plan_sweep(sweep, MODEL, architecture(name), facts, machine, try_all=try_all)
    found = {machine.name: {candidate.config: candidate for candidate in plan.candidates}}
    return with_verdicts(planned, found)


def test_what_cannot_be_is_skipped_with_rule_numbers_and_a_way_out() -> None:
    fits, heads, memory, gpus = judged(
        "r1-distill-qwen-32b",
        saved_facts("8xh100"),
        Config(tp=2),
        Config(tp=3),
        Config(max_model_len=131072),
        Config(tp=16),
    )
    assert fits.skipped is None
    assert heads.skipped is not None
    assert heads.skipped.kind == "planner"
    assert heads.skipped.cause == "impossible: heads: 40 attention heads are not divisible by tp=3"
    assert "--try-all" in heads.skipped.advice
    assert not heads.skipped.retryable
    assert memory.skipped is not None
    assert memory.skipped.cause.startswith("cannot: memory: 61.0 GiB weights")
    assert "of one GPU: 61.0 GiB weights" in memory.skipped.evidence
    assert gpus.skipped is not None
    assert "needs 16 GPUs, there are 8" in gpus.skipped.cause
    assert "more GPUs" in gpus.skipped.advice


def test_what_is_tried_carries_what_is_expected_of_it() -> None:
    (fits,) = judged("llama-3.1-8b", facts_from_words("8x H100"), Config(tp=2, dp=2))
    assert fits.predicted["verdict"] == "fits"
    assert fits.predicted["vllm"] == "0.19.1"
    assert fits.predicted["weights_gib"] == 7.48
    assert fits.predicted["kv_tokens_total"] == 2 * int(str(fits.predicted["kv_tokens"]))
    assert isinstance(fits.predicted["reasons"], list)


def test_all_is_tried_when_asked_but_for_gpus_that_are_not_there() -> None:
    found = judged("r1-distill-qwen-32b", saved_facts("8xh100"), Config(tp=3), Config(tp=16), try_all=True)
    assert [trial.skipped is None for trial in found] == [True, False]
    assert found[0].predicted["verdict"] == "impossible"


def test_what_could_not_be_judged_is_tried() -> None:
    place = Place.of(host("0.19.1"), saved_facts("8xh100"))
    planned = trials(Sweep(name="s", parallel=(Config(tp=3),)), MODEL, [place])
    assert with_verdicts(planned, {}) == planned

"""The plan as a whole: which configurations, which verdict, which are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_cases import architecture, host, only, plan, rules

from fleetbench.errors import UsageError
from fleetbench.facts.values import Missing
from fleetbench.model import Config, Device, Model, Sweep, Workload
from fleetbench.plan.candidates import candidates, every_split
from fleetbench.plan.document import COLUMNS, document, row
from fleetbench.plan.hardware import facts_from_words
from fleetbench.plan.planner import Verdict, plan_sweep

MODEL = Model(name="m", repo="a/m", max_model_len=8192)


def test_all_with_units_is_tp_times_dp_and_units_of_tp() -> None:
    found = plan("llama-3.1-8b", "4x H100", sweep=Sweep(name="s", parallel="all+units"))
    assert [(c.config.tp, c.config.dp, c.config.units) for c in found.candidates] == [
        (1, 1, 1),
        (2, 1, 1),
        (1, 2, 1),
        (4, 1, 1),
        (2, 2, 1),
        (1, 4, 1),
        (1, 1, 2),
        (2, 1, 2),
        (1, 1, 4),
    ]
    assert {c.config.max_model_len for c in found.candidates} == {8192}


def test_all_alone_has_no_units_and_units_alone_are_one_a_gpu() -> None:
    assert {c.config.units for c in plan("llama-3.1-8b", "4x H100").candidates} == {1}
    assert candidates(Sweep(name="s", parallel=("units",)), MODEL, 4) == (
        Config(units=4, max_model_len=8192),
    )


def test_every_split_has_all_five_sizes_and_no_expert_parallelism_without_experts() -> None:
    dense, sparse = every_split(8, moe=False), every_split(8, moe=True)
    assert len(dense) == len(set(dense)) == 30
    assert {config for config in sparse if not config.ep} == set(dense)
    assert all(config.tp * config.dp > 1 for config in sparse if config.ep)
    assert all(config.gpus <= 8 for config in sparse)
    assert Config(tp=2, pp=2, units=2) in dense
    assert Config(tp=2, dp=2, pp=2, ep=True) in sparse
    assert not any(config.dp > 1 and config.units > 1 for config in sparse)


def test_a_plan_can_judge_every_split_at_each_length() -> None:
    sweep = Sweep(name="s", parallel=("tp",), max_model_len=(2048, 8192))
    found = plan("qwen3-coder-30b-a3b", "2x H100", sweep=sweep, every=True)
    assert len(found.candidates) == 2 * len(every_split(2, moe=True))


def test_tight_is_tried_and_cannot_is_not_unless_asked() -> None:
    configs = (Config(), Config(tp=2), Config(tp=3), Config(tp=16))
    for try_all, tried in ((False, [2]), (True, [1, 2, 3])):
        found = plan("r1-distill-qwen-32b", "8x V100 16GB", *configs, try_all=try_all, model=_half(2048))
        assert [c.verdict for c in found.candidates] == [
            Verdict.CANNOT,
            Verdict.CANNOT,
            Verdict.IMPOSSIBLE,
            Verdict.IMPOSSIBLE,
        ]
        assert [c.config.tp for c in found.to_run] == (tried if try_all else [])
        assert all(bool(c.gpus) is c.run for c in found.candidates)
    assert only(plan("gpt-oss-120b", "1x H100", Config())).run


def test_units_are_engines_of_their_own_on_gpus_of_their_own() -> None:
    found = only(plan("qwen3-coder-30b-a3b", "8x H100", Config(tp=2, units=4)))
    assert [str(one) for one in found.gpus] == ["0,1", "2,3", "4,5", "6,7"]
    values = row(found)
    assert values["kv_tokens_total"] == 4 * int(str(values["kv_tokens"]))
    assert found.estimate is not None
    alone = only(plan("qwen3-coder-30b-a3b", "8x H100", Config(tp=2)))
    assert alone.estimate is not None
    assert found.estimate.weights_gib == alone.estimate.weights_gib


def test_expert_parallelism_may_come_by_the_models_arguments() -> None:
    model = replace(MODEL, serve_args=("--enable-expert-parallel",))
    assert only(plan("llama-3.1-8b", "8x H100", Config(tp=2), model=model)).verdict is Verdict.IMPOSSIBLE
    assert only(plan("qwen3-coder-30b-a3b", "8x H100", Config(tp=2), model=model)).verdict is Verdict.FITS


def test_a_model_newer_than_the_hosts_vllm_is_refused() -> None:
    found = only(plan("gpt-oss-120b", "2x H200", Config(tp=2), model=replace(MODEL, min_vllm="0.10.2")))
    assert (found.verdict, rules(found)[0]) == (Verdict.IMPOSSIBLE, "version")


def test_a_load_that_is_longer_than_the_context_is_refused() -> None:
    sweep = Sweep(name="s", parallel=(Config(max_model_len=2048),), workloads=(Workload(input_len=4000),))
    found = only(plan("llama-3.1-8b", "1x H100", sweep=sweep))
    assert (found.verdict, rules(found)[0]) == (Verdict.IMPOSSIBLE, "context")
    custom = replace(sweep, workloads=(Workload(dataset="custom", prompts="p.jsonl", output_len=4000),))
    assert only(plan("llama-3.1-8b", "1x H100", sweep=custom)).verdict is Verdict.FITS


def test_a_load_that_waits_for_the_cache_is_said() -> None:
    load = Workload(num_prompts=10_000, max_concurrency=1000)
    sweep = Sweep(name="s", parallel=(Config(), Config(tp=2)), workloads=(load,))
    starved, enough = plan("qwen3-coder-30b-a3b", "8x H100", sweep=sweep).candidates
    assert "concurrency" in rules(starved)
    assert "concurrency" not in rules(enough)


def test_decisive_reasons_come_first() -> None:
    found = only(plan("qwen3-coder-30b-a3b", "8x H100", Config(dp=8)))
    assert rules(found)[0] == "moe dp warm-up"
    assert "memory" in rules(found)[1:]


def test_hosts_without_gpus_are_judged_by_the_split_alone() -> None:
    facts = replace(facts_from_words("1x H100"), gpus=Missing("nvidia-smi: not found"), host="cpu-01")
    sweep = Sweep(name="s", parallel=(Config(tp=2), Config(tp=3), Config(units=2)))
    machine = host("0.32.0", Device.CPU)
    found = plan_sweep(sweep, MODEL, architecture("llama-3.1-8b"), facts, machine)
    assert [c.verdict for c in found.candidates] == [Verdict.VALID, Verdict.IMPOSSIBLE, Verdict.VALID]
    assert found.gpu_memory_gib is None
    assert "nvidia-smi: not found" in found.notes[0]
    assert row(found.candidates[0])["weights_gib"] is None


def test_gpus_of_several_kinds_are_judged_by_the_smallest() -> None:
    both = (facts_from_words("1x H200").gpus or ()), (facts_from_words("1x RTX 4090").gpus or ())
    gpus = (both[0][0], replace(both[1][0], index=1))
    mixed = replace(facts_from_words("1x H200"), gpus=gpus)
    found = plan("r1-distill-qwen-32b", "", Config(), facts=mixed)
    assert found.gpu == "NVIDIA GeForce RTX 4090"
    assert only(found).verdict is Verdict.CANNOT
    assert "not alike" in found.notes[0]


def test_a_sweep_without_configurations_is_refused() -> None:
    with pytest.raises(UsageError, match="has no configuration"):
        plan("llama-3.1-8b", "1x H100", sweep=Sweep(name="s", parallel=()))


def test_the_document_has_the_keys_that_programs_read() -> None:
    found = document(plan("llama-3.1-8b", "2x H100"))
    rows = found["candidates"]
    assert isinstance(rows, list)
    assert all(tuple(one) == COLUMNS for one in rows)
    assert {"tp", "dp", "pp", "ep", "units", "verdict", "reasons", "weights_gib", "kv_tokens"} <= set(COLUMNS)


def _half(length: int) -> Model:
    return replace(MODEL, max_model_len=length, serve_args=("--dtype", "half", "--enforce-eager"))

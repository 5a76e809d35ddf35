"""Which splits are refused, by which rule, with which numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_cases import architecture, host, only, plan, rules

from fleetbench.model import Build, Config, Device
from fleetbench.plan.architecture import Latent
from fleetbench.plan.arguments import read_arguments
from fleetbench.plan.divisibility import split_reasons
from fleetbench.plan.gates import gate_reasons, gates
from fleetbench.plan.hardware import facts_from_words, hardware_reasons
from fleetbench.plan.planner import Verdict
from fleetbench.plan.quantisation import Quantisation
from fleetbench.plan.reason import Effect
from fleetbench.vllm_features import parse_version

FP8 = Quantisation(method="fp8", bits=8.0, block=(128, 128))
AWQ = Quantisation(method="awq", bits=4.15, group=128, minimum_capability="7.5")


def refused(name: str, config: Config, gpus: int = 16, **changed: object) -> list[str]:
    """The texts of the rules that refuse a split of a saved model."""
    shape = architecture(name, **changed)
    return [str(r) for r in split_reasons(shape, config, gpus) if r.effect is Effect.IMPOSSIBLE]


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("r1-distill-qwen-1.5b", Config(tp=8), "heads: 12 attention heads are not divisible by tp=8"),
        ("qwen2.5-7b", Config(tp=3), "heads: 28 attention heads are not divisible by tp=3"),
        ("llama-3.2-3b", Config(tp=12), "kv heads: 8 KV heads and tp=12: neither divides the other"),
        ("llama-3.1-8b", Config(pp=33), "pp: pp=33 is more than the 32 layers"),
        ("llama-3.1-8b", Config(tp=2, ep=True), "ep: the model has no experts"),
        (
            "llama-3.1-8b",
            Config(max_model_len=200_000),
            "context: max-model-len 200000 is more than",
        ),
        ("qwen3-coder-30b-a3b", Config(dp=5), "moe: moe_intermediate_size 768 is not divisible by tp×dp=5"),
        ("qwen3-coder-30b-a3b", Config(tp=4, dp=5), "gpus: tp=4×dp=5×pp=1 needs 20 GPUs, there are 16"),
        ("llama-3.1-8b", Config(tp=4, units=8), "gpus: tp=4×dp=1×pp=1×units=8 needs 32 GPUs, there are 16"),
    ],
)
def test_a_split_that_vllm_refuses_is_refused_with_its_numbers(name: str, config: Config, said: str) -> None:
    assert any(text.startswith(said) for text in refused(name, config)), refused(name, config)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("qwen3-coder-30b-a3b", Config(tp=8)),  # 4 KV heads are repeated
        ("qwen3-coder-30b-a3b", Config(dp=8)),
        ("qwen3-coder-30b-a3b", Config(tp=2, dp=4, ep=True)),
        ("gpt-oss-120b", Config(tp=8)),  # 2880 is rounded up to whole blocks
        ("llama-3.1-8b", Config(pp=5)),  # 32 layers, uneven
        ("r1-distill-qwen-32b", Config(tp=8)),
        ("r1-distill-qwen-1.5b", Config(tp=4)),
    ],
)
def test_a_split_that_vllm_takes_is_not_refused(name: str, config: Config) -> None:
    assert refused(name, config) == []


def test_repeated_kv_heads_and_uneven_stages_are_only_said() -> None:
    shape = architecture("qwen3-coder-30b-a3b")
    found = split_reasons(shape, Config(tp=8, pp=5), 40)
    assert [(r.rule, r.effect) for r in found] == [("pp", Effect.REMARK), ("kv heads", Effect.REMARK)]
    assert "each is kept 2 times" in found[1].text


@pytest.mark.parametrize(("ranks", "fine"), [(1, True), (2, True), (4, False), (8, False)])
def test_fp8_blocks_divide_experts_by_tp_times_dp(ranks: int, fine: bool) -> None:
    for config in (Config(tp=ranks), Config(dp=ranks)):
        found = [t for t in refused("qwen3-coder-30b-a3b", config, quantisation=FP8) if "moe_inter" in t]
        assert (found == []) is fine, config
    assert refused("qwen3-coder-30b-a3b", Config(dp=8, ep=True), quantisation=FP8) == []


def test_fp8_blocks_divide_dense_layers_by_tp() -> None:
    assert refused("r1-distill-qwen-32b", Config(tp=2), quantisation=FP8) == []
    assert refused("r1-distill-qwen-1.5b", Config(tp=4), quantisation=FP8) == [
        "fp8 block: the MLP's width 8960 over tp=4 is 2240, not a multiple of 128"
    ]


def test_marlin_kernels_want_whole_tiles_and_groups() -> None:
    assert refused("llama-3.1-8b", Config(tp=8), quantisation=AWQ) == []
    assert refused("qwen2.5-7b", Config(tp=4), quantisation=AWQ) == []
    (said,) = refused("r1-distill-qwen-1.5b", Config(tp=4), quantisation=AWQ)
    assert (
        said
        == "marlin: the MLP's inner width 8960 over tp=4 is 2240, not a multiple of 128 (group size, tile)"
    )


def test_latent_attention_has_no_kv_heads_to_divide() -> None:
    shape = architecture("qwen3-coder-30b-a3b", kv_heads=7)
    latent = Latent(kv_rank=512, q_rank=0, rope_dim=64, nope_dim=128, value_dim=128)
    assert refused("qwen3-coder-30b-a3b", Config(tp=4), kv_heads=7)
    found = split_reasons(replace(shape, latent=latent), Config(tp=4), 8)
    assert [r.effect for r in found if r.rule == "kv heads"] == [Effect.REMARK]


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("0.10.1.1", Verdict.IMPOSSIBLE),
        ("0.11.0", Verdict.IMPOSSIBLE),
        ("0.11.1", Verdict.FITS),
        ("0.25.1", Verdict.FITS),
    ],
)
def test_gpt_oss_with_data_parallelism_depends_on_the_version(version: str, verdict: Verdict) -> None:
    found = only(plan("gpt-oss-120b", "8x H200", Config(dp=2), version=version))
    assert found.verdict is verdict
    assert ("gpt-oss dp" in rules(found)) is (verdict is Verdict.IMPOSSIBLE)
    assert only(plan("gpt-oss-120b", "8x H200", Config(tp=2), version=version)).verdict is Verdict.FITS


def test_gpt_oss_in_16_bit_with_data_parallelism_is_doubted_in_every_version() -> None:
    shape = architecture("gpt-oss-120b", quantisation=None)
    (found,) = gate_reasons(shape, Config(dp=2), parse_version("0.33.0"), 10.0)
    assert (found.rule, found.effect) == ("gpt-oss bf16 dp", Effect.DOUBT)


def test_lock_step_of_dense_models_is_said_up_to_0_13() -> None:
    shape = architecture("llama-3.1-8b")
    old, new = (gate_reasons(shape, Config(dp=4), parse_version(v), 8.0) for v in ("0.13.0", "0.14.0"))
    assert [(r.effect, "units=4" in r.text) for r in old] == [(Effect.REMARK, True)]
    assert new == ()


def test_every_gate_can_be_printed() -> None:
    known = {"version": "1", "tp": 1, "dp": 1, "headroom": "1"}
    assert all(gate.text.format(**known) and Effect(gate.effect) for gate in gates())
    assert len({gate.name for gate in gates()}) == len(gates())


@pytest.mark.parametrize(
    ("name", "words", "version", "arguments", "rule"),
    [
        ("llama-3.1-8b", "1x V100 16GB", "0.10.1.1", (), "dtype"),
        ("llama-3.1-8b", "1x V100 16GB", "0.25.1", ("--dtype", "half"), "capability"),
        ("gpt-oss-120b", "8x V100 16GB", "0.10.1.1", ("--dtype=half",), "quantisation"),
    ],
)
def test_a_gpu_that_cannot_compute_it_is_refused(
    name: str, words: str, version: str, arguments: tuple[str, ...], rule: str
) -> None:
    gpus = facts_from_words(words).gpus
    assert gpus
    found = hardware_reasons(
        architecture(name), read_arguments(arguments), gpus[0], host(version).build, parse_version(version)
    )
    assert [reason.rule for reason in found] == [rule]


def test_cuda_rules_are_not_asked_of_other_gpus() -> None:
    gpus = facts_from_words("1x MI210").gpus
    assert gpus
    build = Build(name="b", version="0.25.1", device=Device.ROCM)
    assert (
        hardware_reasons(
            architecture("llama-3.1-8b"), read_arguments(()), gpus[0], build, parse_version("0.25.1")
        )
        == ()
    )

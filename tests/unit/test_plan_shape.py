"""config.json to shape, and shape to bytes: real models' numbers, odd forms, hostile files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import architecture

from fleetbench.errors import Unreadable
from fleetbench.model import Config
from fleetbench.plan.architecture import Architecture, read_architecture
from fleetbench.plan.weights import count, share

SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def read(**changed: Any) -> Architecture:
    """Read the small model with some keys replaced; None removes one."""
    values = {name: value for name, value in {**SMALL, **changed}.items() if value is not None}
    return read_architecture(json.dumps(values))


# Parameters as the publishers count them; the small difference is in norms, which are counted by two a layer.
PARAMETERS = {
    "qwen3-coder-30b-a3b": 30_532_122_624,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-3b": 3_212_749_824,
    "qwen2.5-7b": 7_615_616_512,
    "r1-distill-qwen-1.5b": 1_777_088_000,
    "r1-distill-qwen-32b": 32_763_876_352,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_count_agrees_with_the_published_number_of_parameters(name: str) -> None:
    assert count(architecture(name)).total / 2 == pytest.approx(PARAMETERS[name], rel=1e-4)


def test_gpt_oss_is_counted_in_its_four_bits_and_padded_as_its_kernels_do() -> None:
    shape = architecture("gpt-oss-120b")
    assert count(shape).total == pytest.approx(65.25e9, rel=1e-3)
    # vLLM 0.10.1 with Marlin on an H100: "Model loading took 65.9651 GiB" (vllm-project/vllm#23278).
    assert share(count(shape), shape, Config()).total / 2**30 == pytest.approx(65.9651, rel=2e-3)


def test_what_a_real_server_says_its_weights_take() -> None:
    # vLLM 0.25.1 on H200: 14.29 GiB, 56.93 GiB, and 28.51 GiB on each of two.
    for name, config, loaded in (
        ("qwen2.5-7b", Config(), 14.29),
        ("qwen3-coder-30b-a3b", Config(), 56.93),
        ("qwen3-coder-30b-a3b", Config(tp=2), 28.51),
    ):
        shape = architecture(name)
        assert share(count(shape), shape, config).total / 2**30 == pytest.approx(loaded, rel=0.01)


def test_experts_are_divided_by_tp_and_dp_and_the_rest_by_tp_only() -> None:
    shape = architecture("qwen3-coder-30b-a3b")
    weights = count(shape)
    alone, ranks = share(weights, shape, Config()), share(weights, shape, Config(dp=8))
    assert ranks.whole == alone.whole
    assert ranks.experts == pytest.approx(alone.experts / 8, rel=1e-6)
    assert share(weights, shape, Config(dp=8, ep=True)).experts == ranks.experts
    dense = architecture("llama-3.1-8b")
    assert share(count(dense), dense, Config(dp=8)).total == count(dense).total


def test_experts_that_do_not_divide_leave_one_more_on_the_fullest_gpu() -> None:
    shape = architecture("qwen3-coder-30b-a3b")
    three = share(count(shape), shape, Config(tp=3, ep=True)).experts
    assert three / count(shape).experts == pytest.approx(43 / 128, rel=1e-6)


def test_the_first_and_the_last_stage_of_a_pipeline_hold_an_embedding_each() -> None:
    shape = architecture("llama-3.2-3b")  # one tensor for both, which two stages hold twice
    weights = count(shape)
    assert weights.head == 0
    two = share(weights, shape, Config(pp=2)).total
    assert two == pytest.approx(weights.embedding + (weights.total - weights.embedding) / 2, rel=1e-3)


def test_the_index_of_the_weights_knows_better_than_the_count() -> None:
    counted = count(read()).total
    index = {"metadata": {"total_size": counted + 10**9}, "weight_map": {}}
    whole = read_architecture(json.dumps(SMALL), json.dumps(index))
    assert (count(whole).total, count(whole).other) == (counted + 10**9, 10**9)
    smaller = read_architecture(json.dumps(SMALL), json.dumps({"metadata": {"total_size": counted // 2}}))
    assert count(smaller).total == pytest.approx(counted / 2, rel=1e-6)


def test_half_and_single_precision_change_the_bytes() -> None:
    shape = read()
    assert count(shape, "half").total == count(shape).total
    assert count(shape, "float32").total == 2 * count(shape).total


def test_the_language_model_of_a_model_that_sees_lies_one_level_down() -> None:
    text = {name: value for name, value in SMALL.items() if name != "architectures"}
    nested = {"architectures": ["SeesForConditionalGeneration"], "vision_config": {}, "text_config": text}
    shape = read_architecture(json.dumps(nested))
    assert (shape.name, shape.layers, shape.hidden) == ("SeesForConditionalGeneration", 4, 1024)
    assert "vision" in shape.notes[0]
    assert read_architecture(json.dumps(nested), '{"metadata": {"total_size": 5000000000}}').notes == ()


def test_latent_attention_is_read_with_its_ranks() -> None:
    shape = read(
        model_type="deepseek_v3",
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        n_routed_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        n_shared_experts=1,
        first_k_dense_replace=3,
    )
    assert shape.latent is not None
    assert (shape.latent.kv_rank, shape.latent.rope_dim) == (512, 64)
    assert shape.experts is not None
    assert (shape.experts.layers, shape.dense_layers, shape.experts.shared) == (1, 3, 2048)


@pytest.mark.parametrize(
    ("changed", "window", "sliding"),
    [
        ({"sliding_window": 4096}, 4096, 4),
        ({"sliding_window": 4096, "use_sliding_window": False}, None, 0),
        ({"sliding_window": 4096, "sliding_window_pattern": 2}, 4096, 2),
        ({"sliding_window": 4096, "model_type": "gemma2"}, 4096, 2),
        ({"sliding_window": 512, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, 512, 3),
        ({"sliding_window": None}, None, 0),
    ],
)
def test_sliding_windows_are_found_however_they_are_written(
    changed: dict[str, Any], window: int | None, sliding: int
) -> None:
    shape = read(**changed)
    assert (shape.window, shape.sliding_layers) == (window, sliding)


def test_layers_without_attention_keep_no_tokens_and_are_said_to_be_guessed() -> None:
    shape = read(layer_types=["linear_attention"] * 3 + ["full_attention"])
    assert shape.cached_layers == 1
    assert "3 layers without attention" in shape.notes[0]


def test_scaled_positions_are_as_long_as_vllm_derives_them() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    assert read(rope_scaling=yarn).max_positions == 16384
    assert read(rope_scaling={"rope_type": "llama3", "factor": 8.0}).max_positions == 4096
    assert architecture("gpt-oss-120b").max_positions == 131072


@pytest.mark.parametrize(
    ("config", "method", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8.002),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 4.156),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq", 8.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4.5),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}, "modelopt_fp4", 4.5),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}},
            },
            "compressed-tensors",
            4.125,
        ),
        ({"quant_method": "something-new"}, "something-new", 16.0),
    ],
)
def test_quantisation_is_read_in_its_forms(config: dict[str, Any], method: str, bits: float) -> None:
    found = read(quantization_config=config).quantisation
    assert found is not None
    assert (found.method, found.bits) == (method, pytest.approx(bits, abs=1e-3))


def test_quantised_weights_are_smaller_but_embeddings_are_not() -> None:
    plain, packed = count(read()), count(read(quantization_config={"quant_method": "fp8"}))
    assert packed.embedding == plain.embedding
    assert packed.attention == plain.attention // 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "holds no object"),
        ("null", "holds no object"),
        ("[" * 100_000, "not JSON"),
        ("{}", "has no num_hidden_layers"),
        ('{"num_hidden_layers": true}', "num_hidden_layers is not a whole number"),
        ('{"num_hidden_layers": -4}', "num_hidden_layers is not a whole number"),
        ('{"num_hidden_layers": 1e400}', "num_hidden_layers is not a whole number"),
        ('{"num_hidden_layers": 99999999999999}', "num_hidden_layers is not a whole number"),
        ('{"text_config": 7}', "text_config is not an object"),
        ('{"is_encoder_decoder": true}', "encoder-decoder"),
    ],
)
def test_a_file_that_is_no_language_model_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said) as caught:
        read_architecture(text)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    "changed",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": 4096},  # more than hidden_size: no head would have a width
        {"torch_dtype": "int3\x1b[31m"},
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 0]}},
        {"num_experts": 8, "decoder_sparse_step": 0},
        {"rope_scaling": {"rope_type": "yarn", "factor": "four"}},
        {"layer_types": [1, 2]},
    ],
)
def test_a_value_that_cannot_be_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(Unreadable) as caught:
        read(**changed)
    assert "\x1b" not in str(caught.value)


def test_an_index_without_a_size_is_refused() -> None:
    for index in ("{}", '{"metadata": {"total_size": "9"}}', '{"metadata": {"total_size": -1}}'):
        with pytest.raises(Unreadable, match="total_size"):
            read_architecture(json.dumps(SMALL), index)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
)


@given(
    st.dictionaries(
        st.sampled_from([*SMALL, "num_experts", "sliding_window", "kv_lora_rank", "head_dim"]), VALUES
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(changed: dict[str, Any]) -> None:
    try:
        shape = read_architecture(json.dumps({**SMALL, **changed}))
    except Unreadable:
        return
    assert count(shape).total >= 0

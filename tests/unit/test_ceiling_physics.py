"""The physics of a ceiling: a table that was computed elsewhere, laws, and real rows of an H200 below it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import architecture

from fleetbench.ceiling.limits import Ceiling, Load, Peaks, ceiling, least_token_s, room, strict_output_tps
from fleetbench.ceiling.models import architecture_named
from fleetbench.ceiling.peaks import most, peaks
from fleetbench.model import Config
from fleetbench.plan.arguments import ServeArguments
from fleetbench.plan.hardware import card_named
from fleetbench.plan.work import Work, coverage, least_work, parameters_of, work

GB = 10**9
# Memory as it is sold, which the published table divides.
SOLD = {
    "A100 80GB SXM": 80,
    "H100 PCIe": 80,
    "H100 SXM": 80,
    "H200": 141,
    "RTX 4090": 24,
    "MI210": 64,
    "B200": 180,
}
# Weights and operations as that table rounds them; attention has 4 × layers × heads × head width.
MODELS = {
    "llama": (
        Work(dense_bytes=16.06e9, kv_bytes=131_072, token_flop=16.06e9, attention_flop=4 * 32 * 4096),
        16.06e9,
    ),
    "qwen": (
        Work(
            dense_bytes=3.12e9,
            expert_bytes=57.98e9,
            expert_share=8 / 128,
            kv_bytes=98_304,
            token_flop=6.6e9,
            attention_flop=4 * 48 * 4096,
        ),
        61.1e9,
    ),
    # Half of its layers keep 128 tokens only: 36,864 bytes count at length. 60.9 GB are experts.
    "gpt-oss": (
        Work(
            dense_bytes=4.1e9,
            expert_bytes=60.9e9,
            expert_share=4 / 128,
            kv_bytes=36_864,
            token_flop=10.2e9,
            attention_flop=4 * 36 * 4096,
        ),
        65e9,
    ),
}


def card_peaks(gpu: str) -> Peaks:
    card = card_named(gpu)
    assert card is not None
    return peaks(card, architecture("llama-3.1-8b"))


def fits(model: str, gpu: str) -> float:
    given, weights = MODELS[model]
    return room(SOLD[gpu] * GB, 0.9, weights, 2048 * given.kv_bytes)


def computed(model: str, gpu: str, concurrency: int) -> Ceiling:
    in_flight = min(concurrency, fits(model, gpu))
    return ceiling(
        MODELS[model][0], card_peaks(gpu), Load(in_flight=in_flight, input_len=1024, output_len=1024)
    )


# Output tok/s of one GPU, prompts and answers of 1,024 tokens, nothing overlapped, 90 % of the memory.
SERIAL = [
    ("llama", 64, "A100 80GB SXM", 3648),
    ("llama", 64, "H100 PCIe", 4037),
    ("llama", 64, "H100 SXM", 6600),
    ("llama", 64, "H200", 9031),
    ("llama", 64, "RTX 4090", 934),
    ("llama", 64, "MI210", 2730),
    ("llama", 64, "B200", 15676),
    ("qwen", 64, "A100 80GB SXM", 1577),
    ("qwen", 64, "H100 PCIe", 1580),
    ("qwen", 64, "H100 SXM", 2636),
    ("qwen", 64, "H200", 4266),
    ("qwen", 64, "B200", 7168),
    ("gpt-oss", 256, "A100 80GB SXM", 2575),
    ("gpt-oss", 256, "H100 PCIe", 2664),
    ("gpt-oss", 256, "H100 SXM", 4416),
    ("gpt-oss", 256, "H200", 13281),
    ("gpt-oss", 256, "B200", 23002),
]


@pytest.mark.parametrize(("model", "concurrency", "gpu", "tps"), SERIAL)
def test_the_serial_estimate_is_that_of_the_computed_table(
    model: str, concurrency: int, gpu: str, tps: float
) -> None:
    assert computed(model, gpu, concurrency).serial_output_tps == pytest.approx(tps, rel=5e-4)


# One stream, at a context of 1,024 tokens.
ONE_STREAM = {
    "llama": dict(zip(SOLD, (126, 124, 207, 296, 62, 101, 494), strict=True)),
    "qwen": {"A100 80GB SXM": 298, "H100 PCIe": 292, "H100 SXM": 490, "H200": 701, "B200": 1169},
    "gpt-oss": {"A100 80GB SXM": 338, "H100 PCIe": 332, "H100 SXM": 556, "H200": 796, "B200": 1327},
}


@pytest.mark.parametrize("model", ONE_STREAM)
def test_one_stream_is_as_fast_as_its_weights_are_read(model: str) -> None:
    load = Load(in_flight=1, input_len=1024, output_len=1024, context_len=512)
    for gpu, tps in ONE_STREAM[model].items():
        found = ceiling(MODELS[model][0], card_peaks(gpu), load).decode_tps
        assert found == pytest.approx(tps, rel=3e-3, abs=0.5), gpu


@pytest.mark.parametrize(
    ("gpu", "short", "long"),
    [
        ("A100 80GB SXM", 19.1e3, 12.7e3),
        ("H100 PCIe", 46.3e3, 30.7e3),
        ("H100 SXM", 60.6e3, 40.1e3),
        ("H200", 60.6e3, 40.1e3),
        ("RTX 4090", 10.1e3, 6.7e3),
        ("MI210", 11.1e3, 7.3e3),
        ("B200", 137.8e3, 91.3e3),
    ],
)
def test_prefill_slows_down_with_the_length_of_the_prompt(gpu: str, short: float, long: float) -> None:
    for length, tps in ((1024, short), (32 * 1024, long)):
        load = Load(in_flight=1, input_len=length, output_len=1)
        assert ceiling(MODELS["llama"][0], card_peaks(gpu), load).prefill_tps == pytest.approx(tps, rel=6e-3)


def test_how_many_requests_fit_is_that_of_the_computed_table() -> None:
    assert round(fits("llama", "RTX 4090")) == 21
    assert round(fits("qwen", "H100 SXM")) == 54
    assert round(fits("gpt-oss", "H100 SXM")) == 93
    assert fits("qwen", "RTX 4090") == 0


@pytest.mark.parametrize(
    ("name", "model", "active"),
    [
        ("llama-3.1-8b", "llama", 8.03e9),
        ("qwen3-coder-30b-a3b", "qwen", 3.3e9),
        ("gpt-oss-120b", "gpt-oss", 5.1e9),
    ],
)
def test_a_config_gives_the_figures_that_the_table_was_computed_from(
    name: str, model: str, active: float
) -> None:
    found, given = work(architecture(name), Config(), ServeArguments()), MODELS[model][0]
    assert found.expert_bytes == pytest.approx(given.expert_bytes, rel=5e-3)
    assert found.dense_bytes == pytest.approx(given.dense_bytes, rel=0.07)
    assert found.kv_bytes == given.kv_bytes
    assert found.expert_share == given.expert_share
    assert found.token_flop == pytest.approx(2 * active, rel=0.15)
    assert found.attention_flop + found.window_attention_flop == given.attention_flop


def test_experts_that_are_read_grow_with_the_batch() -> None:
    share = 8 / 128
    assert coverage(1, share) == share
    assert coverage(4, share) == pytest.approx(0.23, abs=5e-3)
    assert coverage(16, share) == pytest.approx(0.64, abs=5e-3)
    assert coverage(64, share) == pytest.approx(0.98, abs=5e-3)
    assert coverage(5, 1.0) == 1


def test_tensor_parallel_divides_reading_and_arithmetic_and_adds_two_reduces_a_layer() -> None:
    shape = architecture("llama-3.1-8b")
    one, four = (work(shape, Config(tp=tp), ServeArguments()) for tp in (1, 4))
    assert four.dense_bytes == pytest.approx(one.dense_bytes / 4)
    assert four.token_flop == pytest.approx(one.token_flop / 4)
    assert four.kv_bytes == one.kv_bytes / 4
    assert one.link_bytes == 0
    assert four.link_bytes == 2 * 32 * 4096 * 2 * 2 * 3 / 4


def test_more_gpus_than_kv_heads_copy_keys_and_values() -> None:
    shape = architecture("qwen3-coder-30b-a3b")  # four of them
    four, eight = (work(shape, Config(tp=tp), ServeArguments()) for tp in (4, 8))
    assert eight.kv_bytes == four.kv_bytes


def test_data_parallel_is_as_many_times_as_fast_and_shares_its_experts() -> None:
    dense, arguments = architecture("llama-3.1-8b"), ServeArguments()
    load = Load(in_flight=64, input_len=1024, output_len=1024)
    one = ceiling(work(dense, Config(), arguments), card_peaks("H100 SXM"), load)
    four = ceiling(
        work(dense, Config(dp=4), arguments),
        card_peaks("H100 SXM"),
        Load(in_flight=256, input_len=1024, output_len=1024),
        dp=4,
    )
    assert four.output_tps == pytest.approx(4 * one.output_tps)
    experts = architecture("qwen3-coder-30b-a3b")
    assert work(experts, Config(dp=4), arguments).expert_bytes * 4 == pytest.approx(57.98e9, rel=1e-3)


def test_a_pipeline_adds_room_and_arithmetic_but_reads_its_weights_as_slowly() -> None:
    shape, arguments = architecture("llama-3.1-8b"), ServeArguments()
    one, two = (work(shape, Config(pp=pp), arguments) for pp in (1, 2))
    assert two.dense_bytes == one.dense_bytes
    assert (two.kv_bytes, two.token_flop) == (one.kv_bytes / 2, one.token_flop / 2)


def test_ranks_without_a_request_add_nothing() -> None:
    given = MODELS["llama"][0]
    load = Load(in_flight=1, input_len=128, output_len=128)
    alone = ceiling(given, card_peaks("H200"), load)
    assert ceiling(given, card_peaks("H200"), load, dp=8).output_tps == alone.output_tps
    assert ceiling(given, card_peaks("H200"), load, units=8).output_tps == alone.output_tps


def test_the_shares_of_decode_and_prefill_add_up_to_that_of_the_serial_estimate() -> None:
    found = computed("llama", "H200", 64)
    rate = 5000.0
    shares = rate / found.decode_tps + rate * found.load.input_len / found.load.output_len / found.prefill_tps
    assert shares == pytest.approx(rate / found.serial_output_tps)


POSITIVE = st.floats(1, 1e4, allow_nan=False)


@given(
    name=st.sampled_from(["llama-3.1-8b", "qwen3-coder-30b-a3b", "gpt-oss-120b", "r1-distill-qwen-1.5b"]),
    gpu=st.sampled_from(list(SOLD)),
    in_flight=st.integers(1, 2000),
    lengths=st.tuples(st.integers(1, 30_000), st.integers(1, 5_000)),
    sizes=st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 2, 1), (1, 4, 1), (2, 1, 2), (1, 8, 1)]),
    units=st.sampled_from([1, 3]),
)
def test_no_estimate_is_above_the_strict_ceiling(
    name: str,
    gpu: str,
    in_flight: int,
    lengths: tuple[int, int],
    sizes: tuple[int, int, int],
    units: int,
) -> None:
    shape, card = architecture(name), card_named(gpu)
    assert card is not None
    tp, dp, pp = sizes
    config = Config(tp=tp, dp=dp, pp=pp, units=units)
    load = Load(in_flight=in_flight, input_len=lengths[0], output_len=lengths[1])
    found = ceiling(work(shape, config, ServeArguments()), peaks(card, shape), load, dp=dp, units=units)
    strict = strict_output_tps(
        least_work(shape, config, ServeArguments()),
        most(card, narrow=shape.quantisation is not None),
        load,
        ranks=dp * units,
    )
    assert 0 < found.serial_output_tps <= found.output_tps * (1 + 1e-9)
    assert math.isfinite(found.output_tps)
    # With one token out, all of it is prefill: both are then the arithmetic of the prompt.
    assert found.output_tps <= strict * 1.001 or strict == 0


def test_a_model_that_lies_in_the_cache_has_no_floor() -> None:
    tiny = Work(dense_bytes=10e6, token_flop=1e7)
    card = card_named("H200")
    assert card is not None
    assert least_token_s(tiny, most(card, narrow=False)) == 0
    floor = least_token_s(MODELS["llama"][0], most(card, narrow=False))
    assert floor == pytest.approx((16.06e9 - 50 * 2**20) / 4917e9)


def test_a_published_time_per_token_is_below_what_reading_the_weights_takes() -> None:
    # A table had a 9B model at 0.12 ms a token on an H100: the weights alone take 5 ms.
    nine = Work(dense_bytes=18e9)
    card = card_named("H100 80GB")
    assert card is not None
    assert least_token_s(nine, most(card, narrow=False)) > 40 * 0.12e-3


def test_models_are_known_by_name_and_nothing_is_guessed() -> None:
    for name, saved in (
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("/models/qwen3-coder-30b-a3b-instruct/", "qwen3-coder-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "r1-distill-qwen-1.5b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "r1-distill-qwen-32b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
    ):
        assert architecture_named(name) == architecture(saved)
    for name in ("Qwen3-Coder-30B-A3B-Instruct-FP8", "Llama-3.1-8B-AWQ", "", "/", "x" * 10_000):
        assert architecture_named(name) is None


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Mistral-7B-v0.3", 7.25e9),
        ("Llama-3.1-70B", 70.55e9),
        ("gpt-oss-20b", 20.9e9),
        ("Qwen3-8B", 8.19e9),
        ("gemma-3-4b-it", 3.88e9),  # and 0.42 of its eyes
    ],
)
def test_the_shapes_of_the_table_have_the_published_number_of_parameters(
    name: str, parameters: float
) -> None:
    shape = architecture_named(name)
    assert shape is not None
    assert parameters_of(shape).total == pytest.approx(parameters, rel=5e-3)

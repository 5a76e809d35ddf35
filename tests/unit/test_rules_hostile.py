"""Whatever the numbers are, rules answer with findings that can be stored and shown, and never raise."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some
from judged_rows import TRIAL

from fleetbench.model import Config, Workload
from fleetbench.results.rows import TrialRow
from fleetbench.results.rules.case import Asked
from fleetbench.results.samples import samples_of
from fleetbench.results.values import BenchResult
from fleetbench.results.verdict import Foreign, judge, judge_foreign

WHOLE = some.one_of(some.none(), some.integers(0, 10), some.integers(0, 10**18))
REAL = some.one_of(some.none(), some.floats(), some.integers(0, 10**18), some.just(0.0))
NAMES = [
    f"{kind}_{name}_ms"
    for kind in ("mean", "median", "p99", "min")
    for name in ("ttft", "tpot", "itl", "e2el")
]
RESULTS = some.builds(
    BenchResult,
    completed=WHOLE,
    failed=WHOLE,
    num_prompts=WHOLE,
    max_concurrency=WHOLE,
    duration=REAL,
    total_input_tokens=WHOLE,
    total_output_tokens=WHOLE,
    request_throughput=REAL,
    output_throughput=REAL,
    total_token_throughput=REAL,
    max_output_tokens_per_s=REAL,
    latencies=some.dictionaries(some.one_of(some.sampled_from(NAMES), some.text(max_size=20)), some.floats()),
)
KEYS = some.sampled_from(
    [
        *("window_s", "client_cpu_cores_mean", "queue_s_mean", "prefill_s_mean", "decode_s_mean"),
        *("longest_stall_s", "gpu_throttled_share", "gpu_throttle_reasons", "gpu_xid", "clock_offset_ms"),
        *("missed_samples", "samples", "finished_error", "preemptions", "of_strict_percent"),
    ]
)
TELEMETRY = some.dictionaries(KEYS, some.one_of(some.none(), some.booleans(), some.floats(), some.text()))
WORKLOADS = some.builds(
    Workload,
    dataset=some.sampled_from(["random", "custom", "sharegpt"]),
    input_len=some.integers(0, 10**6),
    output_len=some.integers(0, 10**6),
    num_prompts=some.integers(0, 10**9),
    max_concurrency=some.one_of(some.none(), some.integers(1, 10**9)),
    request_rate=some.one_of(some.none(), some.floats(min_value=1e-9, max_value=1e9)),
    extra_args=some.lists(some.sampled_from(["--random-prefix-len", "9" * 30, "--burstiness=2"])).map(tuple),
)
ANYTHING = some.one_of(
    some.none(), some.floats(), some.text(max_size=3), some.integers(), some.lists(some.floats())
)
COLUMN = some.lists(ANYTHING, max_size=4)
SAMPLES = some.fixed_dictionaries(
    {"ttfts": COLUMN, "output_lens": COLUMN, "itls": some.lists(some.lists(some.floats()), max_size=4)},
    optional={"start_times": COLUMN, "latencies": COLUMN, "errors": COLUMN},
).map(samples_of)
EFFECTIVE = some.dictionaries(some.sampled_from(["tp", "dp", "max_model_len", "enforce_eager"]), ANYTHING)


POSITIVE = some.one_of(some.none(), some.integers(1, 10**9))
ASKED = some.builds(
    Asked,
    num_prompts=WHOLE,
    max_concurrency=POSITIVE,
    request_rate=REAL,
    input_len=POSITIVE,
    output_len=POSITIVE,
    ignore_eos=some.booleans(),
    max_model_len=POSITIVE,
    context_varied=some.booleans(),
)


def storable(judgement: object) -> None:
    for finding in judgement.findings:  # type: ignore[attr-defined]
        assert "\n" not in finding.text
        assert len(finding.text) <= 400
        numbers = json.loads(json.dumps(dict(finding.numbers)))
        assert all(isinstance(value, int | float) and math.isfinite(value) for value in numbers.values())


@given(RESULTS, WORKLOADS, TELEMETRY, TELEMETRY, SAMPLES, EFFECTIVE)
def test_rows_of_our_own_never_break_a_rule(
    result: BenchResult,
    workload: Workload,
    telemetry: dict[str, object],
    ceiling: dict[str, object],
    samples: object,
    effective: dict[str, object],
) -> None:
    trial: TrialRow = replace(
        TRIAL, effective=effective, config=Config(max_model_len=workload.input_len or None)
    )  # type: ignore[arg-type]
    storable(
        judge(
            result,
            workload,
            client_program="python",
            telemetry=telemetry,  # type: ignore[arg-type]
            ceiling=ceiling,  # type: ignore[arg-type]
            samples=samples,  # type: ignore[arg-type]
            trial=trial,
        )
    )


@given(RESULTS, ASKED, TELEMETRY, REAL)
def test_rows_of_others_never_break_a_rule(
    result: BenchResult, asked: Asked, ceiling: dict[str, object], rate: float | None
) -> None:
    storable(
        judge_foreign(
            Foreign(
                result=result,
                asked=asked,
                ceiling=ceiling,  # type: ignore[arg-type]
                client_program="python",
                request_output_tps=rate,
            )
        )
    )

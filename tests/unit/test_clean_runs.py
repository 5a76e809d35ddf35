"""Sound runs of many shapes, on calm and on busy hosts, raise no alarm."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from simulated_runs import Shape, run_of, shape_of

from fleetbench.model import Workload
from fleetbench.results.parse import parse
from fleetbench.results.rows import Judgement, Verdict
from fleetbench.results.samples import read_samples
from fleetbench.results.verdict import judge

SHAPES = 40


def judged(shape: Shape, seed: int) -> Judgement:
    """Judge a simulated run as our own, with its samples and with counters that agree."""
    text = run_of(shape, seed)
    (block,) = parse(text)
    raw = json.loads(text)
    workload = Workload(
        input_len=shape.input_len,
        output_len=shape.output_len,
        num_prompts=shape.num_prompts,
        max_concurrency=shape.max_concurrency,
    )
    telemetry = {
        "window_s": raw["duration"],
        "server_requests": shape.num_prompts,
        "server_prompt_tokens": raw["total_input_tokens"],
        "server_generation_tokens": raw["total_output_tokens"],
        "finished_length": shape.num_prompts,
        "finished_error": 0,
        "missed_samples": 0,
        "samples": int(raw["duration"]),
        "clock_offset_ms": 0.0,
    }
    return judge(
        block.result,
        workload,
        complete=block.complete,
        exit_status=0,
        client_program="python, preloaded",
        telemetry=telemetry,
        samples=read_samples(text),
    )


@pytest.mark.parametrize("block", range(3))
def test_no_sound_run_raises_an_alarm(block: int) -> None:
    alarms: Counter[str] = Counter()
    for number in range(block * SHAPES, (block + 1) * SHAPES):
        shape = shape_of(number)
        judgement = judged(shape, number)
        for one in judgement.findings:
            if one.verdict is not Verdict.VALID:
                alarms[f"{one.rule}: {one.text}: {shape}"] += 1
    assert not alarms

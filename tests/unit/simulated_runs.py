"""Clean runs out of a simulation: a sound server and client, with the noise that sound hosts have.

Requests of a closed loop share a server that takes prompts one after the other and then gives each stream its
tokens, a little unevenly; now and then the whole host pauses. Time is virtual, so a run of a minute costs
nothing, and the same number gives the same run.
"""

from __future__ import annotations

import json
import random
import sys
from argparse import Namespace
from bisect import bisect
from dataclasses import dataclass
from heapq import heappop, heappush

from known_truth import KNOWN

sys.path.insert(0, str(KNOWN))
from known_client import Sample, report


@dataclass(frozen=True, slots=True)
class Shape:
    """What is sent, and how fast the server is."""

    num_prompts: int
    max_concurrency: int
    input_len: int
    output_len: int
    prefill_s: float
    token_s: float
    noise: float
    pauses_s: float


def shape_of(number: int) -> Shape:
    """Return one of many shapes: one stream to hundreds, short answers to long ones, calm to busy hosts."""
    draw = random.Random(number)  # noqa: S311  no secrets
    streams = draw.choice((1, 2, 4, 8, 16, 64, 150))
    waves = draw.choice((10, 12, 20, 40)) if streams < 64 else draw.choice((10, 12))
    return Shape(
        num_prompts=streams * waves,
        max_concurrency=streams,
        input_len=draw.choice((8, 64, 512)),
        output_len=draw.choice((8, 32, 128) if streams < 16 else (8, 32)),
        prefill_s=draw.choice((0.001, 0.005, 0.02)),
        token_s=draw.choice((0.003, 0.01, 0.03)),
        noise=draw.choice((0.02, 0.1, 0.3)),
        pauses_s=draw.choice((0.0, 0.05, 0.4)),
    )


def run_of(shape: Shape, seed: int) -> str:
    """Return the result JSON of one run, with each request's own numbers."""
    draw = random.Random(seed)  # noqa: S311  no secrets
    starts = sorted(draw.uniform(0, 2000) for _ in range(200))
    lengths = [draw.uniform(0, shape.pauses_s) for _ in starts]

    def wall(worked: float) -> float:
        return worked + sum(lengths[: bisect(starts, worked)])

    free_at = 0.0  # of what takes the prompts
    samples: list[Sample] = []
    # Those who may send next, by when; all at once in the beginning.
    ready = [(draw.uniform(0, 0.002), number) for number in range(shape.max_concurrency)]
    ready.sort()
    for _ in range(shape.num_prompts):
        asked, number = heappop(ready)
        free_at = max(free_at, asked) + shape.prefill_s * draw.lognormvariate(0, shape.noise)
        sample = Sample(wall(asked))
        at = free_at + 0.001 + shape.token_s * draw.random()
        sample.ttft = wall(at) - sample.start
        for _ in range(shape.output_len - 1):
            before, at = at, at + shape.token_s * draw.lognormvariate(0, shape.noise)
            sample.itls.append(wall(at) - wall(before))
        sample.last = wall(at)
        sample.prompt, sample.output = shape.input_len, shape.output_len
        samples.append(sample)
        heappush(ready, (at + draw.uniform(0.0002, 0.002), number))
    options = Namespace(
        model="simulated",
        num_prompts=shape.num_prompts,
        max_concurrency=shape.max_concurrency,
        save_detailed=True,
    )
    duration = max(sample.last for sample in samples) - min(sample.start for sample in samples)
    return json.dumps(report(options, samples, duration))

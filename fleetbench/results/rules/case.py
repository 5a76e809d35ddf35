"""What a rule looks at: one row with all that is known about it. None and empty always mean unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetbench.model import Config, Workload
from fleetbench.results.rows import NOTHING, Json, MeasurementRow, TrialRow
from fleetbench.results.samples import Samples
from fleetbench.results.values import BenchResult

# Data sets whose every answer has `output_len` tokens (with --ignore-eos); others bring their own lengths.
FIXED_OUTPUT = ("random", "custom", "sonnet")
# Those whose every prompt has `input_len` tokens, and the option that adds to them.
FIXED_INPUT = ("random",)
VARIES = "--random-range-ratio"
PREFIX = "--random-prefix-len"
LARGEST = 10**18
UNEVEN = ("--burstiness", "--ramp-up-strategy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a row is said to be about.

    Attributes:
        max_concurrency: limit of open requests. request_rate: requests/s; None: unknown, or no limit.
        input_len, output_len: tokens of each request; None: unknown, or each brings its own.
        ignore_eos: answers went on to `output_len`; None: unknown.
        max_model_len: context length of the server. context_varied: the row stands for that length.
        eager: whether eager mode was asked for.
        same_prompt: every request sent the same text.
        uneven: requests come at a rate that changes, or in bursts.
    """

    num_prompts: int | None = None
    max_concurrency: int | None = None
    request_rate: float | None = None
    input_len: int | None = None
    output_len: int | None = None
    ignore_eos: bool | None = None
    max_model_len: int | None = None
    context_varied: bool = False
    eager: bool | None = None
    same_prompt: bool | None = None
    uneven: bool = False

    @property
    def paced(self) -> bool:
        """Whether something else than the limit of open requests says when a request is sent."""
        return self.uneven or self.request_rate is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row before the rules.

    Attributes:
        ours: measured by fleetbench; what is unknown is then held against it.
        client_program: `python…` or `rust`; empty: unknown. client_version: vLLM that it belongs to.
        request_output_tps: output tokens/s of one request over its whole time, on average over all.
        telemetry, ceiling: as in `MeasurementRow`. samples: of each request, where the client wrote them.
        trial: the trial it belongs to; siblings: the other trials of its run.
        seed: of this measurement. earlier: finished measurements before it, of the same server and workload.
    """

    result: BenchResult
    asked: Asked
    ours: bool = True
    client_program: str = ""
    client_version: str = ""
    request_output_tps: float | None = None
    telemetry: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    ceiling: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    samples: Samples | None = None
    trial: TrialRow | None = None
    siblings: tuple[TrialRow, ...] = ()
    seed: int | None = None
    earlier: tuple[MeasurementRow, ...] = ()

    @property
    def one_length(self) -> bool:
        """Whether all answers are to have the same number of tokens."""
        return self.asked.output_len is not None and (self.ours or self.asked.ignore_eos is True)

    def latency(self, name: str) -> float | None:
        """Return a latency in ms by vLLM's name (`mean_ttft_ms`); None when unknown, negative or infinite."""
        value = finite(self.result.latencies.get(name))
        return value if value is not None and value >= 0 else None

    def measured(self, name: str) -> float | None:
        """Return a number of the telemetry."""
        return finite(self.telemetry.get(name))


def asked_of(workload: Workload, config: Config | None = None) -> Asked:
    """Return what one of our own rows is about."""
    varied = _argued(workload.extra_args, VARIES) is not None
    prefix = _argued(workload.extra_args, PREFIX)
    extra = int(prefix) if prefix and re.fullmatch(r"\d{1,9}", prefix) else 0
    switches = config.serve_args if config else ()
    return Asked(
        num_prompts=workload.num_prompts,
        max_concurrency=workload.max_concurrency,
        request_rate=workload.request_rate,
        input_len=workload.input_len + extra if workload.dataset in FIXED_INPUT and not varied else None,
        output_len=workload.output_len if workload.dataset in FIXED_OUTPUT and not varied else None,
        ignore_eos=True,
        max_model_len=config.max_model_len if config else None,
        uneven=any(_argued(workload.extra_args, flag) is not None for flag in UNEVEN),
        eager=("--enforce-eager" in switches or "--enforce_eager" in switches) if config else None,
    )


def finite(value: object) -> float | None:
    """Return a number as a float; None for all else: `nan`, infinity, what is beyond any measurement."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def _argued(arguments: Sequence[str], flag: str) -> str | None:
    """Return the value of an option, empty where it has none; None when it is not there."""
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == flag:
            return value if equals else next(iter(arguments[place + 1 : place + 2]), "")
    return None

"""The least time that a load takes on given hardware, and the throughput that follows: pure physics.

A request costs its engine, in seconds (I tokens in, O out, B requests under way on one rank, S = I + O/2):

    decode   max( [O/B × weights + O × context(S)] / bandwidth,  O × operations(S) / FLOP/s )  + link
    prefill  operations of I tokens / FLOP/s  + link

The *serial* estimate adds both, as if a step either read a prompt or put out tokens:
X = 1 / (decode + prefill), which is the same as B / (O·t_step + B·t_prefill).
The *overlapped* ceiling takes the longest of all reading, all arithmetic and all sending, since chunked
prefill fills the arithmetic units while decode waits for memory. Ranks (dp, units) are added up.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetbench.plan.work import Work

BANDWIDTH, COMPUTE, LINK = "bandwidth", "compute", "interconnect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What one GPU can do at most. `cache_bytes` of what a step reads may lie in its cache."""

    bandwidth_b_s: float
    flop_s: float
    link_b_s: float = 0.0
    cache_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked of all ranks together.

    Attributes:
        in_flight: requests under way at a time.
        input_len, output_len: mean tokens of a request.
        cached_len: tokens of a prompt that the prefix cache has, so that nobody computes them.
        context_len: tokens of a prompt whose keys and values each token put out reads; None: all.
        attended_len: tokens of a prompt that each token put out is computed with; None: all.
    """

    in_flight: float
    input_len: float
    output_len: float
    cached_len: float = 0.0
    context_len: float | None = None
    attended_len: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of one request on its rank, by what they are spent on, each as if nothing else took time."""

    weights_s: float
    context_s: float
    decode_s: float
    decode_link_s: float
    prefill_s: float
    prefill_link_s: float

    @property
    def reading_s(self) -> float:
        """Reading weights, keys and values."""
        return self.weights_s + self.context_s

    @property
    def decoding_s(self) -> float:
        """Putting tokens out, alone."""
        return max(self.reading_s, self.decode_s) + self.decode_link_s

    @property
    def prefilling_s(self) -> float:
        """Reading the prompt in, alone."""
        return self.prefill_s + self.prefill_link_s

    @property
    def serial_s(self) -> float:
        """One after the other."""
        return self.decoding_s + self.prefilling_s

    @property
    def parts_s(self) -> dict[str, float]:
        """What the overlapped ceiling is the longest of."""
        return {
            BANDWIDTH: self.reading_s,
            COMPUTE: self.decode_s + self.prefill_s,
            LINK: self.decode_link_s + self.prefill_link_s,
        }

    @property
    def overlapped_s(self) -> float:
        """The longest of reading, arithmetic and sending."""
        return max(self.parts_s.values())

    @property
    def binds(self) -> str:
        """Which of them that is."""
        parts = self.parts_s
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a load can come to. Rates are tokens per second of all ranks together.

    `ranks` are those that have something to do, `batch` the requests under way on each.
    """

    load: Load
    cost: Cost
    ranks: float
    batch: float

    @property
    def output_tps(self) -> float:
        """Output tokens, everything overlapped."""
        return _rate(self.ranks * self.load.output_len, self.cost.overlapped_s)

    @property
    def serial_output_tps(self) -> float:
        """Output tokens, nothing overlapped: an estimate, no bound."""
        return _rate(self.ranks * self.load.output_len, self.cost.serial_s)

    @property
    def decode_tps(self) -> float:
        """Output tokens if prompts took no time."""
        return _rate(self.ranks * self.load.output_len, self.cost.decoding_s)

    @property
    def prefill_tps(self) -> float:
        """Input tokens if answers took no time."""
        return _rate(self.ranks * self.load.input_len, self.cost.prefilling_s)

    @property
    def step_s(self) -> float:
        """Time of one step that gives each request under way a token."""
        return self.batch * self.cost.decoding_s / self.load.output_len if self.load.output_len else 0.0


def ceiling(work: Work, peaks: Peaks, load: Load, *, dp: int = 1, units: int = 1) -> Ceiling:
    """Return what a load can come to on `units` servers of `dp` ranks each; `work` is that of one GPU.

    Ranks of one server share their experts, so all their tokens count for which experts are read.
    """
    ranks = max(1.0, min(float(dp * units), load.in_flight))
    batch = max(1.0, load.in_flight / ranks)
    together = batch * min(float(dp), ranks)
    cost = _cost(work, peaks, load, batch, together, load.output_len)
    return Ceiling(load=load, cost=cost, ranks=ranks, batch=batch)


def strict_output_tps(work: Work, peaks: Peaks, load: Load, *, ranks: int = 1) -> float:
    """Return the output tokens per second that cannot be exceeded, when `work` is the least that has to be
    done and `peaks` the most that the GPUs can do. The first token of a request comes out of its prefill."""
    busy = max(1.0, min(float(ranks), load.in_flight))
    batch = max(1.0, load.in_flight / busy)
    cost = _cost(work, peaks, load, batch, batch, max(0.0, load.output_len - 1))
    parts = cost.parts_s
    return _rate(busy * load.output_len, max(parts[BANDWIDTH], parts[COMPUTE]))


def least_token_s(work: Work, peaks: Peaks) -> float:
    """Return the time below which no token follows another one of the same request."""
    return max(0.0, work.weight_bytes(1) - peaks.cache_bytes) / peaks.bandwidth_b_s


def room(memory_bytes: float, utilisation: float, weight_bytes: float, request_bytes: float) -> float:
    """Return how many requests of `request_bytes` of keys and values fit beside the weights: not below 0."""
    return max(0.0, memory_bytes * utilisation - weight_bytes) / request_bytes if request_bytes > 0 else 0.0


def _cost(work: Work, peaks: Peaks, load: Load, batch: float, together: float, steps: float) -> Cost:
    """`steps` are those that put a token out; `together` all tokens of a step that choose experts."""
    own = steps / 2  # the middle of a request's own tokens
    kept = own + (load.input_len if load.context_len is None else load.context_len)
    attended = own + (load.input_len if load.attended_len is None else load.attended_len)
    weights = steps / batch * work.weight_bytes(together)
    context = steps * work.context_bytes(kept)
    cached = min(weights + context, steps / batch * peaks.cache_bytes)
    read = max(0.0, weights - cached), max(0.0, context - max(0.0, cached - weights))
    prefill = max(0.0, work.prefill_flop(load.input_len) - work.prefill_flop(load.cached_len))
    link = work.link_bytes / peaks.link_b_s if peaks.link_b_s > 0 else 0.0
    return Cost(
        weights_s=read[0] / peaks.bandwidth_b_s,
        context_s=read[1] / peaks.bandwidth_b_s,
        decode_s=steps * work.decode_flop(attended) / peaks.flop_s,
        decode_link_s=steps * link,
        prefill_s=prefill / peaks.flop_s,
        prefill_link_s=max(0.0, load.input_len - load.cached_len) * link,
    )


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0

"""What is served, how it is split and on which GPUs: everything that a ceiling follows from but the load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fleetbench.ceiling.limits import Ceiling, Load, Peaks, ceiling, least_token_s, strict_output_tps
from fleetbench.ceiling.models import is_counted
from fleetbench.ceiling.peaks import most, peaks, precision
from fleetbench.errors import FleetbenchError, UsageError, one_line
from fleetbench.model import Config
from fleetbench.plan.architecture import BYTES, Architecture
from fleetbench.plan.arguments import ServeArguments, read_arguments
from fleetbench.plan.hardware import Card
from fleetbench.plan.memory import Device, estimate
from fleetbench.plan.quantisation import Quantisation
from fleetbench.plan.weights import count
from fleetbench.plan.work import least_work, work
from fleetbench.vllm_features import parse_version

_MIB_PER_GIB = 1024
# With these a step may put out several tokens of a request, read less than the weights of config.json, or
# take keys and values from elsewhere: then nothing is strict. Also with a dot and a key behind them.
_CHANGES = (
    "--speculative",
    "--num-speculative-tokens",
    "--spec-",
    "--hf-overrides",
    "--hf-config-path",
    "--kv-transfer-config",
    "--kv-sharing-fast-prefill",
    "--decode-context-parallel-size",
    "-dcp",
    "--prefill-context-parallel-size",
    "-pcp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One configuration of a model on GPUs of one kind.

    `words` are the arguments of `vllm serve`, of equal ones the last counts; `kv_cache_dtype` is what the
    server said that it keeps keys and values in, empty: unknown.
    """

    architecture: Architecture
    card: Card
    config: Config = Config()  # noqa: RUF009  frozen
    words: tuple[str, ...] = ()
    kv_cache_dtype: str = ""

    @property
    def ranks(self) -> int:
        """Engines with requests of their own."""
        return self.config.dp * self.config.units

    @property
    def arguments(self) -> ServeArguments:
        """Those that matter; vLLM's own defaults where one makes no sense."""
        found = _arguments(self.words) or ServeArguments()
        said = "" if self.kv_cache_dtype == "auto" else self.kv_cache_dtype
        return replace(found, kv_cache_dtype=said or found.kv_cache_dtype)

    @property
    def model(self) -> Architecture:
        """The shape as it is served: with what vLLM quantises while it loads."""
        if self.arguments.quantisation == "fp8" and self.architecture.quantisation is None:
            return replace(self.architecture, quantisation=Quantisation(method="fp8", bits=8.0))
        return self.architecture

    def ceiling(self, load: Load) -> Ceiling:
        """Return what is to be expected at most."""
        return ceiling(
            work(self.model, self.config, self.arguments),
            peaks(self.card, self.model),
            load,
            dp=self.config.dp,
            units=self.config.units,
        )

    def unknowns(self) -> tuple[str, ...]:
        """Return why nothing can be called impossible here, one reason each; empty when all is known."""
        return tuple(self._unknowns())

    def strict_output_tps(self, load: Load) -> float | None:
        """Return the output tokens per second that cannot be exceeded; None where too little is known."""
        if self.unknowns():
            return None
        found = strict_output_tps(
            least_work(self.model, self.config, self._least_arguments()), self._most(), load, ranks=self.ranks
        )
        return found if found > 0 else None

    def least_token_ms(self) -> float | None:
        """Return the milliseconds below which no token follows another; None where too little is known."""
        if self.unknowns():
            return None
        least = least_work(self.model, self.config, self._least_arguments())
        return 1000 * least_token_s(least, self._most())

    def room_tokens(self, version: str, request_tokens: float) -> float | None:
        """Return how many tokens of keys and values all ranks have room for, as the planner estimates it;
        None when it cannot."""
        visible = min(self.card.visible_mib, self.card.memory_mib) / _MIB_PER_GIB
        device = Device(name=self.card.name, visible_gib=visible)
        length = max(1, round(request_tokens))
        try:
            found = estimate(
                self.model, self.config, device, parse_version(version), self.arguments, request_tokens=length
            )
        except FleetbenchError:
            return None
        return float(found.kv_tokens * self.ranks)

    def basis(self) -> str:
        """Return on what the figures rest, one line."""
        weights = count(self.model, self.arguments.dtype).total / 1e9
        experts = ", experts chosen evenly" if self.architecture.experts else ""
        computed = precision(self.card, self.model)
        return f"data sheet of {self.card.name}, {weights:.1f} GB of weights computed in {computed}{experts}"

    def _unknowns(self) -> Iterator[str]:
        yield from self.architecture.notes
        if not is_counted(self.architecture.kind):
            yield f"what a token of a {one_line(self.architecture.kind, 40)} model costs is not known"
        stored = self.architecture.quantisation
        if stored is not None and stored.bits >= 16:
            yield f"how {one_line(stored.method, 40)} stores weights is not known"
        if stored is None and self.arguments.quantisation:
            yield f"--quantization {self.arguments.quantisation} changes the weights"
        if _arguments(self.words) is None:
            yield "an argument of the server is not understood"
        words = (word.replace("_", "-") if word.startswith("--") else word for word in self.words)
        for word in words:
            if word.startswith(_CHANGES):
                yield f"{one_line(word.partition('=')[0], 60)} changes what a token costs"

    def _least_arguments(self) -> ServeArguments:
        # A quantised checkpoint may ask for a cache of 8 bits, which "auto" follows.
        if self.architecture.quantisation is not None and not self.arguments.kv_cache_dtype:
            return replace(self.arguments, kv_cache_dtype="fp8")
        return self.arguments

    def _most(self) -> Peaks:
        arguments = self._least_arguments()
        wide = BYTES.get(arguments.kv_cache_dtype or self.architecture.dtype, 1) > 1
        return most(self.card, narrow=self.architecture.quantisation is not None or not wide)


def _arguments(words: Sequence[str]) -> ServeArguments | None:
    try:
        return read_arguments(words)
    except UsageError:
        return None

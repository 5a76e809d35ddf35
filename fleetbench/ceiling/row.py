"""How near a measurement came to the ceiling: the mapping that `MeasurementRow.ceiling` keeps.

| key | is |
| --- | --- |
| `decode_percent`, `prefill_percent` | of what decode alone and prefill alone would come to; together they are the share of the serial estimate |
| `ceiling_output_tps`, `of_ceiling_percent` | everything overlapped, data sheet, experts chosen evenly |
| `strict_output_tps`, `of_strict_percent` | what nothing can exceed; absent where an input is not known |
| `serial_output_tps` | nothing overlapped: an estimate, which may be exceeded |
| `tpot_floor_ms` | no token of a request follows another one faster; absent like the strict ceiling |
| `in_flight` | requests under way that the figures are for |
| `binds`, `why` | what holds it back, and one sentence |
| `gpu`, `basis` | row of gpus.toml; what is assumed |
"""  # noqa: E501  a table

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetbench.ceiling.binds import Binding, Limits, binds
from fleetbench.ceiling.limits import Load
from fleetbench.ceiling.setting import Setting
from fleetbench.errors import one_line
from fleetbench.facts.values import Gpu
from fleetbench.model import Config, Workload
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.hardware import Card, card_of
from fleetbench.results.rows import NOTHING, Json
from fleetbench.results.values import BenchResult

# Absent where nothing is strict.
STRICT_KEYS = ("strict_output_tps", "of_strict_percent", "tpot_floor_ms")
# Only here has each request the lengths that were asked for.
_FIXED_LENGTHS = ("random",)
_VARIES = "--random-range-ratio"
_SEVERAL = ('"n"', "best_of", "beam")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is known of the server that was measured, beside its configuration.

    Attributes:
        words: arguments of `vllm serve`; of equal ones the last counts.
        effective: what it said that it settled on (`TrialRow.effective`).
        version: of its vLLM; empty: unknown.
        client_program: what measured it; empty: unknown.
    """

    words: tuple[str, ...] = ()
    effective: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    version: str = ""
    client_program: str = ""


def ceiling_of(
    architecture: Architecture | None,
    gpus: Sequence[Gpu] | Card,
    config: Config,
    workload: Workload,
    result: BenchResult | None,
    telemetry: Mapping[str, Json] = NOTHING,
    served: Served = Served(),
) -> Mapping[str, Json]:
    """Return the mapping for one measurement; empty where nothing is to be said: no GPU, or no number.

    Args:
        architecture: None when nobody knows the model's shape.
        gpus: those that it ran on, as the host's facts have them; or their row of the catalogue.
        workload, result: what was asked for and what came out; lengths are those that came out.
        telemetry: what was sampled meanwhile; empty: nothing.
        served: what is known of the server.
    """
    rate = _positive(result.output_throughput) if result is not None else None
    if result is None or rate is None or (not isinstance(gpus, Card) and not gpus):
        return NOTHING
    card = gpus if isinstance(gpus, Card) else _one_kind(gpus)
    if card is None:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus)) if not isinstance(gpus, Card) else ""
        return _nothing_known(f"gpus.toml has no figures of {one_line(names, 80)}")
    if architecture is None:
        return _nothing_known("nobody knows the shape of the model: no config.json, no row of models.toml")
    setting = Setting(
        architecture=architecture,
        card=card,
        config=config,
        words=served.words,
        kv_cache_dtype=str(served.effective.get("kv_cache_dtype") or ""),
    )
    return _row(setting, workload, result, rate, telemetry, served)


def _row(
    setting: Setting,
    workload: Workload,
    result: BenchResult,
    rate: float,
    telemetry: Mapping[str, Json],
    served: Served,
) -> Mapping[str, Json]:
    inputs, outputs = _lengths(workload, result)
    limits = _limits(setting, workload, result, served, inputs + outputs)
    hits = _share(telemetry.get("prefix_hit_share"))
    load = Load(
        in_flight=limits.in_flight,
        input_len=inputs,
        output_len=outputs,
        cached_len=inputs * (hits or 0.0),
    )
    found = setting.ceiling(load)
    decode, prefill = _part(rate, found.decode_tps), _part(rate * inputs / outputs, found.prefill_tps)
    binding, why = binds(
        found,
        decode + prefill,
        limits,
        telemetry,
        power_w=setting.card.power_w * setting.config.gpus,
        one_process=not served.client_program.startswith("rust"),
        rate=workload.request_rate,
    )
    strict = None
    if not _several_answers(workload):
        strict = setting.strict_output_tps(_strict_load(load, limits, workload, result, hits, served))
    row: dict[str, Json] = {
        "decode_percent": _rounded(100 * decode),
        "prefill_percent": _rounded(100 * prefill),
        "ceiling_output_tps": _rounded(found.output_tps),
        "of_ceiling_percent": _rounded(100 * _part(rate, found.output_tps)),
        "serial_output_tps": _rounded(found.serial_output_tps),
        "in_flight": _rounded(load.in_flight),
    }
    if strict is not None:
        row |= {"strict_output_tps": _rounded(strict), "of_strict_percent": _rounded(100 * rate / strict)}
    floor = setting.least_token_ms()
    if floor is not None:
        row["tpot_floor_ms"] = round(floor, 4)
    return row | {
        "binds": str(binding),
        "why": why,
        "gpu": setting.card.name,
        "basis": _basis(setting, hits, strict),
    }


def _strict_load(
    load: Load,
    limits: Limits,
    workload: Workload,
    result: BenchResult,
    hits: float | None,
    served: Served,
) -> Load:
    """The load at its lightest: of a prompt that the cache may have, nothing is computed or read."""
    known = 0.0 if served.effective.get("prefix_caching") is False else hits
    fresh = load.input_len * (1 - known) if known is not None else 0.0
    fixed = workload.dataset in _FIXED_LENGTHS and not any(
        word.startswith(_VARIES) for word in workload.extra_args
    )
    asked = _allowed(workload, result)
    return replace(
        load,
        in_flight=max(1.0, min(asked, limits.sequences) if limits.sequences is not None else asked),
        input_len=fresh,
        cached_len=0.0,
        context_len=fresh if fixed else 0.0,
        attended_len=load.input_len if fixed else 0.0,
    )


def _limits(
    setting: Setting, workload: Workload, result: BenchResult, served: Served, request_tokens: float
) -> Limits:
    asked = _allowed(workload, result)
    if workload.request_rate is not None:  # then hardly ever as many are under way as may be
        asked = min(asked, _under_way(result) or asked)
    sequences = _positive(served.effective.get("max_num_seqs")) or setting.arguments.sequences
    tokens = _positive(served.effective.get("kv_cache_tokens"))
    if tokens is None and served.version:
        tokens = setting.room_tokens(served.version, request_tokens)
    return Limits(
        asked=max(1.0, asked),
        room=tokens / request_tokens if tokens is not None else None,
        sequences=sequences * setting.ranks if sequences is not None else None,
    )


def _allowed(workload: Workload, result: BenchResult) -> float:
    """How many requests may be under way at most, as the client sends them."""
    sent = result.completed or result.num_prompts or workload.num_prompts
    return float(max(1, min(workload.max_concurrency or result.max_concurrency or sent, sent)))


def _under_way(result: BenchResult) -> float | None:
    """How many requests were under way on average: Little's law."""
    rate, seconds = _positive(result.request_throughput), _positive(result.latencies.get("mean_e2el_ms"))
    return rate * seconds / 1000 if rate is not None and seconds is not None else None


def _several_answers(workload: Workload) -> bool:
    """Whether a request may have several sequences, so that a step puts out more tokens than are counted."""
    return any(word in argument for argument in workload.extra_args for word in _SEVERAL)


def _lengths(workload: Workload, result: BenchResult) -> tuple[float, float]:
    """Mean tokens of a prompt and of an answer: as counted, else as asked for."""

    def mean(total: int | None, asked: int) -> float:
        counted = _positive(total)
        return counted / result.completed if counted and result.completed else float(asked)

    inputs = mean(result.total_input_tokens, workload.input_len)
    return max(1.0, inputs), max(1.0, mean(result.total_output_tokens, workload.output_len))


def _basis(setting: Setting, hits: float | None, strict: float | None) -> str:
    parts = [setting.basis()]
    parts.append(f"{hits:.0%} of prompt tokens from the prefix cache" if hits else "")
    unknown = setting.unknowns()
    if strict is None and unknown:
        parts.append(f"no strict ceiling: {unknown[0]}")
    elif hits is None:
        parts.append("strict as if the prefix cache had every prompt")
    return "; ".join(filter(None, parts))


def _one_kind(gpus: Sequence[Gpu]) -> Card | None:
    cards = {card_of(gpu) for gpu in gpus}
    return cards.pop() if len(cards) == 1 else None


def _nothing_known(why: str) -> Mapping[str, Json]:
    return {"binds": str(Binding.UNKNOWN), "why": why}


def _part(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e18 else None


def _share(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def _rounded(value: float) -> float:
    """Two digits after the point; a rate above 100 needs one."""
    return round(value, 2 if abs(value) < 100 else 1)

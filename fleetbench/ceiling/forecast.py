"""What a configuration can come to at each of several concurrencies, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetbench.ceiling.binds import Binding, Limits, expected
from fleetbench.ceiling.limits import Load
from fleetbench.ceiling.setting import Setting
from fleetbench.releases import number, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One concurrency. Rates in tokens per second of all GPUs; None: the weights leave no room for a request,
    or (strict, floor) too little is known.

    Attributes:
        room: requests that keys and values leave room for, an estimate; None: unknown.
        in_flight: requests under way that the rates are for.
        ceiling_output_tps: everything overlapped; serial_output_tps: nothing, an estimate; strict_output_tps:
            cannot be exceeded.
        decode_output_tps, prefill_input_tps: each alone.
        token_ms: between two tokens of a request, at this concurrency; tpot_floor_ms: at any.
    """

    concurrency: int
    room: float | None
    in_flight: float | None
    ceiling_output_tps: float | None
    serial_output_tps: float | None
    strict_output_tps: float | None
    decode_output_tps: float | None
    prefill_input_tps: float | None
    token_ms: float | None
    tpot_floor_ms: float | None
    binds: str
    why: str


def newest_vllm() -> str:
    """Return the newest version that the table of releases knows."""
    return max((release.version for release in table().releases), key=number)


def forecast(
    setting: Setting, concurrencies: Sequence[int], input_len: int, output_len: int, version: str
) -> tuple[Forecast, ...]:
    """Return one forecast for each concurrency; `version` of vLLM says how it divides memory."""
    return tuple(_forecast(setting, concurrencies, input_len, output_len, version))


def _forecast(
    setting: Setting, concurrencies: Sequence[int], input_len: int, output_len: int, version: str
) -> Iterator[Forecast]:
    length = input_len + output_len
    tokens = setting.room_tokens(version, length)
    room = tokens / length if tokens is not None else None
    sequences = setting.arguments.sequences
    for asked in concurrencies:
        limits = Limits(
            asked=float(asked),
            room=room,
            sequences=float(sequences * setting.ranks) if sequences is not None else None,
        )
        yield _one(setting, limits, asked, input_len, output_len)


def _one(setting: Setting, limits: Limits, asked: int, input_len: int, output_len: int) -> Forecast:
    if limits.room is not None and limits.room < 1:
        text = "the weights leave no room for the keys and values of one request"
        return Forecast(
            concurrency=asked,
            room=limits.room,
            in_flight=None,
            ceiling_output_tps=None,
            serial_output_tps=None,
            strict_output_tps=None,
            decode_output_tps=None,
            prefill_input_tps=None,
            token_ms=None,
            tpot_floor_ms=setting.least_token_ms(),
            binds=str(Binding.KV_ROOM),
            why=text,
        )
    load = Load(in_flight=limits.in_flight, input_len=input_len, output_len=output_len)
    found = setting.ceiling(load)
    taken = min(limits.asked, limits.sequences) if limits.sequences is not None else limits.asked
    binding, why = expected(found, limits)
    return Forecast(
        concurrency=asked,
        room=limits.room,
        in_flight=limits.in_flight,
        ceiling_output_tps=found.output_tps,
        serial_output_tps=found.serial_output_tps,
        # The room is an estimate, so it bounds nothing.
        strict_output_tps=setting.strict_output_tps(
            Load(in_flight=max(1.0, taken), input_len=input_len, output_len=output_len)
        ),
        decode_output_tps=found.decode_tps,
        prefill_input_tps=found.prefill_tps,
        token_ms=1000 * found.step_s,
        tpot_floor_ms=setting.least_token_ms(),
        binds=str(binding),
        why=why,
    )

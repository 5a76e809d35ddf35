"""Every request of a measurement, as `--save-detailed` writes them. Pure.

Percentiles of several repeats are made from all their requests together: a mean or median of percentiles is
the percentile of nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbench.results.parse.documents import read_documents, results_in

LARGEST_BYTES = 512 * 1024**2
MOST_REQUESTS = 2_000_000
LONGEST_S = 1e8  # three years: anything beyond is no duration
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that was answered.

    Attributes:
        started_s: when it was sent, counted from the first request of the run; None: not written down
            (vLLM before 0.15).
        ttft_s: until its first token. e2el_s: until its last one.
        itl_s: the pauses between the pieces of its answer; a piece may hold several tokens.
    """

    started_s: float | None
    ttft_s: float
    e2el_s: float
    input_tokens: int
    output_tokens: int
    itl_s: Sequence[float] = ()

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first, as vLLM counts it; None with a single token."""
        return (self.e2el_s - self.ttft_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    def arrivals(self) -> Iterator[float]:
        """Yield when each piece of the answer came, on the clock of `started_s` (0 where that is unknown)."""
        moment = (self.started_s or 0.0) + self.ttft_s
        yield moment
        for pause in self.itl_s:
            moment += pause
            yield moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The requests of one execution of the client, in the order in which it sent them.

    `failed` requests have no times; `unreadable` ones have times that are none. Neither is in `requests`.
    """

    requests: tuple[Request, ...]
    failed: int = 0
    unreadable: int = 0

    @property
    def timed(self) -> bool:
        """Whether it is known when each request was sent."""
        return bool(self.requests) and all(request.started_s is not None for request in self.requests)


def read_samples(content: bytes | str) -> Samples | None:
    """Given the content of a result file, return its requests, of the last result where it holds several.

    None where there are none: not JSON, without `--save-detailed`, lists of different lengths, more than
    `LARGEST_BYTES`.
    """
    if len(content) > LARGEST_BYTES:
        return None
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    found = None
    for document in read_documents(text):
        for value in results_in(document.value):
            found = samples_of(value)
    return found


def samples_of(result: Mapping[str, Any]) -> Samples | None:
    """Given one result object as vLLM writes it, return its requests; None where they are not in it."""
    ttfts, outputs, itls = (_list(result, key) for key in ("ttfts", "output_lens", "itls"))
    if ttfts is None or outputs is None or itls is None or len(ttfts) > MOST_REQUESTS:
        return None
    count = len(ttfts)
    if len(outputs) != count or len(itls) != count:
        return None
    optional = ("errors", "start_times", "latencies", "input_lens")
    errors, starts, ends, inputs = (_column(result, key, count) for key in optional)
    first = min((start for start in map(_number, starts) if start is not None), default=0.0)
    requests, failed, unreadable = [], 0, 0
    for place in range(count):
        if errors[place] not in (None, "") or outputs[place] == 0:
            failed += 1
            continue
        request = _request(
            ttfts[place], outputs[place], itls[place], starts[place], ends[place], inputs[place], first
        )
        if request is None:
            unreadable += 1
        else:
            requests.append(request)
    return Samples(requests=tuple(requests), failed=failed, unreadable=unreadable)


def latencies(several: Iterable[Samples]) -> dict[str, float]:
    """Return `mean_ttft_ms`, `p99_itl_ms` … over all requests of one or more measurements together.

    Names, units and definitions are vLLM's: TPOT has one value for each request of two or more tokens, ITL
    one for each pause of each stream, percentiles are interpolated linearly between neighbours, std is that
    of a population. A metric without values has no names.
    """
    import numpy

    requests = [request for samples in several for request in samples.requests]
    pauses = array("d")
    for request in requests:
        pauses.extend(request.itl_s)
    columns = {
        "ttft": [request.ttft_s for request in requests],
        "tpot": [value for request in requests if (value := request.tpot_s) is not None],
        "itl": pauses,
        "e2el": [request.e2el_s for request in requests],
    }
    found = {}
    for name, seconds in columns.items():
        if not len(seconds):
            continue
        values = numpy.asarray(seconds, dtype=float) * 1000
        found[f"mean_{name}_ms"] = float(values.mean())
        found[f"median_{name}_ms"] = float(numpy.median(values))
        found[f"std_{name}_ms"] = float(values.std())
        for percent, value in zip(PERCENTILES, numpy.percentile(values, PERCENTILES), strict=True):
            found[f"p{percent}_{name}_ms"] = float(value)
    return found


def _request(
    ttft: object, output: object, itl: object, start: object, end: object, given: object, first: float
) -> Request | None:
    ttft_s, tokens, pauses = _number(ttft), _number(output), _pauses(itl)
    if ttft_s is None or tokens is None or pauses is None:
        return None
    started = _number(start)
    # Before 0.30 the file has no latencies; the client's own is that of the last piece, which is this sum.
    end_s = _number(end) if end is not None else ttft_s + math.fsum(pauses)
    if end_s is None or end_s < ttft_s:
        return None
    return Request(
        started_s=None if started is None else started - first,
        ttft_s=ttft_s,
        e2el_s=end_s,
        input_tokens=int(_number(given) or 0),
        output_tokens=int(tokens),
        itl_s=pauses,
    )


def _list(result: Mapping[str, Any], key: str) -> list[Any] | None:
    value = result.get(key)
    return value if isinstance(value, list) else None


def _column(result: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """Return a list that not every version writes; one of another length says nothing about any request."""
    value = _list(result, key)
    return value if value is not None and len(value) == count else [None] * count


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LONGEST_S else None  # also false for nan


def _pauses(value: object) -> array[float] | None:
    if not isinstance(value, list):
        return None
    try:
        found = array("d", value)
    except (TypeError, OverflowError):
        return None
    # The clock of a client may stand still between two pieces, never run back.
    usable = not found or (min(found) >= 0 and math.isfinite(sum(found)) and max(found) <= LONGEST_S)
    return found if usable else None

"""The steady state of runs whose truth is known: a first wave that is slow, an end that drains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetbench.model import Workload
from fleetbench.results.samples import Request, Samples
from fleetbench.results.steady import in_flight, steady_state

CLOSED = Workload(num_prompts=1000, max_concurrency=8, output_len=10)


def request(started_s: float | None, ttft_s: float = 0.1, pause_s: float = 0.1, tokens: int = 10) -> Request:
    return Request(
        started_s=started_s,
        ttft_s=ttft_s,
        e2el_s=ttft_s + pause_s * (tokens - 1),
        input_tokens=10,
        output_tokens=tokens,
        itl_s=(pause_s,) * (tokens - 1),
    )


def closed(waves: int, *, limit: int = 8, first_ttft_s: float = 2.0) -> Samples:
    """Every place sends its next request when the last one ends; the first wave waits for its prompts."""
    requests = []
    for place in range(limit):
        now = place * 0.001
        for wave in range(waves):
            sent = request(now, ttft_s=first_ttft_s if wave == 0 else 0.1)
            requests.append(sent)
            now += sent.e2el_s
        if place == 0:  # one place goes on alone: the run drains
            requests += [request(now), request(now + 1.0)]
    return Samples(requests=tuple(requests))


def test_the_window_leaves_out_the_first_wave_and_the_end() -> None:
    found = steady_state(closed(10), CLOSED)
    assert found is not None
    # 8 places with 10 tokens a second each, whatever the first wave and the drain did.
    assert found.output_throughput == pytest.approx(80.0, rel=0.01)
    assert found.request_throughput == pytest.approx(8.0, rel=0.02)
    assert found.began_s == pytest.approx(2.9 + 0.007)
    assert found.ended_s == pytest.approx(2.9 + 9 * 1.0, abs=0.01)
    assert found.share == pytest.approx(9.0 / 13.9, abs=0.01)
    assert found.latencies["p99_ttft_ms"] == pytest.approx(100.0)


def test_the_whole_run_says_less_than_the_steady_state() -> None:
    samples = closed(10)
    whole = sum(sent.output_tokens for sent in samples.requests) / 13.9
    found = steady_state(samples, CLOSED)
    assert found is not None
    assert whole < 0.75 * found.output_throughput


def test_one_stream_is_in_flight_although_it_pauses_between_requests() -> None:
    requests = tuple(request(place * 1.01) for place in range(10))
    found = steady_state(Samples(requests=requests), replace(CLOSED, max_concurrency=1))
    assert found is not None
    assert found.output_throughput == pytest.approx(10 / 1.01, rel=0.01)


def test_a_piece_of_several_tokens_counts_as_all_of_them() -> None:
    """With speculation a piece of the stream holds several tokens."""
    pieces = tuple(replace(sent, output_tokens=2 * sent.output_tokens) for sent in closed(10).requests)
    found = steady_state(Samples(requests=pieces), CLOSED)
    assert found is not None
    assert found.output_throughput == pytest.approx(160.0, rel=0.01)


def test_an_open_loop_is_steady_from_its_first_answers_until_the_last_request_is_sent() -> None:
    requests = tuple(request(place * 0.25) for place in range(100))
    found = steady_state(Samples(requests=requests), Workload(num_prompts=100, request_rate=4.0))
    assert found is not None
    assert (found.began_s, found.ended_s) == (pytest.approx(1.0), pytest.approx(24.75))
    assert found.output_throughput == pytest.approx(40.0, rel=0.02)
    assert found.request_throughput == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize(
    ("samples", "workload"),
    [
        (closed(2), CLOSED),
        (closed(1), CLOSED),
        (Samples(requests=(request(0.0),)), CLOSED),
        (Samples(requests=()), CLOSED),
        (replace(closed(10), failed=1), CLOSED),
        (replace(closed(10), unreadable=1), CLOSED),
        (Samples(requests=tuple(request(None) for _ in range(100))), CLOSED),
        (closed(10), replace(CLOSED, max_concurrency=64)),
        (Samples(requests=tuple(request(0.0) for _ in range(100))), Workload(num_prompts=100)),
        (Samples(requests=(request(0.0, 0.0, 0.0),) * 9), CLOSED),
    ],
    ids=[
        *("two waves", "one wave", "one request", "none", "some failed", "some unreadable", "no times"),
        *("limit never reached", "all at once", "no time passes"),
    ],
)
def test_without_a_steady_state_there_is_no_number(samples: Samples, workload: Workload) -> None:
    assert steady_state(samples, workload) is None


def test_what_is_in_flight_is_counted_at_each_change() -> None:
    samples = Samples(requests=(request(0.0), request(0.5), request(1.0)))
    assert in_flight(samples) == [
        *((0.0, 1), (0.5, 2)),
        (pytest.approx(1.0), 2),
        *((pytest.approx(1.5), 1), (pytest.approx(2.0), 0)),
    ]

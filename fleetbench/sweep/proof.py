"""What the server's own counters say about one measurement: cached prompts, work that nobody counted.

Pure: two readings and the client's result in, findings out. No reading is a remark, never a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetbench.model import Workload
from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.rules.server import tokens
from fleetbench.results.values import BenchResult
from fleetbench.service.metrics import Reading, since
from fleetbench.sweep.own_prefixes import explained, option

# Above what the workload explains; below it the effect is smaller than the noise between repeats.
TOLERATED_SHARE = 0.01


def findings(
    before: Reading | None,
    after: Reading | None,
    result: BenchResult | None,
    workload: Workload,
    *,
    problem: str = "",
    vocabulary: int | None = None,
    prompts: Sequence[str] | None = None,
    servers: int = 1,
) -> tuple[Finding, ...]:
    """Judge one measurement by the counters before and after it.

    Args:
        before, after: None when there was no answer; `problem` then says why.
        result: what the client reports; None when it reports nothing (its own verdict says so).
        workload, vocabulary, prompts: what explains hits, see `own_prefixes.explained`.
        servers: whose counters these are; a controller that comes back asks each whether it still serves,
            and of several each through the balancer.
    """
    if before is None or after is None:
        return (_unknown(problem or "no reading"),)
    counted = since(before, after)
    return (
        *_cached(before, counted, workload, vocabulary, prompts),
        *_requests(counted, result, workload, servers),
        *_tokens(counted, result, workload, servers),
    )


def _cached(
    before: Reading,
    counted: Reading,
    workload: Workload,
    vocabulary: int | None,
    prompts: Sequence[str] | None,
) -> Iterator[Finding]:
    looked_up, hits = counted.prefix_queries, counted.prefix_hits
    if looked_up is None or hits is None:
        if counted.cache.get("enable_prefix_caching") != "False":
            yield _unknown("this server has no such counters, or they began anew")
        return
    if not hits:
        return
    share = min(1.0, hits / max(looked_up, 1))
    own = explained(
        workload,
        earlier=before.requests or 0,
        preempted=counted.preemptions or 0,
        vocabulary=vocabulary,
        prompts=prompts,
        prompt_tokens=looked_up / counted.requests if counted.requests else None,
    )
    said = f"{share:.1%} of prompt tokens came from the prefix cache"
    numbers = {"hit_tokens": hits, "looked_up_tokens": looked_up, "share": share}
    if own is None:
        if share > TOLERATED_SHARE:
            text = f"{said}; how much of it its prompts explain is unknown"
            yield Finding(rule="prefix-cache", verdict=Verdict.VALID, text=text, numbers=numbers)
    elif share > own + TOLERATED_SHARE:
        yield Finding(
            rule="prefix-cache",
            verdict=Verdict.SUSPECT,
            text=f"{said}, and the workload's own prompts explain {own:.1%} at most:"
            " they had been sent before (more prompts than one repeat takes, or"
            " --no-enable-prefix-caching, keeps repeats apart)",
            numbers=numbers | {"explained_share": own},
        )


def _requests(
    counted: Reading, result: BenchResult | None, workload: Workload, servers: int
) -> Iterator[Finding]:
    if counted.requests is None or result is None or result.completed is None or result.failed:
        return
    most = result.completed + _more(workload, servers)
    text = f"the server answered {counted.requests:,} requests, the client counts {result.completed:,}"
    if counted.requests > most:
        text += ": somebody else used it"
    elif counted.requests >= result.completed:
        return
    numbers = {"server_requests": counted.requests, "client_requests": result.completed}
    yield Finding(rule="server-requests", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def _tokens(
    counted: Reading, result: BenchResult | None, workload: Workload, servers: int
) -> Iterator[Finding]:
    if result is None:
        return
    yield from tokens(
        result,
        # A preempted request reads its prompt once more.
        prompt_tokens=None if counted.preemptions else counted.prompt_tokens,
        generation_tokens=counted.generation_tokens,
        cached_tokens=counted.prefix_hits,
        more_requests=_more(workload, servers),
    )


def _more(workload: Workload, servers: int) -> int:
    """Return how many requests may come on top: the client may send its first prompt once more to see whether
    the server answers, and a controller that comes back asks each of several servers."""
    return 1 + option(workload, "--num-warmups") + (servers + 1 if servers > 1 else 0)


def _unknown(why: str) -> Finding:
    text = f"whether prompts came from the prefix cache is unknown: {why}"
    return Finding(rule="prefix-cache", verdict=Verdict.VALID, text=text)

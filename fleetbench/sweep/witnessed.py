"""What a witness found, from the files that it kept: pure, so that `verify` finds the same once more."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.model import Workload
from fleetbench.results.rows import Finding, Verdict
from fleetbench.results.values import BenchResult
from fleetbench.service.metrics import Reading, read, total
from fleetbench.sweep.port import second_listener
from fleetbench.sweep.proof import findings
from fleetbench.telemetry.summary import NOT_READ

OBSERVED = "witness.json"
_ENDPOINT = re.compile(r"^# fleetbench: \S+ port \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a witness saw beside the counters.

    Attributes:
        servers: whose counters these are, how many.
        vocabulary: token ids of the model; None: unknown.
        strangers: who else was on the GPUs when it ended. listener: who else was on the port, empty: nobody.
        prompts_sha256: of the prompt file as it was then; empty: there was none.
    """

    servers: int = 1
    vocabulary: int | None = None
    strangers: tuple[str, ...] = ()
    listener: str = ""
    port: int = 0
    prompts_sha256: str = ""


def found(
    before: str,
    after: str,
    observed: Observed,
    result: BenchResult | None,
    workload: Workload,
    prompts: Sequence[str] | None = None,
) -> tuple[Finding, ...]:
    """Given both readings as they were kept, and the client's result, return what speaks against it.

    `prompts` are the texts of the prompt file, as for `proof.findings`.
    """
    first, no_first = reading(before)
    last, no_last = reading(after)
    if head(before) != head(after):
        first, no_first = None, "there is no reading from before it"
    counted = findings(
        first,
        last,
        result,
        workload,
        problem=no_first or no_last,
        vocabulary=observed.vocabulary,
        prompts=prompts,
        servers=observed.servers,
    )
    others = second_listener(observed.port, observed.listener)
    return (*counted, *(_foreign(holder) for holder in observed.strangers), *others)


def head(text: str) -> str:
    """Return the first line of a kept reading: of which attempt, and of which start of the server, it is."""
    return text.partition("\n")[0]


def reading(text: str) -> tuple[Reading | None, str]:
    """Return what a kept reading says, or why it says nothing; several servers are added up."""
    third = next(iter(text.split("\n", 3)[2:3]), "")
    if third.startswith(NOT_READ):
        return None, one_line(third.removeprefix(NOT_READ), 200)
    places = [match.start() for match in _ENDPOINT.finditer(text)]
    return total(read(text[a:b]) for a, b in itertools.pairwise([*places, len(text)])), ""


def to_json(observed: Observed) -> bytes:
    """Return the content of witness.json."""
    document = {
        "servers": observed.servers,
        "vocabulary": observed.vocabulary,
        "strangers": list(observed.strangers),
        "listener": observed.listener,
        "port": observed.port,
        "prompts_sha256": observed.prompts_sha256,
    }
    return f"{json.dumps(document, indent=1)}\n".encode()


def from_json(content: bytes) -> Observed | None:
    """Return what `to_json` wrote; None when it is something else."""
    try:
        document = json.loads(content)
        servers, vocabulary = document["servers"], document["vocabulary"]
        strangers, digest = tuple(map(str, document["strangers"])), str(document["prompts_sha256"])
        listener, port = str(document.get("listener", "")), document.get("port", 0)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    whole = isinstance(servers, int) and isinstance(vocabulary, int | None) and isinstance(port, int)
    if not whole:
        return None
    return Observed(
        servers=servers,
        vocabulary=vocabulary,
        strangers=strangers,
        listener=listener,
        port=port,
        prompts_sha256=digest,
    )


def _foreign(holder: str) -> Finding:
    text = f"somebody else was on its GPUs when it ended: {holder}"
    return Finding(rule="foreign-load", verdict=Verdict.SUSPECT, text=text)

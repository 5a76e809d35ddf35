"""What a bench client left behind: kept below the run's directory, read, judged, stored."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

from fleetbench import __version__
from fleetbench.bench.client import RESULT, Client, Left, State
from fleetbench.errors import FleetbenchError, Unreadable, one_line, without_secrets
from fleetbench.results import raw_files
from fleetbench.results.parse import parse
from fleetbench.results.rows import Json, MeasurementRow
from fleetbench.results.store import Store
from fleetbench.results.values import Block

ATTEMPTS = 2
CLIENT = "client.json"
# What `keep` writes of one attempt; the readings of the server's counters belong to the next one already.
_OF_AN_ATTEMPT = ("stdout", "stderr", RESULT, CLIENT)


def keep(store: Store, row: MeasurementRow, made: Client, left: Left, **more: Json) -> None:
    """Write the raw files below the run's directory, each whole or not at all; `more` goes to client.json.

    What an earlier attempt left is moved to `attempt-N` beside them.
    """
    directory = store.directory(row.run_id) / row.directory
    _set_earlier_aside(directory, row.attempt)
    described = {
        "fleetbench": __version__,
        "unit": made.unit,
        "program": left.program,
        "not_preloaded": left.not_preloaded,
        **more,
        "command": without_secrets(shlex.join(made.command)),
        "environment": {name: masked(name, value) for name, value in made.environment.items()},
        "exit_status": left.exit_status,
        "systemd_result": left.result,
        "limit_s": made.limit_s,
        "seed": row.seed,
        "client": row.client,
        "attempt": row.attempt,
        "fetched_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    keep_files(directory, dict(left.content) | {CLIENT: json.dumps(described, indent=2).encode()})


def _set_earlier_aside(directory: Path, attempt: int) -> None:
    """Move what an earlier attempt left: where this one leaves less, its files must not stand for these."""
    stored = [raw_files.stored_name(directory, name) for name in _OF_AN_ATTEMPT]
    earlier = described(directory).get("attempt")
    try:
        if isinstance(earlier, int) and 0 < earlier < attempt:
            place = directory / f"attempt-{earlier}"
            place.mkdir(exist_ok=True)
            for name in filter(None, stored):
                (directory / name).replace(place / name)
        else:  # the same attempt, fetched once more
            for name in filter(None, stored):
                (directory / name).unlink()
    except OSError as exc:
        raise _no_room(directory, exc) from exc


def described(directory: Path) -> Mapping[str, Json]:
    """Return what client.json says in a measurement's directory; empty when it is not there, or broken."""
    try:
        found = json.loads(raw_files.read(directory, CLIENT) or b"{}")
    except (ValueError, RecursionError, Unreadable):
        return {}
    return found if isinstance(found, dict) else {}


def masked(name: str, value: str) -> str:
    """Return the value of a variable as it may be kept: `***` where its name or itself tells of a secret."""
    shown = without_secrets(f"{name}={value}").partition("=")[2]
    return "***" if shown.startswith("***") else shown  # a secret may have spaces


def keep_files(directory: Path, content: Mapping[str, bytes]) -> None:
    """Write files into a directory of the run, atomically and large ones packed; FleetbenchError when there
    is no room or right."""
    try:
        raw_files.keep(directory, content)
    except OSError as exc:
        raise _no_room(directory, exc) from exc


def _no_room(directory: Path, exc: OSError) -> FleetbenchError:
    return FleetbenchError(
        f"cannot keep the raw files in {directory}",
        cause=exc.strerror or str(exc),
        next_step="make room or mend the rights, then resume the run: nothing on the host is lost",
    )


def read_blocks(content: Mapping[str, bytes], source: str) -> tuple[Block | None, tuple[str, ...]]:
    """Given what a client left, return the block to trust (JSON first, then text) and what was unreadable."""
    reasons: list[str] = []
    for name in (RESULT, "stdout"):
        if name not in content:
            reasons.append(f"no {name}")
            continue
        try:
            blocks = parse(content[name].decode("utf-8", "replace"), f"{source}/{name}")
        except Unreadable as exc:
            reasons.append(f"{name}: {exc.what}")
            continue
        if blocks:
            return blocks[-1], tuple(reasons)
    return None, tuple(reasons)


def begin_again(
    attempt: int, state: State, left: Left, *, outlived: bool, wanted: int, rust: bool
) -> tuple[str, bool]:
    """Return why a client is to be started once more, and whether that is the Python client's turn.

    Empty: what it left stands. `outlived`: its server went away in between; then only a good end of all
    `wanted` requests counts. `rust`: it was the Rust client, and nobody had insisted on that.
    """
    block = read_blocks(left.content, "")[0]
    if outlived:
        result = block.result if block is not None and block.complete else None
        good = result is not None and result.completed == wanted and not result.failed
        return ("" if good else "its server went away in between; measuring again"), False
    if attempt < ATTEMPTS and state is State.LOST:
        return "the client host was rebooted; measuring again", False
    if rust and left.exit_status not in (None, 0) and block is None:
        return "the Rust client came to nothing; measuring with the Python client", True
    if attempt < ATTEMPTS and left.crashed and block is None:
        return f"the client crashed, {left.crashed}; measuring again", False
    return "", False


def last_words(left: Left) -> tuple[str, ...]:
    """Return what the client said last, and how its unit ended when it could not say its status."""
    said = re.split(r"[\r\n]+", left.content.get("stderr", b"").decode("utf-8", "replace").strip())
    words = (f"its last words: {one_line(said[-1], 200)}",) if said[-1] else ()
    return words if left.exit_status is not None else (*words, f"systemd calls its end {left.result!r}")

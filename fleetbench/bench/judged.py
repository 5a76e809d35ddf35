"""What one execution of the bench client is worth, from what it left; `verify` asks the same once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetbench.bench.client import RESULT, Left
from fleetbench.bench.left import described, last_words
from fleetbench.bench.witness import Seen
from fleetbench.bench_program import Program
from fleetbench.model import Workload
from fleetbench.results import raw_files
from fleetbench.results.records import workload_of
from fleetbench.results.rows import Finding, Judgement, MeasurementRow, Verdict
from fleetbench.results.rules.around import Around
from fleetbench.results.samples import read_samples
from fleetbench.results.values import Block
from fleetbench.results.verdict import judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a client was asked to do: `limit_s` seconds it was given, `notes` are said of it anyway."""

    workload: Workload
    limit_s: float
    notes: tuple[str, ...] = ()


def judged(
    row: MeasurementRow,
    left: Left,
    block: Block | None,
    unread: Sequence[str],
    sent: Sent,
    seen: Seen,
    near: Around,
    *,
    client_version: str = "",
) -> tuple[Judgement, tuple[str, ...]]:
    """Return the judgement of a measurement, and what else is to be said.

    Args:
        row: as it was written down before it began.
        left: what its client left. block, unread: the report in it, and why there is none.
        sent: what the client was asked to do. seen: what a witness says. near: what is around it.
        client_version: vLLM that the client belongs to.
    """
    said: tuple[str, ...] = sent.notes
    if left.result != "timeout" and block is None:
        said += (*unread, *last_words(left))
    judgement = judge(
        block.result if block else None,
        sent.workload,
        complete=block.complete if block else True,
        problems=block.problems if block else tuple(unread),
        exit_status=left.exit_status,
        client_program=left.program or "",
        client_version=client_version if left.program else "",
        witnessed=(*_limit(sent, left), *seen.findings),
        telemetry=seen.telemetry,
        ceiling=seen.ceiling,
        samples=read_samples(left.content.get(RESULT, b"")),
        trial=near.trial,
        siblings=near.siblings,
        seed=row.seed,
        earlier=near.earlier,
    )
    return judgement, said


def kept(directory: Path) -> tuple[Left, Sent] | None:
    """Return what a client left, and what it was asked, as `left.keep` wrote it below the run's directory.

    None when client.json does not say it: it is broken, or older than the notes of what was sent. Unreadable
    when a file is there that cannot be read.
    """
    known = described(directory)
    status, workload, limit_s = known.get("exit_status"), known.get("workload"), known.get("limit_s")
    notes = known.get("notes")
    if not isinstance(workload, dict) or not isinstance(limit_s, int | float) or not isinstance(notes, list):
        return None
    try:
        sent = Sent(workload=workload_of(workload), limit_s=limit_s, notes=tuple(map(str, notes)))
        program = Program(str(known["program"])) if known.get("program") else None
    except (TypeError, ValueError):
        return None
    content = {name: raw_files.read(directory, name) for name in (RESULT, "stdout", "stderr")}
    left = Left(
        content={name: data for name, data in content.items() if data is not None},
        exit_status=status if isinstance(status, int) else None,
        result=str(known.get("systemd_result", "")),
        program=program,
    )
    return left, sent


def _limit(sent: Sent, left: Left) -> tuple[Finding, ...]:
    if left.result != "timeout":
        return ()
    text = f"the client ran into its limit of {sent.limit_s:g} s and was killed"
    numbers = {"limit_s": sent.limit_s}
    return (Finding(rule="client-limit", verdict=Verdict.INVALID, text=text, numbers=numbers),)

"""Why did it fail? A log in, one cause out, or an honest "that is not in here".

`classify` takes what a server, an installer or a bench client left behind (the whole journal of one start,
stdout and stderr together) and names the root cause by the table of signatures, with the line that shows it.
It never takes the last line for the cause: vLLM's last line only says that something else failed. It abstains
rather than guess: when the text names no cause, when an error is of no known class (the line is quoted), and
when nothing failed at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetbench.errors import one_line, without_secrets
from fleetbench.failure_table import Role, failure_table
from fleetbench.log_lines import LogLine, read_lines, without_ansi
from fleetbench.log_signs import Hit, Signs, read_kernel, read_signs
from fleetbench.model import Failure

MAX_EVIDENCE = 400
MAX_ALSO = 5

NOTHING_FAILED = "no sign of a failure in this text"
NOT_IN_WINDOW = "cause not in this window"
UNRECOGNISED = "unrecognised error"

_FETCH_ALL = (
    "fetch the whole journal of this start, stdout and stderr, from its first line "
    "(journalctl _SYSTEMD_INVOCATION_ID=…): the cause stands in the EngineCore and Worker lines"
)
_READ_ERROR = "read the traceback above the quoted line; no class of the table describes this error"
_NOTHING_TO_DO = "nothing; when the service misbehaves all the same, look at a longer window"

_FAILED_PROCS = re.compile(r"Failed (?:core|frontend) proc\(s\): \{(?P<names>[^}]{1,400})\}")
_RESTARTS = re.compile(r"(?:restart counter is at |NRestarts=)(?P<count>\d{1,9})")
# Kernel lines about memory and GPUs speak of this server only when the server's own log names no cause.
_KERNEL_BESIDE = ("system", "systemd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is known about a failure.

    Attributes:
        failure: the class with cause, evidence and advice; None when abstaining.
        reason: why there is no class, one sentence; empty when there is one.
        evidence: the decisive line, also when abstaining (then the best line there is, or empty).
        line: its number in the text, from 1; None when it comes from elsewhere.
        next_step: what to do now.
        processes: who reported this failure (ranks), each once.
        also: further classes that the text shows, nearest to the cause first.
        restarts: systemd's restart counter, None when the text has none.
    """

    failure: Failure | None
    reason: str = ""
    evidence: str = ""
    line: int | None = None
    next_step: str = ""
    processes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    restarts: int | None = None

    @property
    def kind(self) -> str | None:
        """Name of the class, None when abstaining."""
        return None if self.failure is None else self.failure.kind


def classify(
    text: str, *, unit_result: str = "", exit_code: int | None = None, kernel_log: str = ""
) -> Diagnosis:
    """Given the log of one start, return its failure, or why it names none.

    Args:
        text: stdout, stderr and systemd's lines of the start, in any form that journalctl, containers,
            `grep -n` and terminals give them.
        unit_result: systemd's `Result` of the unit (`exit-code`, `oom-kill`, `signal`, …), if known.
        exit_code: systemd's `ExecMainStatus` or the process's own exit status, if known.
        kernel_log: the kernel's lines of the same time (`journalctl -k`), if known.
    """
    table = failure_table()
    clean = without_ansi(text)
    written = clean.count("\n") + 1
    properties = _properties(unit_result, exit_code)
    everything = "\n".join([clean, *properties]) if properties else clean
    starts = read_signs(read_lines(everything), everything, table)
    if kernel_log:
        _add_kernel_hits(starts[-1], read_kernel(read_lines(without_ansi(kernel_log)), table))
    diagnosis = _over_starts(starts, empty=not text.strip() and not properties)
    counts = [int(match["count"]) for match in _RESTARTS.finditer(clean)]
    in_text = diagnosis.line is not None and 0 < diagnosis.line <= written
    return _with(diagnosis, line=diagnosis.line if in_text else None, restarts=max(counts, default=None))


def _properties(unit_result: str, exit_code: int | None) -> list[str]:
    """Return what systemd knows the way `systemctl show` prints it: the table reads both alike."""
    result = unit_result if unit_result != "success" else ""
    lines = [f"Result={one_line(result, 40)}"] if result else []
    # Statuses above 199 mean something only when systemd gives them; a program may end with any number.
    if exit_code and (result or exit_code < 200):
        lines.append(f"ExecMainStatus={exit_code}")
    return lines


def _add_kernel_hits(signs: Signs, hits: list[Hit]) -> None:
    """Add hits of the kernel's log to a start whose own log leaves room for them.

    The kernel writes about everything on the host; a server that names its own cause is believed.
    """
    own_roots = [
        h for h in signs.hits if h.signature.role is Role.ROOT and h.signature.group not in _KERNEL_BESIDE
    ]
    if own_roots:
        return
    beside = any(h.signature.group in _KERNEL_BESIDE for h in signs.hits)
    silent = not (signs.errors or signs.hits)
    signs.hits += [h for h in hits if h.signature.group not in _KERNEL_BESIDE or beside or silent]


def _over_starts(starts: list[Signs], *, empty: bool) -> Diagnosis:
    """Return the diagnosis of the last start that names a cause, or the reason why none does."""
    fallback: Diagnosis | None = None
    for position, signs in enumerate(reversed(starts)):
        found = _of_start(signs)
        if found is None:
            if position == 0 and signs.ready is not None:
                return _of_ready(starts[:-1])
            continue
        if signs.messages and (found.failure is not None or found.evidence) and not _gave_up(signs):
            return found
        # Only systemd speaks here: the program's own lines of the start before say more.
        fallback = fallback or found
    if fallback is not None:
        return fallback
    reason = "the text is empty" if empty else NOTHING_FAILED
    return Diagnosis(failure=None, reason=reason, next_step=_FETCH_ALL if empty else _NOTHING_TO_DO)


def _gave_up(signs: Signs) -> bool:
    """Tell whether the start is none: systemd only says that it will not start again."""
    return bool(signs.hits) and all(h.signature.kind == "systemd-start-limit" for h in signs.hits)


def _of_ready(earlier: list[Signs]) -> Diagnosis:
    """Return the abstention for a text whose last start works, naming what an earlier one failed of."""
    for signs in reversed(earlier):
        found = _of_start(signs)
        if found is not None and found.failure is not None:
            reason = (
                f"the last start in this text is ready; an earlier one failed: {found.failure.kind}"
                f" (line {found.line}: {found.evidence})"
            )
            return Diagnosis(
                failure=None, reason=reason, next_step=_NOTHING_TO_DO, also=(found.failure.kind,)
            )
    return Diagnosis(failure=None, reason=NOTHING_FAILED, next_step=_NOTHING_TO_DO)


def _of_start(signs: Signs) -> Diagnosis | None:
    """Return the diagnosis of one start; None when nothing in it speaks of a failure."""
    hits, stopped = _after_stop(signs)
    first_error = signs.errors[0][0] if signs.errors else None
    roots = [h for h in hits if h.signature.role is Role.ROOT]
    echoes = [
        h for h in hits if h.signature.role is Role.ECHO and (first_error is None or h.index < first_error)
    ]
    wrappers = [h for h in hits if h.signature.role is Role.WRAPPER]
    for candidates in (roots, echoes, wrappers):
        if candidates:
            return _failed(min(candidates, key=lambda h: h.rank), hits, signs)
    if signs.errors:
        line = _plainest(signs.errors)
        return _abstain(f"{UNRECOGNISED}: no class describes it; its line is quoted", line, _READ_ERROR)
    if stopped:
        return Diagnosis(
            failure=None, reason="an orderly stop by a signal, not a failure", next_step=_NOTHING_TO_DO
        )
    if signs.wrappers:
        line = signs.wrappers[-1][1]
        named = [m["names"] for _, w in signs.wrappers if (m := _FAILED_PROCS.search(w.text))]
        who = ", ".join(sorted(set(re.findall(r"'(\w{1,60})'", named[-1])))) if named else ""
        who = f" ({who})" if who else ""
        return _abstain(
            f"{NOT_IN_WINDOW}: it only says that the engine{who} failed to start", line, _FETCH_ALL
        )
    if signs.exits:
        line = signs.exits[0][1]
        return _abstain(f"{NOT_IN_WINDOW}: it only says that the main process ended", line, _FETCH_ALL)
    return None


def _after_stop(signs: Signs) -> tuple[list[Hit], bool]:
    """Return the hits that count, and whether the server was told to stop before anything failed.

    vLLM's processes report each other's death while they shut down in good order, and the API server stops
    its engine with the same signal after a failure of its own: what counts is which came first.
    """
    stop = signs.stops
    if stop is None:
        return signs.hits, False
    before = any(index < stop for index, _ in [*signs.errors, *signs.wrappers])
    if before or any(h.index < stop for h in signs.hits):
        return signs.hits, False
    return [h for h in signs.hits if h.signature.role is Role.ROOT], True


def _failed(hit: Hit, hits: list[Hit], signs: Signs) -> Diagnosis:
    signature = hit.signature
    evidence, line = _quote(hit.line.text, hit.end), hit.line
    if signature.quotes_first_error and signs.errors:
        line = _plainest(signs.errors)
        evidence = _quote(line.text)
    own = [h for h in hits if h.signature is signature]
    lines = {h.index for h in own}
    others = [h.signature.kind for h in sorted(hits, key=lambda h: h.rank) if h.index not in lines]
    failure = Failure(
        kind=signature.kind,
        cause=signature.sentence(hit.groups),
        evidence=evidence,
        advice=signature.advice,
        retryable=signature.retryable,
    )
    return Diagnosis(
        failure=failure,
        evidence=evidence,
        line=line.number,
        next_step=signature.advice,
        processes=tuple(dict.fromkeys(h.line.process for h in own if h.line.process)),
        also=tuple(dict.fromkeys(others))[:MAX_ALSO],
    )


def _abstain(reason: str, line: LogLine, next_step: str) -> Diagnosis:
    return Diagnosis(
        failure=None, reason=reason, evidence=_quote(line.text), line=line.number, next_step=next_step
    )


def _plainest(errors: list[tuple[int, LogLine]]) -> LogLine:
    """Return the first error's line; pydantic hides the message one line below its own exception."""
    first = errors[0][1]
    if "validation error" in first.text:
        return next((line for _, line in errors if line.text.startswith("  Value error, ")), first)
    return first


def _quote(message: str, end: int = 0) -> str:
    """Return the message as evidence, with the part before the match cut off where it would not fit."""
    if end > MAX_EVIDENCE - 20:
        message = "…" + message[end - MAX_EVIDENCE + 100 :]
    return one_line(without_secrets(message), MAX_EVIDENCE)


def _with(diagnosis: Diagnosis, *, line: int | None, restarts: int | None) -> Diagnosis:
    return Diagnosis(
        failure=diagnosis.failure,
        reason=diagnosis.reason,
        evidence=diagnosis.evidence,
        line=line,
        next_step=diagnosis.next_step,
        processes=diagnosis.processes,
        also=diagnosis.also,
        restarts=restarts,
    )

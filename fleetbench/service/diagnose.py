"""Why a server did not start: the whole journal of that start, systemd's verdict and the kernel's log."""

from __future__ import annotations

from fleetbench.errors import CommandFailed, NotReady
from fleetbench.failures import NOTHING_FAILED, classify
from fleetbench.model import Failure
from fleetbench.service_log import read_service_log
from fleetbench.transport.base import CommandResult, bash
from fleetbench.transport.durable import DurableSession

HANGS = "server-hangs"

_DIAGNOSE = r"""
export LC_ALL=C.UTF-8
unit=$1 invocation=$2
# What a server wrote last may still be on its way to the journal when systemd has reported its end.
timeout 10 journalctl --sync 2>/dev/null
systemctl show "$unit" -p Result -p ExecMainStatus -p ExecMainCode -p NRestarts -p InvocationID
echo
if [ -n "$invocation" ]; then
  # systemd's own lines about the unit (203/EXEC, 217/USER, start-limit) carry INVOCATION_ID instead.
  journalctl "_SYSTEMD_INVOCATION_ID=$invocation" + "INVOCATION_ID=$invocation" -o cat --no-pager |
    tail -c 4000000
else
  journalctl -u "$unit" -b -o cat --no-pager -n 200
fi
"""
_KERNEL = r"""
journalctl -k -b --no-pager -o cat --since "-30min" 2>/dev/null |
  grep -iE 'out of memory|oom-kill|oom_reaper|Xid|avc: +denied' | tail -n 40
exit 0
"""


def not_ready(
    session: DurableSession, unit: str, invocation: str, *, timed_out_s: float = 0, served: bool = False
) -> NotReady:
    """Make the error for a server that died or hangs, with its decisive journal line.

    `served` says that it has been ready before.
    """
    failure = diagnose(session, unit, invocation, timed_out_s=timed_out_s)
    return _error(session, unit, invocation, failure, "died" if served else "did not become ready")


def hanging(session: DurableSession, unit: str, invocation: str, seen: str) -> NotReady:
    """Make the error for a server that is up and works no more; `seen` is what showed it."""
    failure = diagnose(session, unit, invocation, hangs=seen)
    return _error(session, unit, invocation, failure, "hangs")


def _error(session: DurableSession, unit: str, invocation: str, failure: Failure, what: str) -> NotReady:
    error = NotReady(
        f"{unit} {what}: {failure.cause}",
        host=session.host.name,
        cause=failure.evidence,
        next_step=failure.advice or f"journalctl -u {unit} on the host",
    )
    error.failure = failure
    error.unit, error.invocation = unit, invocation
    return error


def diagnose(
    session: DurableSession, unit: str, invocation: str, *, timed_out_s: float = 0, hangs: str = ""
) -> Failure:
    """Return why a start failed, from the whole journal of that start and the kernel's.

    The unit still runs when it has `timed_out_s` or `hangs` (then this says what was seen of it).
    """
    result = session.read(bash(_DIAGNOSE, unit, invocation), timeout_s=60)
    shown, _, journal = result.stdout.partition("\n\n")
    state = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    kernel = session.read(bash(_KERNEL), timeout_s=30)
    # What systemd shows of another start says nothing about this one.
    other = bool(invocation) and state.get("InvocationID", "") not in ("", invocation)
    runs = bool(timed_out_s or hangs)
    unseen = runs or other
    status = state.get("ExecMainStatus", "")
    diagnosis = classify(
        journal,
        unit_result="" if unseen else state.get("Result", ""),
        exit_code=int(status) if status.isdigit() and not unseen else None,
        kernel_log=_if_ok(kernel),
    )
    if diagnosis.failure is not None:
        return diagnosis.failure
    if hangs:
        cause = f"it hangs: {hangs}"
    elif timed_out_s:
        cause = f"no answer within {timed_out_s:g} s, {_last_phase(journal)}"
    elif other:
        cause = "it ended, and another start of it runs now"
    else:
        cause = f"it ended ({state.get('Result', '?')}, status {status})"
    logs = f"invoke logs --hosts {session.host.name} --unit {unit} --lines 200"
    lines = [line for line in journal.splitlines() if line.strip()]
    return Failure(
        kind=HANGS if hangs else "timeout.ready" if timed_out_s else "unknown",
        cause=f"{cause}; {diagnosis.reason}",
        evidence=diagnosis.evidence or (lines[-1] if lines else ""),
        advice=(diagnosis.next_step if diagnosis.reason != NOTHING_FAILED else "") or logs,
    )


def _last_phase(journal: str) -> str:
    """Return how far a start came, for a server that still is at it."""
    log = read_service_log(journal)
    if log.phase is None:
        return "and it has said nothing of how far it is"
    percent = f" {log.percent}%" if log.percent is not None else ""
    return f"the last phase was {log.phase.value}{percent}"


def _if_ok(result: CommandResult) -> str:
    if not result.ok:
        raise CommandFailed("cannot read the kernel log", cause=result.last_line)
    return result.stdout

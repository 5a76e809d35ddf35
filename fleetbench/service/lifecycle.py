"""Stop, drain, start, ready: the one explicit state machine of a server, and the only loops over time.

`Restart=` and readiness are judged from outside because vLLM tells systemd nothing: a unit is "active" from
its first instruction on, and a crash loop is "active" most of the time (each start lasts longer than the
pause). What counts is the invocation: a new one means that the old one died.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleetbench.errors import CommandFailed, NotReady, one_line
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.failures import classify
from fleetbench.model import Failure, GpuSet, ServiceSpec
from fleetbench.service import http, watch
from fleetbench.transport.base import CommandResult, bash
from fleetbench.transport.durable import DurableSession

Said = Callable[[str], None]
ReadFacts = Callable[[DurableSession], HostFacts]

# Memory that a driver and its contexts may hold on an idle GPU (a display, persistence mode, MPS).
IDLE_MIB = 1024
_POLL_S = 0.7

_DIAGNOSE = r"""
export LC_ALL=C.UTF-8
unit=$1 invocation=$2
systemctl show "$unit" -p Result -p ExecMainStatus -p ExecMainCode -p NRestarts
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A server that answered: seconds from start to its first completion, and what it says it is."""

    seconds: float
    served: http.Served
    invocation: str


def start(session: DurableSession, spec: ServiceSpec) -> None:
    """Start a unit and return once its program runs (Type=exec); NotReady with the cause otherwise.

    `reset-failed` first: manual starts count against StartLimit too. Starting twice is the same as once, so
    the command may be repeated after a lost connection.
    """
    session.read(("systemctl", "reset-failed", spec.unit))
    started = session.read(("systemctl", "start", spec.unit), timeout_s=120)
    if not started.ok:
        shown = session.read(("systemctl", "show", spec.unit, "-P", "InvocationID"))
        raise not_ready(session, spec.unit, shown.stdout.strip())


def stop(session: DurableSession, unit: str, *, said: Said = lambda _: None) -> None:
    """Stop a unit and wait until its cgroup is empty; systemd kills what does not go by itself."""
    said(f"stopping {unit}")
    stopped = session.read(("systemctl", "stop", unit), timeout_s=240)
    if stopped.exit_status not in (0, 5):  # 5: no such unit, so nothing of it runs
        raise CommandFailed(f"cannot stop {unit}", host=session.host.name, cause=stopped.last_line)


def drain(
    session: DurableSession,
    gpus: GpuSet,
    read_facts: ReadFacts,
    *,
    baseline_mib: Mapping[int, int] | None = None,
    port: int | None = None,
    timeout_s: float = 120,
    said: Said = lambda _: None,
) -> HostFacts:
    """Wait until nobody holds the GPUs (and the port), and return the facts of that moment.

    "Nobody" means: no compute process on any GPU of the set, and used memory back at `baseline_mib` (or
    below IDLE_MIB when no baseline is known). NotReady names pid, program and unit of the holder.
    """
    give_up = time.monotonic() + timeout_s
    told = False
    while True:
        facts = read_facts(session)
        holder = holder_of(facts, gpus, baseline_mib or {}, port)
        if not holder:
            return facts
        if time.monotonic() > give_up:
            raise NotReady(
                f"GPU {gpus} did not become free within {timeout_s:g} s" if gpus.indices else "port is taken",
                host=session.host.name,
                cause=holder,
                next_step="end that process, or choose other GPUs or another port",
            )
        if not told:
            said(f"waiting: {holder}")
            told = True
        time.sleep(_POLL_S)


def holder_of(
    facts: HostFacts, gpus: GpuSet, baseline_mib: Mapping[int, int], port: int | None = None
) -> str:
    """Given facts, say who holds one of the GPUs or the port; empty when nobody does."""
    if port is not None and not isinstance(facts.listeners, Missing):
        for listener in facts.listeners:
            if listener.port == port:
                owner = listener.unit or listener.process or "an unknown process"
                return f"port {port} is held by {owner} (pid {listener.pid})"
    if isinstance(facts.gpus, Missing):
        return ""
    for gpu in facts.gpus:
        if gpu.index not in gpus.indices:
            continue
        for process in gpu.processes:
            unit = f", unit {process.unit}" if process.unit else ", no unit"
            size = f", {process.used_mib} MiB" if process.used_mib is not None else ""
            return f"GPU {gpu.index} is held by pid {process.pid} ({process.name}{unit}{size})"
        limit = baseline_mib.get(gpu.index, IDLE_MIB) + 64
        if gpu.used_mib is not None and gpu.used_mib > max(limit, IDLE_MIB):
            return f"GPU {gpu.index} still has {gpu.used_mib} MiB in use and no process to show for it"
    return ""


def wait_ready(
    session: DurableSession,
    spec: ServiceSpec,
    *,
    timeout_s: float,
    said: Said = lambda _: None,
    phase_of: Callable[[str], str] = lambda _: "",
) -> Ready:
    """Wait until the server answers a completion; NotReady with the cause within seconds of its death.

    Ready means: unit active, every listener on the port in the unit's own cgroup, /health 200, /v1/models
    names the model, one completion answered, and still the same invocation afterwards.
    """
    began = time.monotonic()
    invocation = ""
    address = "127.0.0.1" if spec.bind in ("0.0.0.0", "::", "") else spec.bind  # noqa: S104  compared, not bound
    last_said = ""
    while True:
        now = look(session, spec.unit, spec.port, address=address)
        invocation = invocation or now.invocation
        if now.dead or now.restarts > 0 or (now.invocation and now.invocation != invocation):
            raise not_ready(session, spec.unit, invocation)
        foreign = now.foreign_owner(spec.unit)
        if foreign:
            raise NotReady(
                f"port {spec.port} belongs to somebody else",
                host=session.host.name,
                cause=foreign,
                next_step="choose another port, or stop that process",
            )
        if now.health == 200:
            served = _first_answer(session, spec, address, invocation)
            after = look(session, spec.unit, spec.port, address=address, lines=0)
            if after.invocation != invocation or after.health != 200:
                raise not_ready(session, spec.unit, invocation)
            return Ready(seconds=time.monotonic() - began, served=served, invocation=invocation)
        elapsed = time.monotonic() - began
        if elapsed > timeout_s:
            raise not_ready(session, spec.unit, invocation, timed_out_s=timeout_s)
        line = next((p for p in map(phase_of, reversed(now.journal)) if p), "") or (
            now.journal[-1] if now.journal else ""
        )
        if line and line != last_said:
            said(f"{spec.name} {elapsed:.0f} s: {one_line(line, 160)}")
            last_said = line
        time.sleep(_POLL_S)


def look(
    session: DurableSession, unit: str, port: int, *, address: str = "127.0.0.1", lines: int = 30
) -> watch.Watch:
    """Look once at a unit and its port."""
    argv, token = watch.command(unit, port, address=address, lines=lines)
    return watch.parse(session.read(argv, timeout_s=30).stdout, token)


def not_ready(session: DurableSession, unit: str, invocation: str, *, timed_out_s: float = 0) -> NotReady:
    """Make the error for a server that died or hangs, with its decisive journal line."""
    failure = diagnose(session, unit, invocation, timed_out_s=timed_out_s)
    error = NotReady(
        f"{unit} did not become ready: {failure.cause}",
        host=session.host.name,
        cause=failure.evidence,
        next_step=failure.advice or f"journalctl -u {unit} on the host",
    )
    error.failure = failure
    return error


def diagnose(session: DurableSession, unit: str, invocation: str, *, timed_out_s: float = 0) -> Failure:
    """Return why a start failed, from the whole journal of that start and the kernel's."""
    result = session.read(bash(_DIAGNOSE, unit, invocation), timeout_s=60)
    shown, _, journal = result.stdout.partition("\n\n")
    state = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    kernel = session.read(bash(_KERNEL), timeout_s=30)
    status = state.get("ExecMainStatus", "")
    diagnosis = classify(
        journal,
        unit_result="" if timed_out_s else state.get("Result", ""),
        exit_code=int(status) if status.isdigit() and not timed_out_s else None,
        kernel_log=_if_ok(kernel),
    )
    if diagnosis.failure is not None:
        return diagnosis.failure
    last = next((line for line in reversed(journal.splitlines()) if line.strip()), "")
    cause = (
        f"no answer within {timed_out_s:g} s"
        if timed_out_s
        else f"it ended ({state.get('Result', '?')}, {status})"
    )
    return Failure(
        kind="timeout.ready" if timed_out_s else "unknown",
        cause=f"{cause}; {diagnosis.reason}",
        evidence=last,
        advice=f"read the whole log: invoke logs --hosts {session.host.name} --unit {unit}",
    )


def _first_answer(session: DurableSession, spec: ServiceSpec, address: str, invocation: str) -> http.Served:
    try:
        with session.forward(spec.port, address) as local:
            return http.ask(local, spec.served_name or spec.model)
    except http.Unanswered as exc:
        # The engine may die on the first request: give the unit a moment to show it, then name that cause.
        time.sleep(1.5)
        now = look(session, spec.unit, spec.port, address=address, lines=0)
        if now.dead or now.invocation != invocation or now.health != 200:
            raise not_ready(session, spec.unit, invocation) from exc
        raise NotReady(
            f"{spec.unit} is up but does not serve: {exc.what}",
            host=session.host.name,
            cause=exc.cause,
            next_step=f"invoke logs --hosts {session.host.name} --unit {spec.unit}",
        ) from exc


def _if_ok(result: CommandResult) -> str:
    if not result.ok:
        raise CommandFailed("cannot read the kernel log", cause=result.last_line)
    return result.stdout

"""Several units that are nothing without each other: started, watched and stopped in one command each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleetbench.errors import CommandFailed
from fleetbench.facts.systemd import blocks
from fleetbench.service.diagnose import not_ready
from fleetbench.service.lifecycle import Said
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

# Wait until systemd has done with the start of each unit, then say whether all of them run. Asking for the
# start a second time would start again what has begun and failed in between.
_STARTED = """
for unit; do
  while job=$(systemctl show -p Job --value -- "$unit"); [ "${job:-0}" != 0 ]; do sleep 0.05; done
done
for unit; do
  state=$(systemctl show -p ActiveState --value -- "$unit")
  [ "$state" = active ] || { echo "$unit ended at once"; exit 1; }
done
"""


def start_all(
    session: DurableSession,
    units: Sequence[str],
    began: dict[str, str],
    *,
    guard: Callable[..., None] | None = None,
) -> None:
    """Start units side by side; `began` gets each one's invocation id once its program runs (Type=exec).

    `guard` runs a quick command (its words are its arguments) only while the host is ours; without it nobody
    else can be there. NotReady with the cause of the first unit that does not run. Like `lifecycle.start`, it
    may be repeated.
    """
    session.read(("systemctl", "reset-failed", *units))
    asked: tuple[str, ...] = ("systemctl", "start", *units)
    if guard is not None:
        guard("systemctl", "start", "--no-block", *units)
        asked = bash(_STARTED, *units)
    started = session.change(asked, step=f"start {', '.join(units)}", timeout_s=120)
    shown = _show(session, units)
    began |= {unit: shown.get(unit, {}).get("InvocationID", "") for unit in units}
    if not started.ok:
        dead = next((unit for unit in units if shown.get(unit, {}).get("ActiveState") != "active"), units[0])
        raise not_ready(session, dead, began[dead])


def first_dead(session: DurableSession, invocations: Mapping[str, str]) -> str:
    """Return the first of these units that is not active, or not the start that it was; empty: all are well.

    `invocations` holds the id of that start by unit.
    """
    now = _show(session, tuple(invocations))
    for unit, invocation in invocations.items():
        shown = now.get(unit, {})
        if shown.get("InvocationID") != invocation or shown.get("ActiveState") != "active":
            return unit
    return ""


def stop_all(session: DurableSession, units: Sequence[str], *, said: Said = lambda _: None) -> None:
    """Stop units side by side and wait until their cgroups are empty; those that do not exist are stopped."""
    if not units:
        return
    said(f"stopping {', '.join(units)}")
    step = f"stop {', '.join(units)}"
    stopped = session.change(("systemctl", "stop", *units), step=step, timeout_s=240)
    if stopped.exit_status not in (
        0,
        5,
    ):  # 5: one does not exist; the others stop all the same
        raise CommandFailed(
            f"cannot stop {', '.join(units)}", host=session.host.name, cause=stopped.last_line
        )


def _show(session: DurableSession, units: Sequence[str]) -> dict[str, dict[str, str]]:
    asked = ("systemctl", "show", "-p", "Id", "-p", "InvocationID", "-p", "ActiveState", "--", *units)
    return {shown.get("Id", ""): shown for shown in blocks(session.read(asked).stdout)}

"""Stop, drain, start, ready: the one explicit state machine of a server, and the only loops over time.

`Restart=` and readiness are judged from outside because vLLM tells systemd nothing: a unit is "active" from
its first instruction on, and a crash loop is "active" most of the time (each start lasts longer than the
pause). What counts is the invocation: a new one means that the old one died.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleetbench.errors import CommandFailed, NotReady, one_line
from fleetbench.facts.values import HostFacts, Unit
from fleetbench.model import GpuSet, ServiceSpec
from fleetbench.service import http, watch
from fleetbench.service.diagnose import not_ready
from fleetbench.service.held import PORT_TAKEN, Held, obstacle
from fleetbench.transport.base import Session
from fleetbench.transport.durable import DurableSession
from fleetbench.units import exec_arguments

Said = Callable[[str], None]
ReadFacts = Callable[[DurableSession], HostFacts]

_POLL_S = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to start and wait for. `model` is the name it must serve; empty: whatever it serves."""

    unit: str
    port: int
    address: str = "127.0.0.1"
    model: str = ""

    @classmethod
    def of(cls, spec: ServiceSpec) -> Target:
        """Return the target that a spec describes."""
        return cls(
            unit=spec.unit,
            port=spec.port,
            address=address_of(spec.bind),
            model=spec.served_name or spec.model,
        )

    @classmethod
    def installed(cls, unit: Unit, facts: HostFacts) -> Target:
        """Return the target that an installed unit is; its file says on which address it listens."""
        return cls(unit=unit.name, port=unit.port or 0, address=address_of(bound_to(unit, facts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A server that answered: seconds from start to its first completion, and what it says it is."""

    seconds: float
    served: http.Served
    invocation: str


def address_of(bind: str) -> str:
    """Given the address that a server is bound to, return the one under which its own host reaches it."""
    return "127.0.0.1" if bind in ("0.0.0.0", "::", "") else bind  # noqa: S104  compared, not bound


def bound_to(unit: Unit, facts: HostFacts) -> str:
    """Return the `--host` of an installed unit; empty when its file does not say."""
    file = facts.files.get(unit.fragment)
    words = exec_arguments(file.text or "") if file is not None else ()
    return dict(itertools.pairwise(words)).get("--host", "")


def start(session: DurableSession, unit: str) -> str:
    """Start a unit; return its invocation id once its program runs (Type=exec), else NotReady with the cause.

    `reset-failed` first: manual starts count against StartLimit too. Starting twice is the same as once, so
    the command may be repeated after a lost connection.
    """
    session.read(("systemctl", "reset-failed", unit))
    started = session.change(("systemctl", "start", unit), step=f"start {unit}", timeout_s=120)
    invocation = session.read(("systemctl", "show", unit, "-P", "InvocationID")).stdout.strip()
    if not started.ok:
        raise not_ready(session, unit, invocation)
    return invocation


def stop(session: DurableSession, unit: str, *, said: Said = lambda _: None) -> None:
    """Stop a unit and wait until its cgroup is empty; systemd kills what does not go by itself."""
    said(f"stopping {unit}")
    stopped = session.change(("systemctl", "stop", unit), step=f"stop {unit}", timeout_s=240)
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
    facts: HostFacts | None = None,
) -> HostFacts:
    """Wait until nobody holds the GPUs (and the port), and return the facts of that moment.

    `facts` that were read just now save a first look.

    "Nobody" means: no compute process on any GPU of the set, and used memory back at `baseline_mib` (or
    below `held.IDLE_MIB` when no baseline is known). NotReady names pid, program and unit of the holder;
    that may go away by itself, so its failure is worth another try.
    """
    give_up = time.monotonic() + timeout_s
    told = False
    while True:
        facts = facts or read_facts(session)
        held = obstacle(facts, gpus, baseline_mib or {}, port)
        if held is None:
            return facts
        if time.monotonic() > give_up:
            raise _in_the_way(session, held)
        if not told:
            said(f"waiting: {held.sentence}")
            told = True
        time.sleep(_POLL_S)
        facts = None


def _in_the_way(session: DurableSession, held: Held) -> NotReady:
    failure = held.failure()
    error = NotReady(failure.cause, host=session.host.name, cause=held.sentence, next_step=failure.advice)
    error.failure = failure
    return error


def wait_ready(
    session: DurableSession,
    target: Target,
    *,
    invocation: str = "",
    timeout_s: float,
    said: Said = lambda _: None,
    phase_of: Callable[[str], str] = lambda _: "",
    seen: Callable[[str, float], None] = lambda *_: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Ready:
    """Wait until the server answers a completion; NotReady with the cause within seconds of its death.

    Ready means: unit active, every listener on the port in the unit's own cgroup, /health 200, /v1/models
    names the model, one completion answered, and still the same invocation afterwards. `invocation` is what
    `start` returned; empty: the one that is found running. `seen` gets the journal's last lines at each look,
    each with the seconds since it was written; the same line may come again. `meanwhile` is called at each
    look; it may raise to give up early, for instance when another server died that this one is nothing
    without.
    """
    began = time.monotonic()
    last_said = ""
    while True:
        now = look(session, target.unit, target.port, address=target.address)
        for line, ago_s in zip(now.journal, now.ages_s, strict=True):
            seen(line, ago_s)
        invocation = invocation or now.invocation
        if now.dead or (now.invocation and now.invocation != invocation):
            raise not_ready(session, target.unit, invocation)
        foreign = now.foreign_owner(target.unit)
        if foreign:
            raise _in_the_way(session, Held(PORT_TAKEN, f"port {target.port} is held by {foreign}"))
        if now.health == 200:
            served = _first_answer(session, target, invocation)
            after = look(session, target.unit, target.port, address=target.address, lines=0)
            if after.invocation != invocation or after.health != 200:
                raise not_ready(session, target.unit, invocation)
            return Ready(seconds=time.monotonic() - began, served=served, invocation=invocation)
        elapsed = time.monotonic() - began
        if elapsed > timeout_s:
            raise not_ready(session, target.unit, invocation, timed_out_s=timeout_s)
        line = next((p for p in map(phase_of, reversed(now.journal)) if p), "") or (
            now.journal[-1] if now.journal else ""
        )
        if line and line != last_said:
            said(f"{target.unit} {elapsed:.0f} s: {one_line(line, 160)}")
            last_said = line
        meanwhile()
        time.sleep(_POLL_S)


def look(
    session: DurableSession, unit: str, port: int, *, address: str = "127.0.0.1", lines: int = 80
) -> watch.Watch:
    """Look once at a unit and its port."""
    argv, token = watch.command(unit, port, address=address, lines=lines)
    return watch.parse(session.read(argv, timeout_s=30).stdout, token)


def _first_answer(session: DurableSession, target: Target, invocation: str) -> http.Served:
    def ask(inner: Session) -> http.Served:
        with inner.forward(target.port, target.address) as local:
            return http.ask(local, target.model)

    for attempt in (1, 2):
        try:
            return session.patiently(ask)
        except http.Unanswered as exc:
            if _is_dying(session, target, invocation):
                raise not_ready(session, target.unit, invocation) from exc
            if attempt == 2:  # the first time it may have been our connection that broke
                raise NotReady(
                    f"{target.unit} is up but does not serve: {exc.what}",
                    host=session.host.name,
                    cause=exc.cause,
                    next_step=f"invoke logs --hosts {session.host.name} --unit {target.unit}",
                ) from exc
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_dying(session: DurableSession, target: Target, invocation: str) -> bool:
    """Tell whether a server that failed to answer is going; its unit needs a moment to show it."""
    for pause_s in (0.2, 0.4, 0.9):
        time.sleep(pause_s)
        now = look(session, target.unit, target.port, address=target.address, lines=0)
        if now.dead or now.invocation != invocation or now.health != 200:
            return True
    return False

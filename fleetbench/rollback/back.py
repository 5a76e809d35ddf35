"""The way back itself: units, files and ports as they were. One step that fails ends no other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from fleetbench.errors import CommandFailed, Interrupted, LeaseLost
from fleetbench.facts.values import Unit
from fleetbench.operations.firewall import Opening
from fleetbench.rollback.stand import Spot, Stand
from fleetbench.rollback.undone import Left, Tries, Undone, end
from fleetbench.service import lifecycle
from fleetbench.service.several import stop_all
from fleetbench.service.watch import Watch
from fleetbench.transport.durable import DurableSession

# Keeps a text on the controller that could not be written on its host; returns where, empty: nowhere.
Keep = Callable[[str, str], str]


def _nowhere(name: str, text: str) -> str:
    return ""


@contextlib.contextmanager
def or_as_before(
    session: DurableSession,
    stand: Stand,
    *,
    said: Callable[[str], None],
    keep: Keep = _nowhere,
    proof: Callable[[Undone], None] = lambda _: None,
) -> Iterator[None]:
    """Do what the body does, or have everything as it was before, whatever the body ends with.

    Its error then says what was undone. NotUndone, with what mends it, when not all was. `proof` adds whether
    what served before serves again; Ctrl-C does not wait for that.
    """
    stop = session.stop
    try:
        yield
    except BaseException as exc:
        session.stop = None
        _refuse_lost(session)
        undone = put_back(session, stand, said=said, keep=keep)
        if isinstance(exc, Exception) and not isinstance(exc, Interrupted):
            session.stop = stop
            proof(undone)
        end(exc, undone, session, said)


@contextlib.contextmanager
def started_again(session: DurableSession, unit: str, *, said: Callable[[str], None]) -> Iterator[None]:
    """Do the body, which stops a unit; whatever it fails with, the unit is started, or the error says how."""
    try:
        yield
    except BaseException as exc:
        session.stop, tries, undone = None, Tries(session), Undone()
        _refuse_lost(session)
        if tries(lifecycle.start, session, unit) is not None:
            undone.words.append(f"{unit} was started again")
        undone.left = [
            Left(name=unit, why=why, mend=f"systemctl start {unit}", state="could not be started again")
            for why in tries.failures
        ]
        end(exc, undone, session, said)


def _refuse_lost(session: DurableSession) -> None:
    """Raise LeaseLost where the host is somebody else's by now; no other doubt keeps from the way back."""
    tries = Tries(session)
    tries(session.still_ours)
    for failure in tries.failures:
        if isinstance(failure, LeaseLost):
            raise failure


def put_back(
    session: DurableSession,
    stand: Stand,
    *,
    said: Callable[[str], None],
    keep: Keep = _nowhere,
) -> Undone:
    """Make a host what it was; never raises for a step that fails. What Ctrl-C ends is the work, not this."""
    session.stop, patience_s = None, session.patience_s
    undone = Undone()
    touched = [spot.unit for spot in stand.spots if not _certainly_runs_on(session, spot)]
    # All of them first: what comes back needs the GPUs of what goes. Each is stopped once more below.
    Tries(session)(stop_all, session, touched, said=said)
    for path, text in stand.texts.items():
        undone.left += _text_back(session, path, text, keep)
    for spot in stand.spots:
        tries = Tries(session)
        words = tries(_unit_back, session, spot, tries, said)
        if tries.failures:
            undone.left.append(Left(name=spot.unit, why=tries.all(), mend=_mend(session, spot, keep)))
        elif words:
            undone.words.append(words if len(stand.spots) == 1 else f"{spot.unit}: {words}")
    for opening in stand.ports:
        tries = Tries(session)
        if tries(_closed, session, opening):
            undone.words.append(f"port {opening.entry} is closed again ({opening.when})")
        if tries.failures:
            name, mend = f"port {opening.entry} ({opening.when})", " ".join(opening.closes)
            undone.left.append(Left(name=name, why=tries.all(), mend=mend))
    session.patience_s = patience_s
    return undone


def _text_back(session: DurableSession, path: str, text: str | None, keep: Keep) -> list[Left]:
    tries = Tries(session)
    if text is None:
        tries(_must, session, ("rm", "-f", "--", path), f"remove {path}")
    else:
        content = text.encode()
        tries(session.put, content, path, step=f"put {path} back")
    if not tries.failures:
        return []
    mend = f"rm -f {path}" if text is None else _written_by_hand(path, text, keep)
    return [Left(name=path, why=tries.all(), mend=mend)]


def runs_on(now: Watch, before: Unit | None) -> bool:
    """Tell whether a unit is the very start that it was before."""
    was = before.invocation or "none" if before is not None and before.running else ""
    return bool(was) and not now.dead and now.invocation == was


def _unit_back(session: DurableSession, spot: Spot, tries: Tries, said: Callable[[str], None]) -> str:
    """Put one unit back; return what was done, in a few words.

    A service that still runs as it did before is left alone: not every failure comes after a change.
    """
    before, name, path = spot.before, spot.unit, spot.unit_path
    now = lifecycle.look(session, name, spot.port, lines=0)
    untouched = runs_on(now, before.unit)
    if not untouched:
        tries(lifecycle.stop, session, name, said=said)
    if before.text is None:
        if now.load == "not-found" and not session.read(("test", "-e", path)).ok:
            return "nothing was changed"
        tries(_must, session, ("systemctl", "disable", name), f"disable {name}")
        tries(_must, session, ("rm", "-f", "--", path), f"remove {path}")
        tries(_reloaded, session, name)
        return "the new unit was removed again; its journal is kept"
    same = untouched and _holds(session, path, before.text)
    if not same:
        content = before.text.encode()
        tries(session.put, content, path, mode=before.mode, owner=before.owner, step=f"put {path} back")
        tries(_reloaded, session, name)
    tries(_at_boot, session, name, before.unit)
    if untouched:
        return (
            "the service runs on as before" if same else "the previous unit was put back, its service runs on"
        )
    if spot.ran:
        tries(lifecycle.start, session, name)
        return "the previous unit was put back and started"
    if spot.went:  # it went round in a crash loop: nobody waits for it, and it goes round again
        start = ("systemctl", "start", "--no-block", name)
        tries(_must, session, start, f"start {name}")
        return "the previous unit was put back and is being started, as before"
    return "the previous unit was put back"


def _at_boot(session: DurableSession, name: str, before: Unit | None) -> None:
    """Make a unit start at boot, or not, as before. `disable --now` may have got half-way."""
    shown = session.read(("systemctl", "show", name, "-p", "UnitFileState", "--value")).stdout.strip()
    if before is not None and before.enabled == "enabled":
        if shown != "enabled":
            _must(session, ("systemctl", "enable", name), f"enable {name}")
    elif shown in ("enabled", ""):
        _must(session, ("systemctl", "disable", name), f"disable {name}")


def _reloaded(session: DurableSession, name: str) -> None:
    _must(session, ("systemctl", "daemon-reload"), "systemctl daemon-reload")
    session.read(("systemctl", "reset-failed", name))  # of a unit that is not loaded it fails, and may


def _closed(session: DurableSession, opening: Opening) -> bool:
    """Close a port again; False where it never came to be open."""
    if not session.read(opening.asked).ok:
        return False
    _must(session, opening.closes, f"close {opening.entry} in firewalld ({opening.when})")
    return True


def _must(session: DurableSession, argv: tuple[str, ...], step: str) -> None:
    result = session.change(argv, step=step)
    if not result.ok:
        raise CommandFailed(f"{step}: did not work", host=session.host.name, cause=result.last_line)


def _certainly_runs_on(session: DurableSession, spot: Spot) -> bool:
    look = Tries(session)(lifecycle.look, session, spot.unit, spot.port, lines=0)
    return look is not None and runs_on(look, spot.before.unit)


def _holds(session: DurableSession, path: str, text: str) -> bool:
    try:
        return session.get(path) == text.encode()
    except CommandFailed:
        return False


def _mend(session: DurableSession, spot: Spot, keep: Keep) -> str:
    """Return what an operator types on the host; all of it, since each command may be given twice."""
    name, path, before = spot.unit, spot.unit_path, spot.before
    if before.text is None:
        return f"systemctl disable --now {name}; rm -f {path}; systemctl daemon-reload"
    text, enabled = before.text, before.unit is not None and before.unit.enabled == "enabled"
    there = Tries(session)(_holds, session, path, text)
    commands = [
        *(() if there else (_written_by_hand(path, text, keep),)),
        "systemctl daemon-reload",
        f"systemctl {'enable' if enabled else 'disable'} {name}",
        f"systemctl {'restart' if spot.went else 'stop'} {name}",
    ]
    return "; ".join(commands)


def _written_by_hand(path: str, text: str, keep: Keep) -> str:
    kept = keep(PurePosixPath(path).name, text)
    return f"copy {kept} of the controller to {path}" if kept else f"write {path} as it was"

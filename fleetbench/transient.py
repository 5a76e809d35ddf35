"""A command as a transient systemd unit: started once, found again by its name, followed until it ends.

`RemainAfterExit=yes` keeps a unit that ended well: without it systemd forgets it at once, and a unit that
does not exist answers `inactive`, `success`, status 0 as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetbench.errors import CommandFailed
from fleetbench.steps import Run
from fleetbench.transport.base import Session, bash, check

ENVIRONMENTS = "/run/fleetbench/environment"
_LIMIT_NOFILE = 1_048_576
# One round trip: state, then what the journal has since the cursor. Only lines of this invocation: the unit
# may have run before. Lines of systemd about the unit carry INVOCATION_ID, the unit's own the other one.
_POLL = r"""
export LC_ALL=C.UTF-8
unit=$1.service cursor=$2 lines=$3
systemctl show "$unit" -p LoadState -p ActiveState -p SubState -p Result -p ExecMainStatus -p ExecMainCode \
  -p InvocationID -p Description
id=$(systemctl show "$unit" -P InvocationID)
[ -n "$id" ] || exit 0
printf '\n'
journalctl --no-pager -q -o cat --show-cursor -n "$lines" ${cursor:+--after-cursor="$cursor"} \
  _SYSTEMD_INVOCATION_ID="$id" + INVOCATION_ID="$id" 2>/dev/null
exit 0
"""
# A failed or finished unit of that name is in the way of a new one. One that runs is never touched here.
_START = r"""
export LC_ALL=C.UTF-8
unit=$1.service; shift
case $(systemctl show "$unit" -P ActiveState)/$(systemctl show "$unit" -P SubState) in
  active/exited) systemctl stop "$unit" ;;
  failed/*) systemctl reset-failed "$unit" ;;
  inactive/*) ;;
  *) exit 0 ;;
esac
exec systemd-run "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at a unit: its state, the new journal lines, and the cursor to go on from."""

    load: str
    active: str
    sub: str
    result: str
    status: int
    description: str
    invocation: str
    lines: tuple[str, ...]
    cursor: str

    @property
    def running(self) -> bool:
        """True while the command has not ended."""
        return self.active in ("activating", "deactivating", "reloading") or (
            self.active == "active" and self.sub != "exited"
        )

    @property
    def succeeded(self) -> bool:
        """True when the command ended with status 0; never true of a unit that is not loaded."""
        return self.load == "loaded" and self.active == "active" and self.sub == "exited"


def mark(action: Run) -> str:
    """Return a short hash of what a unit does, to tell one's own running unit from another's."""
    return hashlib.sha256(json.dumps([action.argv, action.user]).encode()).hexdigest()[:12]


def start(session: Session, action: Run, summary: str) -> None:
    """Start a command as its unit, unless that unit runs already; CommandFailed when systemd refuses.

    The environment goes through a root-only file: it may hold the password of a proxy.
    """
    environment = ""
    if action.env:
        environment = f"{ENVIRONMENTS}/{action.unit}"
        check(session, ("install", "-d", "-m", "0700", "--", ENVIRONMENTS))
        session.put(environment_file(action.env), environment, mode=0o600)
    check(
        session,
        bash(_START, action.unit, *run_arguments(action, summary, environment)),
        what=f"systemd did not start {action.unit}",
    )


def run_arguments(action: Run, summary: str, environment: str = "") -> tuple[str, ...]:
    """Return the arguments of systemd-run for an action."""
    return (
        *("--quiet", f"--unit={action.unit}", f"--description=fleetbench: {summary} [{mark(action)}]"),
        *("--property=Type=exec", "--property=RemainAfterExit=yes", "--property=KillMode=mixed"),
        *(f"--property=RuntimeMaxSec={action.timeout_s:g}", f"--property=LimitNOFILE={_LIMIT_NOFILE}"),
        *((f"--property=EnvironmentFile={environment}",) if environment else ()),
        *((f"--uid={action.user}",) if action.user else ()),
        "--",
        *(_without_expansion(word) for word in action.argv),
    )


def look(session: Session, unit: str, cursor: str = "", *, lines: int = 400) -> Progress:
    """Look at a unit, in one round trip."""
    result = session.run(bash(_POLL, unit, cursor, str(lines)), timeout_s=20)
    if not result.ok:
        raise CommandFailed(
            f"systemd does not answer about {unit}", host=session.host.name, cause=result.last_line
        )
    return parse(result.stdout, cursor)


def parse(output: str, cursor: str = "") -> Progress:
    """Given the answer of one look, return it as a value."""
    head, _, journal = output.partition("\n\n")
    values = _properties(head)
    lines = journal.splitlines()
    if lines and (match := re.fullmatch(r"-- cursor: (\S+)", lines[-1])):
        cursor = match[1]
        lines.pop()
    status = values.get("ExecMainStatus", "")
    return Progress(
        load=values.get("LoadState", "not-found"),
        active=values.get("ActiveState", "inactive"),
        sub=values.get("SubState", "dead"),
        result=values.get("Result", ""),
        status=int(status) if status.isdigit() else 0,
        description=values.get("Description", ""),
        invocation=values.get("InvocationID", ""),
        lines=tuple(lines),
        cursor=cursor,
    )


def forget(session: Session, unit: str) -> None:
    """Let systemd forget a unit that ended well, and remove its environment file."""
    session.run(bash('systemctl stop "$1.service"; rm -f -- "$2"', unit, f"{ENVIRONMENTS}/{unit}"))


def environment_file(env: Sequence[tuple[str, str]]) -> bytes:
    """Return the text of an `EnvironmentFile=` (systemd.exec(5)): every value in double quotes.

    CommandFailed for a name that is none and for a value that such a file cannot hold.
    """
    lines = []
    for name, value in env:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None or re.search(r"[\x00-\x1f\x7f]", value):
            raise CommandFailed(
                f"the environment variable {name!r} cannot be passed on",
                cause="a name is letters, digits and _; a value holds no control characters",
                next_step="correct install_env in the inventory",
            )
        escaped = re.sub(r'([\\"`$])', r"\\\1", value)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines).encode()


def _properties(text: str) -> Mapping[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _without_expansion(word: str) -> str:
    """systemd expands `$NAME` in the words of a command, also of a transient one; `$$` is a plain dollar."""
    return word.replace("$", "$$")

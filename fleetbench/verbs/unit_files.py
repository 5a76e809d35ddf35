"""What deploy and promote share: steps taken on a host, and systemd's opinion of a unit beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fleetbench import console
from fleetbench.apply import apply
from fleetbench.audit import AuditLog
from fleetbench.errors import NotPossible
from fleetbench.model import Host
from fleetbench.rollback.back import Keep
from fleetbench.steps import Step
from fleetbench.transport.base import bash, check
from fleetbench.transport.durable import DurableSession
from fleetbench.verbs.common import audit_path
from fleetbench.whole_file import write_whole

VERIFY = r"""
set -u
directory=$(mktemp -d /run/fleetbench-verify.XXXXXX) || exit 73
trap 'rm -rf -- "$directory"' EXIT
cp -- "$1" "$directory/$2" && systemd-analyze verify "$directory/$2" 2>&1 >/dev/null | grep -F "$2"
exit 0
"""


def apply_steps(session: DurableSession, steps: Sequence[Step]) -> None:
    """Take steps on a host, each told and in the audit."""
    apply(
        session,
        steps,
        progress=lambda text: console.progress(text, host=session.host.name),
        audit=AuditLog(audit_path()),
    )


def kept_on(host: Host) -> Keep:
    """Return a function that keeps texts on the controller that could not be put back on a host."""

    def keep(name: str, text: str) -> str:
        directory, content = audit_path().parent / "left" / host.name, text.encode()
        # What an earlier failure left there may be the only copy of what served: it is never replaced.
        places = (directory / (f"{name}.{number}" if number else name) for number in itertools.count())
        try:
            place = next(each for each in places if not each.exists() or each.read_bytes() == content)
            write_whole(place, content, mode=0o600)
        except OSError:
            return ""
        return str(place)

    return keep


def verify_unit(session: DurableSession, host: Host, unit: str, text: str) -> None:
    """Raise NotPossible, and nothing is installed, for a unit that the host's systemd does not accept.

    systemd-analyze exits 0 on misspelt keys, so its words decide; lines about other units do not count.
    """
    source = f"/run/.fleetbench-{unit}"
    try:
        session.put(text.encode(), source, mode=0o600)
        said = check(session, bash(VERIFY, source, unit), timeout_s=60, what="cannot verify the unit").stdout
    finally:
        session.read(("rm", "-f", "--", source))
    if said.strip():
        raise NotPossible(
            f"systemd does not accept {unit}",
            host=host.name,
            cause=said.splitlines()[0],
            next_step="look at the unit with --check",
        )

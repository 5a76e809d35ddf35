"""The next server's weights in page cache, read while production stops and the bench client is imported.

A transient unit on the host does it, at idle priority and as the service user. It is bounded, it ends when
the first server begins to load (two readers of one disk are slower than one), and whatever becomes of it, a
trial neither waits for it nor fails by it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from fleetbench.model import Host
from fleetbench.service_log import Phase
from fleetbench.sweep.lease import DIRECTORY
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

UNIT = "fleetbench-read-ahead.service"
# A file: systemd would expand every "${…}" of a script that is an argument.
SCRIPT = f"{DIRECTORY}/read-ahead.sh"
# Page cache gives way when somebody needs memory; this much is left alone all the same.
SPARE_KIB = 8 * 1024 * 1024
LIMIT_S = 1800
_START = r"""
unit=$1 user=$2 limit=$3
shift 3
systemctl stop "$unit" 2>/dev/null
systemctl reset-failed "$unit" 2>/dev/null
exec systemd-run --quiet --collect --unit="$unit" --description="fleetbench: weights into page cache" \
  --property=User="$user" --property=RuntimeMaxSec="$limit" --property=TimeoutStopSec=5 \
  --property=Nice=19 --property=CPUSchedulingPolicy=idle --property=IOSchedulingClass=idle \
  --property=NoNewPrivileges=yes --property=ProtectSystem=strict --property=PrivateTmp=yes \
  --property=PrivateNetwork=yes --property=CapabilityBoundingSet= \
  /bin/bash "$@"
"""


class ReadAhead:
    """Reading ahead on one host. Beginning and ending twice is the same as once."""

    def __init__(self, session: DurableSession, host: Host, model: str) -> None:
        self._session, self._host, self._model = session, host, model
        self._runs = False

    @classmethod
    def begun(cls, session: DurableSession, host: Host, model: str) -> ReadAhead:
        """Return one that reads a model's weights on a host."""
        ahead = cls(session, host, model)
        ahead.begin()
        return ahead

    def begin(self) -> None:
        """Start reading; a host that cannot do it is left alone."""
        self._session.put(_script(), SCRIPT)
        asked = (SCRIPT, self._host.prefix, self._model, str(SPARE_KIB))
        started = self._session.read(bash(_START, UNIT, self._host.user, str(LIMIT_S), *asked), timeout_s=30)
        self._runs = started.ok

    def end(self) -> None:
        """Stop reading, if it still does."""
        if self._runs:
            self._runs = False
            end(self._session)

    def until_loading(self, phase_of: Callable[[str], str]) -> Callable[[str], str]:
        """Return `phase_of` (a journal line to the phase that it shows), which ends the reading once a server
        loads its own weights."""

        def shown(line: str) -> str:
            found = phase_of(line)
            if self._runs and found and not found.startswith(Phase.IMPORTING):
                self.end()
            return found

        return shown


def end(session: DurableSession) -> None:
    """Take everything of it off a host, whoever began it."""
    session.read(bash('systemctl stop "$1" 2>/dev/null; rm -f -- "$2"', UNIT, SCRIPT), timeout_s=30)


@cache
def _script() -> bytes:
    return (files("fleetbench.sweep") / "read_ahead.sh").read_bytes()

"""Bench clients that nobody asks for any more: their trial went on elsewhere while the host was away."""

from __future__ import annotations

import re
from collections.abc import Collection

from fleetbench.model import Host
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

_FIND = r"""
export LC_ALL=C.UTF-8
systemctl list-units --all --plain --no-legend "fleetbench-*-$1-*.service" | cut -d' ' -f1
ls -1 -- "$2/runs" 2>/dev/null
exit 0
"""
_FORGET = r"""
systemctl stop "$1.service" 2>/dev/null
systemctl reset-failed "$1.service" 2>/dev/null
rm -rf -- "$2/runs/$1"
exit 0
"""


def forget_others(session: DurableSession, client: Host, run_id: str, known: Collection[str]) -> None:
    """End and remove the bench clients of a run on a host whose unit names are not among `known`."""
    listed = session.read(bash(_FIND, run_id, client.prefix), timeout_s=30).stdout.split()
    name = re.compile(rf"fleetbench-(bench|preload)-{re.escape(run_id)}-[A-Za-z0-9._-]+")
    found = {word.removesuffix(".service") for word in listed}
    for unit in sorted(found - set(known)):
        if name.fullmatch(unit):  # what the host says is no more than a hint
            session.read(bash(_FORGET, unit, client.prefix), timeout_s=60)

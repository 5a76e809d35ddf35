"""What a trial keeps besides its numbers: unit texts, facts before and after, its servers' whole journals."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetbench import __version__
from fleetbench.bench.left import keep_files
from fleetbench.errors import FleetbenchError, without_secrets
from fleetbench.facts.document import to_json
from fleetbench.facts.values import HostFacts
from fleetbench.model import Host
from fleetbench.results import manifest
from fleetbench.results.rows import Json
from fleetbench.service.lifecycle import ReadFacts
from fleetbench.sweep.ground import Bench
from fleetbench.sweep.versions import document, versions_of
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

_JOURNAL = r"""
export LC_ALL=C.UTF-8
timeout 10 journalctl --sync 2>/dev/null # what was written last may still be on its way
journalctl "_SYSTEMD_INVOCATION_ID=$1" + "INVOCATION_ID=$1" -o short-iso-precise --no-pager | tail -c 8000000
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The directory of a trial below its run, and the session to the server's host."""

    directory: Path
    session: DurableSession

    def keep_before(self, texts: Mapping[str, str], facts: HostFacts) -> None:
        """Write what serves, by file name, and the facts as they are before the first measurement."""
        content = {name: text.encode() for name, text in texts.items()}
        keep_files(self.directory, content | {"facts-before.json": to_json(facts).encode()})

    def keep_versions(self, server: Host, facts: HostFacts, bench: Bench, read_facts: ReadFacts) -> None:
        """Write the versions of what serves and of what measures, and the facts of a client's own host."""
        content: dict[str, bytes] = {}
        client_facts = facts
        if bench.client.name != server.name:
            client_facts = read_facts(bench.session)
            content["facts-client.json"] = to_json(client_facts).encode()
        controller: dict[str, Json] = {"python": platform.python_version(), "kernel": platform.release()}
        content["versions.json"] = document(
            __version__,
            controller,
            versions_of(facts, server.venv),
            versions_of(client_facts, bench.client.venv),
        )
        keep_files(self.directory, content)

    def keep_after(self, journals: Mapping[str, str], read_facts: ReadFacts) -> None:
        """Write the facts as they are now, and by file name the whole journal of a unit's life, which an
        invocation id names; an empty one names none."""
        content = {"facts-after.json": to_json(read_facts(self.session)).encode()}
        for name, invocation in journals.items():
            if invocation:
                journal = self.session.read(bash(_JOURNAL, invocation), timeout_s=120)
                content[name] = without_secrets(journal.stdout).encode()  # vLLM says its arguments
        keep_files(self.directory, content)
        manifest.record(self.directory.parent, self.directory.name, deep=False)


def set_aside(directory: Path, mark: str) -> Path | None:
    """Keep what a trial left that is begun anew: its directory gets a mark, `on-lab-01` or `packed`.

    Returns the new place; None when there was nothing to keep.
    """
    if not directory.is_dir():
        return None
    place = directory.with_name(f"{directory.name}-{mark}")
    turn = 1
    while place.exists():
        turn += 1
        place = directory.with_name(f"{directory.name}-{mark}-{turn}")
    try:
        directory.rename(place)
        manifest.moved(directory.parent, directory.name, place.name)
    except OSError as exc:
        raise FleetbenchError(
            f"cannot keep {directory} as {place.name}",
            cause=exc.strerror or str(exc),
            next_step="make room or mend the rights, then resume the run",
        ) from exc
    return place

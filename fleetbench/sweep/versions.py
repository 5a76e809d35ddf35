"""Which versions a trial was measured with: what serves, what measures, and what drives both. Pure."""

from __future__ import annotations

import json

from fleetbench.facts.values import HostFacts, Missing
from fleetbench.results.rows import Json


def versions_of(facts: HostFacts, venv: str) -> dict[str, Json]:
    """Return what a host's facts say of the versions of system, driver and packages; unknown ones are null.

    `venv` is the path of the venv that works there.
    """
    found: dict[str, Json] = {"host": facts.host, "venv": venv, "python": None, "packages": {}}
    if not isinstance(facts.os, Missing):
        os = facts.os
        found |= {"os": os.name, "kernel": os.kernel, "glibc": os.glibc, "boot_id": os.boot_id}
    if not isinstance(facts.gpus, Missing):
        found |= {
            "gpus": [gpu.name for gpu in facts.gpus],
            "driver": next((gpu.driver for gpu in facts.gpus), None),
            "cuda": next((gpu.cuda for gpu in facts.gpus), None),
        }
    if not isinstance(facts.venvs, Missing) and venv in facts.venvs:
        known = facts.venvs[venv]
        found |= {"python": known.python or None, "packages": dict(known.packages), "lock": known.lock}
    return found


def document(fleetbench: str, controller: Json, server: dict[str, Json], client: dict[str, Json]) -> bytes:
    """Return the content of versions.json; `controller` is what runs fleetbench."""
    whole = {"fleetbench": fleetbench, "controller": controller, "server": server, "client": client}
    return f"{json.dumps(whole, indent=1)}\n".encode()

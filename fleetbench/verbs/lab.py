"""lab: real hosts on this machine, for trying out and for tests."""

from __future__ import annotations

from pathlib import Path

from fleetbench import console
from fleetbench.errors import Exit, UsageError
from fleetbench.inventory import default_directory
from fleetbench.lab import lab as labs
from fleetbench.lab import requirements
from fleetbench.lab.settings import from_environment

ACTIONS = ("up", "down", "list", "reboot", "net", "kill", "start")


def lab(
    action: str, *, host: str, state: str, count: int, gpus: str, hard: bool, inventory: str = ""
) -> Exit:
    """Do one thing with the lab of this machine."""
    root = Path(inventory) if inventory else default_directory()
    if action == "up":
        requirements.require()
        up(count, gpus, root)
    elif action == "down":
        labs.down((host,) if host else (), progress=console.progress)
    elif action == "list":
        rows = [(h.name, h.address, h.gpus, "running" if h.running else "off") for h in labs.listing()]
        console.print_table(("host", "address", "gpus", "state"), rows)
    elif action in ("reboot", "kill", "start"):
        _one(action, _named(host, action), hard=hard)
    elif action == "net":
        labs.net(_named(host, "net"), int(state) if state.isdigit() else state or "down")
        console.progress(f"network of {host}: {state or 'down'}")
    else:
        raise UsageError(f"lab knows no {action!r}", next_step=f"one of {', '.join(ACTIONS)}")
    return Exit.OK


def up(count: int, gpus: str, inventory: Path) -> None:
    """Bring hosts up and write their inventory; say what to type next."""
    hosts = labs.up(count, gpus=[gpus], inventory=inventory, progress=console.progress)
    names = ",".join(host.name for host in hosts)
    console.write(f"lab of {len(hosts)} hosts: invoke hosts --hosts {names}")


def _one(action: str, host: str, *, hard: bool) -> None:
    if action == "reboot":
        seconds = labs.reboot(host, hard=hard)
        console.progress(f"{host} is back after {seconds:.1f} s")
    elif action == "kill":
        labs.kill(host)
        console.progress(f"{host} has no power")
    else:
        seconds = labs.start(host)
        console.progress(f"{host} is up after {seconds:.1f} s")


def _named(host: str, action: str) -> str:
    if not host:
        raise UsageError(f"lab {action} needs a host", next_step=f"invoke lab {action} lab-01")
    if host not in {known.name for known in labs.listing()}:
        known = ", ".join(h.name for h in labs.listing()) or "none"
        name = from_environment().name
        raise UsageError(
            f"lab {name} has no host {host!r}", cause=f"its hosts: {known}", next_step="invoke lab up"
        )
    return host

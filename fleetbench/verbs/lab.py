"""lab: real hosts on this machine, for trying out and for tests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from fleetbench import console
from fleetbench.errors import Exit, UsageError
from fleetbench.inventory import default_directory
from fleetbench.lab import lab as labs
from fleetbench.lab import requirements, tiny_model, wheelhouse
from fleetbench.lab.commands import write
from fleetbench.lab.host import Bind
from fleetbench.lab.inventory import LabHost, Value
from fleetbench.lab.settings import from_environment

ACTIONS = ("up", "down", "list", "reboot", "net", "kill", "start")
MODELS_ON_HOST = "/srv/models"
MODELS_TOML = f"""\
# Written by `invoke lab up`: a model of half a megabyte, made on the spot, with random weights.
# float32: in bfloat16 vLLM takes a CPU's AMX, and its workers die with SIGILL where a virtual machine passes
# AMX on by halves (seen with 0.32.0 on a nested one).
[models.tiny]
repo = "{MODELS_ON_HOST}/tiny"
max_model_len = 1024
serve_args = ["--enforce-eager", "--dtype", "float32"]
sweep = "demo"
"""
SWEEPS_TOML = """\
# Written by `invoke lab up`. The model has 4 attention heads, so tp=3 cannot start: that is meant.
[sweeps.demo]
parallel = [{ tp = 1 }, { tp = 2 }, { dp = 2 }, { tp = 3 }]
repeats = 2
ready_timeout_s = 300
bench_timeout_s = 600
workload = { dataset = "random", input_len = 64, output_len = 32, num_prompts = 40, max_concurrency = 4 }
"""


def lab(
    action: str, *, host: str, state: str, count: int, gpus: str, hard: bool, plain: bool, inventory: str = ""
) -> Exit:
    """Do one thing with the lab of this machine."""
    if action == "up":
        hosts = up(count, gpus, Path(inventory) if inventory else default_directory(), plain=plain)
        names = ",".join(one.name for one in hosts)
        console.write(f"invoke provision --hosts {names}" if not plain else f"invoke hosts --hosts {names}")
    elif action == "down":
        if host:
            labs.down((_named(host, "down"),), progress=console.progress)
        else:
            down(Path(inventory) if inventory else default_directory())
    elif action == "list":
        rows = [(h.name, h.address, h.gpus, "running" if h.running else "off") for h in labs.listing()]
        console.print_table(("host", "address", "gpus", "state"), rows)
    elif action in ("reboot", "kill", "start"):
        _power(action, _named(host, action), hard=hard)
    elif action == "net":
        labs.net(_named(host, "net"), int(state) if state.isdigit() else state or "down")
        console.progress(f"network of {host}: {state or 'down'}")
    else:
        raise UsageError(f"lab knows no {action!r}", next_step=f"one of {', '.join(ACTIONS)}")
    return Exit.OK


def up(count: int, gpus: str, inventory: Path, *, plain: bool = False) -> tuple[LabHost, ...]:
    """Bring hosts up with all that provisioning and the tiny model need; `plain` leaves the packages out."""
    requirements.require()
    settings = from_environment()
    models = settings.cache / "models"
    tiny_model.make(models / "tiny")
    binds = [Bind(source=str(models), target=MODELS_ON_HOST)]
    build_toml = ""
    defaults: dict[str, Value] = {}
    if not plain:
        version = labs.python_name().removeprefix("python")
        packages = wheelhouse.prepare(settings.cache, python_version=version, progress=console.progress)
        binds += packages.binds
        build_toml = packages.build_toml
        defaults = {k: dict(v) if isinstance(v, Mapping) else v for k, v in packages.host_defaults.items()}
    hosts = labs.up(
        count,
        gpus=[gpus],
        binds=binds,
        inventory=inventory,
        build_toml=build_toml,
        defaults=defaults,
        progress=console.progress,
    )
    write(inventory / "lab" / "models.toml", MODELS_TOML)
    write(inventory / "lab" / "sweeps.toml", SWEEPS_TOML)
    return hosts


def down(inventory: Path) -> None:
    """Take all hosts down and remove what `up` wrote into the inventory."""
    labs.down(progress=console.progress)
    for name in ("models.toml", "sweeps.toml"):
        (inventory / "lab" / name).unlink(missing_ok=True)
    shutil.rmtree(inventory / "lab" / "locks", ignore_errors=True)
    if (inventory / "lab").is_dir() and not any((inventory / "lab").iterdir()):
        (inventory / "lab").rmdir()


def _power(action: str, host: str, *, hard: bool) -> None:
    if action == "reboot":
        console.progress(f"{host} is back after {labs.reboot(host, hard=hard):.1f} s")
    elif action == "kill":
        labs.kill(host)
        console.progress(f"{host} has no power")
    else:
        console.progress(f"{host} is up after {labs.start(host):.1f} s")


def _named(host: str, action: str) -> str:
    if not host:
        raise UsageError(f"lab {action} needs a host", next_step=f"invoke lab {action} lab-01")
    known = [one.name for one in labs.listing()]
    if host not in known:
        raise UsageError(
            f"the lab has no host {host!r}",
            cause=f"its hosts: {', '.join(known) or 'none'}",
            next_step="invoke lab up",
        )
    return host

"""The lab as one thing: bring hosts up, hurt them, look at them, take them down.

Every function that changes something holds the lab's lock, so that two commands at once take turns.
Without `settings` the lab is the one that the environment names.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleetbench.errors import UsageError
from fleetbench.lab import (
    base,
    booting,
    cgroups,
    host,
    interpreter,
    keys,
    machine,
    network,
    power,
    requirements,
    roster,
    slowlink,
    smi_files,
)
from fleetbench.lab.base import Image
from fleetbench.lab.commands import remove_tree
from fleetbench.lab.host import Bind, Machine
from fleetbench.lab.inventory import (
    NOTHING,
    LabHost,
    Publication,
    Value,
    recall,
    remember,
    remove_inventory,
)
from fleetbench.lab.lock import locked
from fleetbench.lab.repository import Progress
from fleetbench.lab.settings import MAX_HOSTS, LabError, Settings, from_environment, host_name


def silent(_: str) -> None:
    """Progress that nobody wants to see."""


@contextmanager
def _turn(settings: Settings | None, progress: Progress = silent) -> Iterator[Settings]:
    """Hold the lab's lock. It lives in /run, one per lab name whatever the cache directory."""
    chosen = settings or from_environment()
    reason = requirements.obstacle()
    if reason:
        raise LabError(reason)
    lock = machine.RUN / f"{chosen.name}.lock"
    with locked(lock, progress):
        yield chosen
        if not chosen.state.exists():
            lock.unlink()


def python_name(settings: Settings | None = None) -> str:
    """Return the name of the Python that hosts can install: `python3.12` where there is one."""
    present = listing(settings)
    return present[0].python if present else interpreter.find().name


def up(
    count: int,
    *,
    gpus: Sequence[str] = (),
    binds: Sequence[Bind] = (),
    nat: bool = False,
    disk_upper: bool = False,
    inventory: Path | None = None,
    build_toml: str = "",
    defaults: Mapping[str, Value] = NOTHING,
    progress: Progress = silent,
    settings: Settings | None = None,
) -> tuple[LabHost, ...]:
    """Make sure that `lab-01` … `lab-<count>` run, and return them.

    Hosts that run already are kept as they are; hosts that exist but are off are started with their disk.
    `gpus` are specifications of stand-in GPUs that cycle over the new hosts. With `inventory`, the root of
    an inventory, `lab/` in it describes all hosts of the lab.
    """
    if not 1 <= count <= MAX_HOSTS:
        raise UsageError(f"a lab has 1 to {MAX_HOSTS} hosts, not {count}")
    with _turn(settings, progress) as chosen:
        requirements.require()
        image = base.ensure(chosen, progress)
        machine.borrow(chosen, forwarding=nat)
        network.up(chosen, nat=nat)
        booting.mount_memory(chosen)
        keys.pair(chosen.state / "keys" / "operator")
        wanted = []
        for index in range(1, count + 1):
            name = host_name(index)
            ordered = Machine(
                name=name,
                gpus=gpus[(index - 1) % len(gpus)] if gpus else "",
                nat=nat,
                disk=disk_upper,
                binds=tuple(binds),
                tree=str(image.tree),
                repository=str(image.repository),
            )
            if name in host.names(chosen):
                ordered = booting.kept(chosen, name, image)
            host.save(chosen, ordered)
            wanted.append(ordered)
        off = [one for one in wanted if not power.running(chosen, one.name)]
        booting.boot(chosen, off, progress)
        for one in wanted:
            if one not in off:  # perhaps half-way up, by a command that was killed
                power.wait_running(chosen, one.name)
        if inventory is not None:
            place = (inventory / "lab").absolute()
            told = Publication(directory=place, build_toml=build_toml, defaults=defaults)
            remember(told, chosen.state / "inventory.json")
        roster.publish(chosen)
        if not off:
            progress("lab: all hosts run already")
        names = {one.name for one in wanted}
        return tuple(one for one in roster.hosts(chosen) if one.name in names)


def listing(settings: Settings | None = None) -> tuple[LabHost, ...]:
    """Return all hosts of the lab, running or not."""
    return roster.hosts(settings or from_environment())


def down(
    names: Sequence[str] = (), *, progress: Progress = silent, settings: Settings | None = None
) -> tuple[str, ...]:
    """Stop and remove hosts, all without names; with the last host goes everything that belongs to the lab.

    Returns the names removed.
    """
    with _turn(settings, progress) as chosen:
        present = host.names(chosen)
        unknown = sorted(set(names) - set(present))
        if unknown:
            raise LabError("no such lab host", host=unknown[0], next_step="invoke lab list")
        gone = tuple(names) or present
        for name in gone:
            one = host.load(chosen, name)
            power.remove(chosen, name)
            remove_tree(host.layers(chosen, one))
            remove_tree(host.directory(chosen, name))
        if host.names(chosen):
            roster.publish(chosen)
            return gone
        told = recall(chosen.state / "inventory.json")
        if told is not None:
            remove_inventory(told.directory)
        network.down(chosen)
        cgroups.remove(chosen)
        remove_tree(chosen.state)
        machine.give_back(chosen)
        progress(f"lab: down, {len(gone)} hosts removed")
        return gone


def start(name: str, *, progress: Progress = silent, settings: Settings | None = None) -> float:
    """Power a host on, with the disk it had; returns the seconds until sshd answers (0: it ran already)."""
    with _turn(settings, progress) as chosen:
        one = host.load(chosen, name)
        return 0.0 if power.running(chosen, name) else booting.boot(chosen, [one], progress)


def stop(name: str, *, settings: Settings | None = None) -> None:
    """Power a host off in order; its disk is kept."""
    with _turn(settings) as chosen:
        host.load(chosen, name)
        power.shut_down(chosen, name)


def kill(name: str, *, settings: Settings | None = None) -> None:
    """Cut a host's power; its disk is kept."""
    with _turn(settings) as chosen:
        host.load(chosen, name)
        cgroups.kill(chosen, name)


def reboot(
    name: str, hard: bool = False, *, progress: Progress = silent, settings: Settings | None = None
) -> float:
    """Reboot a host in place, or with `hard` by a power cut; returns the seconds until sshd answers again."""
    started = time.monotonic()
    with _turn(settings, progress) as chosen:
        one = host.load(chosen, name)
        if hard or not power.running(chosen, name):
            cgroups.kill(chosen, name)
            booting.boot(chosen, [one], progress)
            return time.monotonic() - started
        listener = power.listen(chosen, name)
        asked = power.enter(chosen, name, ["systemctl", "reboot", "--no-block"])
        if asked.returncode != 0:
            listener.close()
            raise LabError("did not accept the reboot", host=name, cause=asked.stderr)
        power.wait_booted(chosen, name, listener)
        power.wait_ssh(chosen, name)
        return time.monotonic() - started


def net(name: str, state: str | int, *, settings: Settings | None = None) -> None:
    """Cut a host's network (`down`), mend it (`up`), or limit it to so many kbit/s (0: no limit)."""
    with _turn(settings) as chosen:
        network.condition(chosen, host.load(chosen, name).index, state)


@contextmanager
def slow(
    name: str,
    delay_ms: float,
    *,
    loss_percent: float = 0,
    jitter_ms: float = 0,
    settings: Settings | None = None,
) -> Iterator[None]:
    """While the context lasts, delay each packet to and from a host, and lose some."""
    chosen = settings or from_environment()
    index = host.load(chosen, name).index
    with slowlink.running(chosen, index, slowlink.Line(delay_ms, loss_percent, jitter_ms)):
        yield


def enter(
    name: str,
    argv: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float = 120,
    settings: Settings | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command on a host out of band: it needs neither network nor sshd."""
    return power.enter(settings or from_environment(), name, argv, stdin=stdin, timeout_s=timeout_s)


def host_key(name: str, *, settings: Settings | None = None) -> None:
    """Give a host another SSH host key than the lab's known_hosts has, as after a reinstallation."""
    with _turn(settings) as chosen:
        file = chosen.state / "keys" / f"other-{name}"
        for old in (file, file.with_name(f"{file.name}.pub")):
            old.unlink(missing_ok=True)
        keys.pair(file)
        script = "cat > /etc/ssh/ssh_host_ed25519_key && systemctl restart ssh.service"
        done = power.enter(chosen, name, ["bash", "-c", script], stdin=file.read_text(encoding="ascii"))
        if done.returncode != 0:
            raise LabError("the host key could not be changed", host=name, cause=done.stderr)


def gpus(name: str, spec: str, *, settings: Settings | None = None) -> None:
    """Change the stand-in GPUs of a running host: `8x H100`, `broken=1|2x H200`, …"""
    chosen = settings or from_environment()
    host.load(chosen, name)
    smi_files.install(host.directory(chosen, name) / "root", spec)


def image(progress: Progress = silent, *, settings: Settings | None = None) -> Image:
    """Build the base image if there is none; `up` does so too."""
    requirements.require()
    return base.ensure(settings or from_environment(), progress)

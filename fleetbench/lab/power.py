"""A host's life: power on, booted, orderly off, power cut, and commands from outside."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fleetbench.lab import cgroups, network
from fleetbench.lab.commands import PATH, unmount
from fleetbench.lab.disk import CERTIFICATES
from fleetbench.lab.host import Bind, Machine, directory, load
from fleetbench.lab.machine import RUN
from fleetbench.lab.settings import LabError, Settings, host_index

BOOT = Path(__file__).with_name("boot.sh")


def running(settings: Settings, name: str) -> bool:
    """True while the host has processes."""
    return bool(cgroups.processes(settings, name))


def nspawn_command(settings: Settings, machine: Machine) -> tuple[str, ...]:
    """Return the command that runs the host."""
    binds = list(machine.binds)
    binds.append(Bind(source=machine.repository, target="/srv/repo"))
    if machine.nat and CERTIFICATES.exists():
        # Where this machine's traffic passes an inspecting proxy, hosts need its bundle of authorities too.
        binds.append(Bind(source=str(CERTIFICATES), target=str(CERTIFICATES)))
    namespace = settings.namespace(machine.index)
    return (
        "systemd-nspawn",
        "--quiet",
        "--keep-unit",
        "--register=no",
        "--boot",
        f"--machine={namespace}",
        f"--hostname={machine.name}",
        f"--directory={directory(settings, machine.name) / 'root'}",
        f"--network-namespace-path=/run/netns/{namespace}",
        "--capability=CAP_NET_ADMIN",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--notify-ready=yes",
        "--console=pipe",
        "--suppress-sync=yes",
        *(f"--bind{'-ro' if bind.read_only else ''}={bind.source}:{bind.target}" for bind in binds),
    )


def notify_path(settings: Settings, name: str) -> Path:
    """Return the socket on which nspawn reports; short, because Unix allows 107 characters."""
    return RUN / f"{settings.namespace(host_index(name))}.notify"


def listen(settings: Settings, name: str) -> socket.socket:
    """Open the socket that will say READY=1 once the host has booted."""
    path = notify_path(settings, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(path))
    return listener


def power_on(settings: Settings, machine: Machine) -> socket.socket:
    """Start a prepared host and return the socket to wait on with `wait_booted`."""
    state = directory(settings, machine.name)
    groups = cgroups.make(settings, machine.name)
    listener = listen(settings, machine.name)
    environment = {
        "PATH": PATH,
        "NOTIFY_SOCKET": str(notify_path(settings, machine.name)),
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",  # cgroup2 at /sys/fs/cgroup, as on Rocky 9
    }
    (state / "ended").unlink(missing_ok=True)
    with (state / "console.log").open("ab") as console:
        # setsid --fork: the host is nobody's child and outlives the command that started it.
        subprocess.run(
            [
                *("setsid", "--fork", "sh", str(BOOT), str(state), *map(str, groups), "--"),
                *nspawn_command(settings, machine),
            ],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environment,
            check=True,
        )
    return listener


def wait_booted(settings: Settings, name: str, listener: socket.socket, timeout_s: float = 180) -> None:
    """Wait until the host's systemd reports READY=1; LabError when it gives up or takes too long."""
    state = directory(settings, name)
    deadline = time.monotonic() + timeout_s
    listener.settimeout(0.5)
    try:
        while True:
            try:
                if "READY=1" in listener.recv(4096).decode(errors="replace").split("\n"):
                    return
            except TimeoutError:
                if (state / "ended").exists() or time.monotonic() > deadline:
                    log = state / "console.log"
                    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
                    raise LabError(
                        "did not boot", host=name, cause=said[-1] if said else "", next_step=f"read {log}"
                    ) from None
    finally:
        listener.close()
        notify_path(settings, name).unlink(missing_ok=True)


def wait_ssh(settings: Settings, name: str, timeout_s: float = 60) -> None:
    """Wait until the host's sshd greets."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection((settings.address(host_index(name)), 22), 1) as connection:
                connection.settimeout(5)
                if connection.recv(4) == b"SSH-":
                    return
        except OSError as error:
            if time.monotonic() > deadline:
                raise LabError("sshd does not answer", host=name, cause=str(error)) from error
        time.sleep(0.03)


def wait_running(settings: Settings, name: str, timeout_s: float = 60) -> None:
    """Wait until a host that somebody else started has booted; asked from inside, its network may be cut."""
    deadline = time.monotonic() + timeout_s
    while cgroups.first_process(settings, name) is None or not _booted(settings, name):
        if time.monotonic() > deadline:
            raise LabError("has not booted", host=name, next_step=f"invoke lab reboot {name} --hard")
        time.sleep(0.05)


def _booted(settings: Settings, name: str) -> bool:
    state = enter(settings, name, ["systemctl", "is-system-running"]).stdout.strip()
    return state in ("running", "degraded")


def shut_down(settings: Settings, name: str, timeout_s: float = 100) -> None:
    """Power a host off in order; cut its power when it does not go."""
    file = directory(settings, name) / "pid"
    ours = cgroups.processes(settings, name)
    nspawn = int(file.read_text(encoding="ascii")) if file.exists() else 0
    if nspawn in ours:  # nspawn turns SIGTERM into an orderly power-off of its guest
        os.kill(nspawn, signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        while cgroups.processes(settings, name) and time.monotonic() < deadline:
            time.sleep(0.02)
    cgroups.kill(settings, name)


def enter(
    settings: Settings, name: str, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command inside a host without its network; any exit status is returned.

    Its processes belong to the host's control group, so that a power cut ends them too, and to a session of
    their own: a signal to a process group (`kill 0`, also of an empty pid) stays inside.
    """
    leader = cgroups.first_process(settings, name)
    if leader is None:
        raise LabError("is not running", host=name, next_step=f"invoke lab start {name}")
    group = cgroups.directories(settings, name)[0] / "visitors"
    group.mkdir(exist_ok=True)
    join = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs")]
    spaces = ["nsenter", "-t", str(leader), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
    clean = [
        "env",
        "-i",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
        "HOME=/root",
        "LANG=C.UTF-8",
    ]
    try:
        return subprocess.run(
            [*join, *spaces, *clean, *argv],
            input=stdin,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=timeout_s,
            env={"PATH": PATH},
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{argv[0]} took more than {timeout_s:.0f} s", host=name) from error


def remove(settings: Settings, name: str) -> None:
    """Cut a host's power and remove all that belongs to it."""
    machine = load(settings, name)
    cgroups.kill(settings, name)
    unmount(directory(settings, name))
    network.disconnect(settings, machine.index)
    notify_path(settings, name).unlink(missing_ok=True)

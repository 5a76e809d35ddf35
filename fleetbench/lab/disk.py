"""A host's file system: the base image below, its own changes above, mounted as one."""

from __future__ import annotations

from pathlib import Path

from fleetbench.lab import smi_files
from fleetbench.lab.commands import mounts, remove_tree, run, write
from fleetbench.lab.host import Machine, directory, layers
from fleetbench.lab.keys import pair
from fleetbench.lab.settings import MAX_HOSTS, Settings, host_name

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def prepare(settings: Settings, machine: Machine) -> None:
    """Give a host its disk, unless it has one: identity, keys, GPUs; and mount it."""
    upper = layers(settings, machine) / "upper"
    if not upper.exists():
        partial = upper.with_name("partial")
        remove_tree(partial)  # left by a command that was interrupted
        partial.mkdir(parents=True)
        _furnish(settings, machine, partial)
        partial.rename(upper)
    root = directory(settings, machine.name) / "root"
    work = layers(settings, machine) / "work"
    for place in (root, work):
        place.mkdir(exist_ok=True, parents=True)
    if root not in mounts(root):
        options = f"lowerdir={machine.tree},upperdir={upper},workdir={work},index=off,xino=off"
        run(["mount", "-t", "overlay", settings.namespace(machine.index), "-o", options, str(root)])


def _furnish(settings: Settings, machine: Machine, upper: Path) -> None:
    """Write what makes a host different from the base image."""
    index = machine.index
    write(upper / "etc/hostname", machine.name + "\n")
    write(upper / "etc/machine-id", f"{index:032x}\n")
    neighbours = "".join(f"{settings.address(i)} {host_name(i)}\n" for i in range(1, MAX_HOSTS + 1))
    write(upper / "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n" + neighbours)
    resolver = Path("/etc/resolv.conf").read_text(encoding="utf-8") if machine.nat else ""
    write(upper / "etc/resolv.conf", resolver)
    if machine.nat:
        write(upper / "etc/pip.conf", f"[global]\ncert = {CERTIFICATES}\n")
    host_key = settings.state / "keys" / f"host-{machine.name}"
    public = pair(host_key)
    write(upper / "etc/ssh/ssh_host_ed25519_key", host_key.read_text(encoding="ascii"), 0o600)
    write(upper / "etc/ssh/ssh_host_ed25519_key.pub", public)
    write(upper / "root/.ssh/authorized_keys", pair(settings.state / "keys" / "operator"), 0o600)
    smi_files.install(upper, machine.gpus)
    # In a merged file system the upper directory's mode counts, and it must not depend on a umask.
    for path in (upper, *upper.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            private = path.relative_to(upper).parts[:1] == ("root",)
            path.chmod(0o700 if private else 0o755)

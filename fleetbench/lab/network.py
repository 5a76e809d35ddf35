"""The lab's network: one bridge, and for each host a network namespace with a cable to it.

The namespace is made and addressed before the host boots: its sshd finds the address there, nothing on
the host configures a network, and the namespace survives the host's reboots.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fleetbench.errors import UsageError
from fleetbench.lab.commands import run
from fleetbench.lab.settings import LabError, Settings

IFF_UP = 1


def batch(lines: Sequence[str], namespace: str = "") -> None:
    """Run several `ip` commands in one process."""
    if not lines:
        return
    where = ["-netns", namespace] if namespace else []
    run(["ip", *where, "-batch", "-"], stdin="\n".join(lines) + "\n")


def exists(interface: str) -> bool:
    """True when this machine has an interface of that name."""
    return Path("/sys/class/net", interface).exists()


def namespace_exists(name: str) -> bool:
    """True when a network namespace of that name is registered."""
    return Path("/run/netns", name).exists()


def user_of(subnet: str) -> str:
    """Return the line of `ip` that shows an address in a /24 on this machine; empty when there is none."""
    lines = run(["ip", "-oneline", "-4", "address", "show", "to", f"{subnet}.0/24"]).splitlines()
    return lines[0].strip() if lines else ""


def up(settings: Settings, *, nat: bool) -> None:
    """Make the bridge; with `nat`, let hosts reach the world through this machine."""
    if not exists(settings.bridge):
        taken = user_of(settings.subnet)
        if taken:
            raise LabError(
                f"the network {settings.subnet}.0/24 is in use on this machine",
                cause=taken,
                next_step="set FLEETBENCH_LAB_SUBNET to another one, for example 198.18.7",
            )
        batch(
            [
                # Without a delay the first packets of a fresh host are forwarded at once. Without a fixed
                # hardware address the bridge would take another one whenever a port comes or goes, and
                # hosts would talk to the old one for seconds.
                f"link add {settings.bridge} address {settings.bridge_mac} type bridge forward_delay 0",
                f"addr add {settings.gateway}/24 dev {settings.bridge}",
                f"link set {settings.bridge} up",
            ]
        )
    if nat:
        run(["nft", "-f", "-"], stdin=translation(settings.table, settings.subnet))


def translation(table: str, subnet: str) -> str:
    """Return nftables rules that put this machine's address on what leaves the lab; loadable twice."""
    return (
        f"table ip {table} {{}}\n"
        f"delete table ip {table}\n"
        f"table ip {table} {{\n"
        "  chain leave {\n"
        "    type nat hook postrouting priority 100;\n"
        f"    ip saddr {subnet}.0/24 ip daddr != {subnet}.0/24 masquerade;\n"
        "  }\n"
        "}\n"
    )


def down(settings: Settings) -> None:
    """Remove the bridge and the translation."""
    if exists(settings.bridge):
        batch([f"link delete {settings.bridge}"])
    tables = run(["nft", "list", "tables", "ip"]).splitlines()
    if f"table ip {settings.table}" in tables:
        run(["nft", "delete", "table", "ip", settings.table])


def connect(settings: Settings, index: int, *, nat: bool) -> None:
    """Make a host's namespace and cable, unless they stand."""
    namespace, link = settings.namespace(index), settings.link(index)
    if namespace_exists(namespace):
        return
    batch(
        [
            f"netns add {namespace}",
            f"link add {link} type veth peer name eth0 netns {namespace}",
            f"link set {link} master {settings.bridge} up",
        ]
    )
    route = [f"route add default via {settings.gateway}"] if nat else []
    inside = ["link set lo up", f"addr add {settings.address(index)}/24 dev eth0", "link set eth0 up", *route]
    batch(inside, namespace)


def disconnect(settings: Settings, index: int) -> None:
    """Remove a host's cable and namespace."""
    for link in (settings.link(index), settings.delay_links(index)[0]):
        if exists(link):
            batch([f"link delete {link}"])
    if namespace_exists(settings.namespace(index)):
        batch([f"netns delete {settings.namespace(index)}"])


def wait_forwarding(link: str, timeout_s: float = 10) -> None:
    """Wait until the bridge forwards what arrives at one of its ports, unless that was set down on purpose.

    The kernel tells the bridge of a cable that came up with up to a second's delay, when several changed.
    """
    interface = Path("/sys/class/net", link)
    if not int((interface / "flags").read_text(encoding="ascii"), 16) & IFF_UP:
        return
    state = interface / "brport" / "state"
    deadline = time.monotonic() + timeout_s
    while not state.exists() or state.read_text(encoding="ascii").strip() != "3":
        if time.monotonic() > deadline:
            raise LabError(f"the cable {link} does not come up")
        time.sleep(0.02)


def condition(settings: Settings, index: int, state: str | int) -> None:
    """Cut the cable (`down`), mend it (`up`), or limit it to so many kbit/s into the host (0: none)."""
    link = settings.link(index)
    if state in ("up", "down"):
        batch([f"link set {link} {state}"])
        if state == "up":
            wait_forwarding(link)
    elif isinstance(state, int) and state >= 0:
        current = run(["tc", "qdisc", "show", "dev", link])
        if " tbf " in f" {current} ":
            run(["tc", "qdisc", "del", "dev", link, "root"])
        if state:
            limit = ["tbf", "rate", f"{state}kbit", "burst", "4kb", "latency", "400ms"]
            run(["tc", "qdisc", "add", "dev", link, "root", *limit])
    else:
        raise UsageError(f"not a state of a network: {state!r}", next_step="up, down, or a number of kbit/s")

"""A slow, lossy line to one host, in user space.

Many kernels come without sch_netem. Here the host's cable is taken off the bridge, and a process of ours
carries each packet between the two, later. It ends when its standard input is closed, so it cannot outlive
the command that wanted it.
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fleetbench.lab.network import batch, exists, wait_forwarding
from fleetbench.lab.settings import LabError, Settings

SOL_PACKET = 263
PACKET_VNET_HDR = 15  # keep checksum and segmentation offload information with each packet
PACKET_IGNORE_OUTGOING = 23  # do not see again what was just sent
ALL_PROTOCOLS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """Delay and jitter each way, in milliseconds; packets lost each way, in percent."""

    delay_ms: float
    loss_percent: float = 0
    jitter_ms: float = 0


@contextmanager
def running(settings: Settings, index: int, line: Line) -> Iterator[None]:
    """Put a slow line between a host and the bridge while the context lasts."""
    near, far = settings.delay_links(index)
    cable = settings.link(index)
    batch(
        [
            f"link add {near} type veth peer name {far}",
            f"link set {near} master {settings.bridge} up",
            f"link set {far} up promisc on",
            f"link set {cable} nomaster promisc on",
        ]
    )
    numbers = (str(line.delay_ms), str(line.loss_percent), str(line.jitter_ms))
    carrier = subprocess.Popen(
        [sys.executable, "-m", "fleetbench.lab.slowlink", cable, far, *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        if carrier.stdout is None or carrier.stdout.readline() != b"ready\n":
            raise LabError("the slow line did not start", cause=f"status {carrier.wait()}")
        wait_forwarding(near)
        yield
    finally:
        carrier.communicate()
        batch([f"link delete {near}"] if exists(near) else [])
        if exists(cable):
            batch([f"link set {cable} master {settings.bridge} promisc off"])
            wait_forwarding(cable)


def _open(interface: str) -> socket.socket:
    """Return a raw socket that sees what arrives at an interface."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.bind((interface, ALL_PROTOCOLS))
    opened.setblocking(False)
    return opened


def carry(cable: str, far: str, line: Line) -> None:
    """Carry packets until standard input is closed."""
    first, second = _open(cable), _open(far)
    other = {first: second, second: first}
    waiting: list[tuple[float, int, bytes, socket.socket]] = []
    number = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([first, second, sys.stdin.fileno()], [], [], pause)
        if sys.stdin.fileno() in readable:
            return
        for side in (first, second):
            for packet in _arrived(side):
                if random.random() * 100 < line.loss_percent:  # noqa: S311  no secret depends on it
                    continue
                jitter = random.random() * line.jitter_ms  # noqa: S311
                number += 1
                due = time.monotonic() + (line.delay_ms + jitter) / 1000
                heapq.heappush(waiting, (due, number, packet, other[side]))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, packet, side = heapq.heappop(waiting)
            try:
                side.send(packet)
            except OSError:  # the far end is down: a lossy line loses it
                continue


def _arrived(side: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield side.recv(1 << 17)
        except OSError:  # nothing more, or the interface went down
            return


if __name__ == "__main__":
    carry(sys.argv[1], sys.argv[2], Line(float(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))

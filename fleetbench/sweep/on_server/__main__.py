"""Sample what serves a measurement once a second: counters of the servers, GPUs, processor time, wall power.

    python -m on_server DIRECTORY

DIRECTORY is root's and holds config.json; samples are written there, compressed, until SIGTERM comes, or the
client's `ends` file has been there for a while. Started as root it opens its files and the power meter, and
is the service user from then on: what a server answers is read with that user's rights only. A sample that
cannot be had is left out or written down as a gap, never as a number.

    metrics-samples.jsonl.gz  {"tick": 3, "of": 0, "at": EPOCH, "took": S, "text": LINES} or {…, "gap": WHY}
    host-samples.jsonl.gz     {"clock": {…}}, then {"at": EPOCH, "cpu": {GROUP: S}, "busy": S, "all": S}
    gpu-samples.csv.gz        at, then the fields of nvidia-smi (or what AMD's driver has of them)
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .clock import Clock, Log
from .gpus import AMD_HEAD, amd_lines, watch_nvidia
from .host import power_meter, processor
from .servers import ANSWER_S, poll_server

# After the client has left its exit status: the last answers have been counted by then.
LINGER_TICKS = 3


def become(user: str) -> None:
    """Give up root's rights for good."""
    if os.geteuid() == 0 and user:
        entry = pwd.getpwnam(user)
        os.setgroups(os.getgrouplist(user, entry.pw_gid))
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)


def watch_host(
    config: dict[str, Any],
    watts: Callable[[], float | None],
    clock: Clock,
    hosts: Log,
    gpus: Log,
    stop: threading.Event,
) -> None:
    """Write down processor time, power and AMD's GPUs at each tick, until the client has ended."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    hosts.add(json.dumps({"clock": {"epoch": clock.epoch, "mono": clock.mono, "boot": boot}}))
    ends, ended = Path(config["ends"] or "/nonexistent"), 0
    for _ in clock.ticks(stop):
        entry = {"at": round(clock.now(), 4), **processor(config["units"])}
        power = watts()
        if power is not None:
            entry["bmc_w"] = power
        hosts.add(json.dumps(entry))
        for line in amd_lines(config["amd"], clock.now()):
            gpus.add(line)
        ended += ends.exists()
        if ended > LINGER_TICKS:
            stop.set()


def main() -> None:
    """Sample until it is time to end."""
    directory = Path(sys.argv[1])
    config = json.loads((directory / "config.json").read_text("utf-8"))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    clock = Clock(float(config["every_s"]))
    names = ("metrics-samples.jsonl.gz", "host-samples.jsonl.gz", "gpu-samples.csv.gz")
    metrics, hosts, gpus = (Log(directory / name, int(config["most_bytes"])) for name in names)
    wanted = frozenset(config["metrics"])
    threads = [
        threading.Thread(target=poll_server, args=(of, place, wanted, clock, metrics, stop), daemon=True)
        for of, place in enumerate(config["endpoints"])
    ]
    if config["nvidia"]:
        arguments = (config["nvidia"], config["gpu_fields"], clock, gpus, stop)
        threads.append(threading.Thread(target=watch_nvidia, args=arguments, daemon=True))
    if config["amd"]:
        gpus.add(AMD_HEAD)
    watts = power_meter()
    become(config["user"])
    for thread in threads:
        thread.start()
    watch_host(config, watts, clock, hosts, gpus, stop)
    for thread in threads:
        thread.join(ANSWER_S / 2)
    for log in (metrics, hosts, gpus):
        log.close()


if __name__ == "__main__":
    main()

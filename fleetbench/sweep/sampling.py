"""Sampling beside a measurement: begun before its client, found by its name, fetched and removed after it.

A transient unit on the server's host samples servers, GPUs and processors; one on the client's host, where
that is another, the client's processor time. Nothing here may cost a measurement: what does not work is said
in the telemetry, and the run goes on.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fleetbench.bench.client import script as bench_script
from fleetbench.errors import CommandFailed, one_line
from fleetbench.facts.values import Gpu
from fleetbench.model import Host
from fleetbench.results.rows import MeasurementRow
from fleetbench.sweep.scrape import Endpoint
from fleetbench.telemetry import hardware, samples
from fleetbench.telemetry.names import PREFIX, sources
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

EVERY_S = 1.0
# Compressed, of each file: some 100 hours of one server.
MOST_BYTES = 32 * 1024 * 1024
# Beside the client's own limit: until a controller that comes back has fetched them.
LONGER_S = 900
_BENCH, _SERVER, _CLIENT = "fleetbench-bench-", "fleetbench-poll-", "fleetbench-usage-"
_PROGRAM = ("__init__.py", "__main__.py", "clock.py", "gpus.py", "host.py", "servers.py")
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What is sampled of a trial, and where.

    Attributes:
        host, session: of the servers. client, client_session: of the client; the same where it runs there.
        endpoints: where each server answers, as its host reaches it.
        units: that serve. client_units: that a client runs in, beside the measurement's own.
        gpus: the trial's.
        limit_s: of one client.
    """

    host: Host
    session: DurableSession
    client: Host
    client_session: DurableSession
    endpoints: Sequence[Endpoint]
    units: Sequence[str]
    client_units: Sequence[str]
    gpus: Sequence[Gpu]
    limit_s: float

    @property
    def apart(self) -> bool:
        """Whether the client runs on another host."""
        return self.client.name != self.host.name


def begin(sampled: Sampled, row: MeasurementRow) -> str:
    """Begin to sample for a measurement, in the place of what was sampled under its name before.

    Returns why that is not possible; empty when it is. A host that cannot be reached is NotReached: it can
    not be measured either.
    """
    try:
        for place in _places(sampled, row):
            place.start()
    except CommandFailed as exc:
        return one_line(f"{exc.what}: {exc.cause}" if exc.cause else exc.what, 200)
    return ""


def end(sampled: Sampled, row: MeasurementRow) -> Mapping[str, bytes]:
    """End sampling and return its files as a measurement's directory keeps them.

    Why something is not among them stands in `poller.json`. They stay on the hosts until `forget`.
    """
    content: dict[str, bytes] = {}
    about: dict[str, object] = {"unit": _named(row, _SERVER), "every_s": EVERY_S}
    about["endpoints"] = [f"{address}:{port}" for address, port in sampled.endpoints]
    about["gpus"] = [gpu.index for gpu in sampled.gpus]
    try:
        about["clock_offset_ms"] = _offset_ms(sampled)
        for place in _places(sampled, row):
            about |= place.stop()
            content |= place.fetch()
    except CommandFailed as exc:
        about["problem"] = one_line(f"{exc.what}: {exc.cause}" if exc.cause else exc.what, 200)
    content[samples.ABOUT] = json.dumps(about, indent=1).encode()
    return content


def forget(sampled: Sampled, row: MeasurementRow) -> None:
    """Take everything of a measurement's sampling off the hosts."""
    for place in _places(sampled, row):
        _forget(place.session, place.host, [place.unit])


def forget_all(session: DurableSession, host: Host, run_id: str) -> None:
    """End what a run samples of servers on a host, whoever began it, and remove it."""
    _forget(session, host, [f"{_SERVER}{run_id}-"])


def forget_clients(session: DurableSession, client: Host, run_id: str, trials: Iterable[int]) -> None:
    """End what is sampled on a client's host for these trials, and remove it."""
    _forget(session, client, [f"{_CLIENT}{run_id}-t{trial}-" for trial in sorted(trials)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One unit that samples, on one host; `names` says what its files are called when they are kept."""

    session: DurableSession
    host: Host
    unit: str
    config: Mapping[str, object]
    limit_s: float
    names: Mapping[str, str]

    @property
    def directory(self) -> str:
        return f"{self.host.prefix}/runs/{self.unit}"

    def start(self) -> None:
        config = {"every_s": EVERY_S, "most_bytes": MOST_BYTES, "user": self.host.user, **self.config}
        started = self.session.read(
            bash(
                bench_script("place.sh") + _script("poll_start.sh"),
                self.unit,
                self.directory,
                self.host.user,
                f"{self.limit_s + LONGER_S:.0f}",
                f"{self.host.venv}/bin/python",
                json.dumps(config),
                *_program(),
            ),
            timeout_s=30,
        )
        if not started.ok:
            raise CommandFailed("cannot sample", host=self.host.name, cause=started.last_line)

    def stop(self) -> Mapping[str, object]:
        xid = "xid" if self.config["nvidia"] else ""
        answer = self.session.read(bash(_script("poll_end.sh"), self.unit, self.directory, xid), timeout_s=60)
        found = re.search(r"^xid=(\d{1,9})$", answer.stdout, re.MULTILINE)
        return {"xid": int(found[1])} if found else {}

    def fetch(self) -> Iterator[tuple[str, bytes]]:
        for name, kept in self.names.items():
            try:
                content = self.session.get(f"{self.directory}/{name}")
            except CommandFailed:
                continue  # it never came that far
            if samples.unpacked(content):
                yield kept, content


def _places(sampled: Sampled, row: MeasurementRow) -> Iterator[_Place]:
    own = [f"{row.unit_name}.service", *sampled.client_units]
    ends = f"{sampled.client.prefix}/runs/{row.unit_name}/out/exit_status"
    nothing: dict[str, object] = {"endpoints": [], "metrics": [], "nvidia": [], "gpu_fields": [], "amd": {}}
    unit = _named(row, _SERVER)
    nvidia = [str(gpu.index) for gpu in sampled.gpus if gpu.vendor == "nvidia"]
    smi = ["nvidia-smi", "-i", ",".join(nvidia), "--format=csv,noheader,nounits", "--loop-ms=1000"]
    yield _Place(
        session=sampled.session,
        host=sampled.host,
        unit=unit,
        limit_s=sampled.limit_s,
        names={name: name for name in (samples.METRICS, samples.HOST, samples.GPUS)},
        config={
            "endpoints": [list(endpoint) for endpoint in sampled.endpoints],
            "metrics": [PREFIX + name for name in sources()],
            "nvidia": smi if nvidia else [],
            "gpu_fields": list(hardware.FIELDS),
            "amd": {str(gpu.index): gpu.bus_id for gpu in sampled.gpus if gpu.vendor == "amd" and gpu.bus_id},
            "units": {"server": list(sampled.units), "poller": [f"{unit}.service"]}
            | ({} if sampled.apart else {"client": own}),
            "ends": "" if sampled.apart else ends,
        },
    )
    if sampled.apart:
        yield _Place(
            session=sampled.client_session,
            host=sampled.client,
            unit=_named(row, _CLIENT),
            limit_s=sampled.limit_s,
            names={samples.HOST: samples.CLIENT},
            config=nothing | {"units": {"client": own}, "ends": ends},
        )


def _named(row: MeasurementRow, start: str) -> str:
    """Return the name of a unit that belongs to a measurement's, so that the next controller finds it."""
    return start + row.unit_name.removeprefix(_BENCH)


def _offset_ms(sampled: Sampled) -> float | None:
    """Return the server host's clock minus the client host's, each compared with the controller's steady one.

    Of a few questions to each, the one that was answered fastest counts; half of its time is the error.
    """
    if not sampled.apart:
        return 0.0
    server, client = _ahead_s(sampled.session), _ahead_s(sampled.client_session)
    return None if server is None or client is None else round((server - client) * 1000, 3)


def _ahead_s(session: DurableSession) -> float | None:

    best: tuple[float, float] | None = None
    for _ in range(_TRIES):
        asked = time.monotonic()
        said = session.read(("date", "+%s.%N"), timeout_s=10).stdout.strip()
        took = time.monotonic() - asked
        if re.fullmatch(r"\d{1,12}\.\d{9}", said) and (best is None or took < best[0]):
            best = took, float(said) - (asked + took / 2)
    return best[1] if best else None


def _forget(session: DurableSession, host: Host, starts: Sequence[str]) -> None:
    if starts:
        session.read(bash(_script("poll_forget.sh"), f"{host.prefix}/runs", *starts), timeout_s=60)


@cache
def _script(name: str) -> str:
    return (files("fleetbench.sweep") / name).read_text("utf-8")


@cache
def _program() -> tuple[str, ...]:
    place = files("fleetbench.sweep") / "on_server"
    return tuple(text for name in _PROGRAM for text in (name, (place / name).read_text("utf-8")))

"""nginx in front of several servers: from a value to the texts of its configuration and unit. Pure.

The program is the distribution's; its configuration and its service are not touched, because this one has
files of its own and runs as the service user. That of a trial lives in /run and shows every failure; a
persistent one lives in /etc, comes back at boot, and leaves out a server that is down.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass, replace

from fleetbench.errors import UsageError
from fleetbench.units import OVERRIDE_DIRECTORY, template

# What a request sends with the value 1 to be told, in the answer, which server gave it.
ASK_HEADER = "X-Fleetbench-Who"
ANSWER_HEADER = "X-Fleetbench-Answered-By"
SWEEP_PREFIX = "vllm-sweep-"
DIRECTORY = "/run/fleetbench"
# More workers than that only hold tables: one passes on some ten thousand tokens a second.
_MOST_WORKERS = 16
# A connection costs nginx about half a kilobyte in each worker, used or not.
_MOST_CONNECTIONS = 131_072
_SPEC_MARK = "0" * 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancer:
    """What a balancer is rendered from.

    Attributes:
        port, bind: where clients reach it, as they would reach a single server.
        members: ports of the servers, on `member_address`.
        streams: requests in flight at once, at most.
        cpus: of the host.
        program: absolute path of nginx.
        persistent: a service that comes back at boot; else that of one trial.
        promoted: as in `ServiceSpec`; no part of the hash.
    """

    port: int
    bind: str
    members: tuple[int, ...]
    user: str
    streams: int
    cpus: int = 1
    program: str = "/usr/sbin/nginx"
    member_address: str = "127.0.0.1"
    persistent: bool = False
    promoted: str = ""

    @property
    def name(self) -> str:
        """Unit name without `.service`: as a server on that port has it, so that what ends those ends it."""
        return f"vllm-{self.port}" if self.persistent else f"{SWEEP_PREFIX}{self.port}"

    @property
    def unit(self) -> str:
        """Full unit name."""
        return f"{self.name}.service"

    @property
    def unit_path(self) -> str:
        """Where the unit file belongs: that of a trial in /run, so that a reboot alone removes it."""
        return f"{'/etc' if self.persistent else '/run'}/systemd/system/{self.unit}"

    @property
    def config_path(self) -> str:
        """Where its configuration belongs."""
        return f"{OVERRIDE_DIRECTORY}/{self.name}.conf" if self.persistent else config_path(self.unit)

    @property
    def runtime_directory(self) -> str:
        """The only place it writes to; systemd makes and removes it."""
        return f"/run/{self.name}"

    @property
    def command(self) -> tuple[str, ...]:
        """Its command line; with `-t` it only checks its configuration."""
        return (self.program, "-p", f"{self.runtime_directory}/", "-c", self.config_path)

    @property
    def workers(self) -> int:
        """Processes that pass on: one for each CPU, as far as that helps."""
        return max(1, min(self.cpus, _MOST_WORKERS))

    @property
    def connections(self) -> int:
        """Connections of one worker: each stream has two, and its share of the streams may be all of them."""
        return min(4 * self.streams + 512, _MOST_CONNECTIONS)

    @property
    def idle_connections(self) -> int:
        """Connections to servers that a worker keeps for the next requests."""
        return max(32, min(self.streams, 1024))

    @property
    def files(self) -> int:
        """Files that a process may have open: one for each connection, some for itself."""
        return self.connections + 1024

    @property
    def listen(self) -> str:
        """Its address and port as nginx writes them; UsageError when the address cannot stand there."""
        try:
            address = ipaddress.ip_address(self.bind)
        except ValueError:
            if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", self.bind):
                return f"{self.bind}:{self.port}"
            raise UsageError(f"nginx cannot listen on {self.bind!r}", next_step="an IP address") from None
        if isinstance(address, ipaddress.IPv4Address):
            return f"{address}:{self.port}"
        if address.scope_id is not None:
            raise UsageError(f"nginx cannot listen on {self.bind!r}", next_step="an address without a scope")
        both = " ipv6only=off" if address.is_unspecified else ""  # as a socket of vLLM's on :: does
        return f"[{address}]:{self.port}{both}"


def config_path(unit: str) -> str:
    """Return where the configuration of a trial's balancer with that unit lies."""
    return f"{DIRECTORY}/{unit.removesuffix('.service')}.conf"


def config_text(balancer: Balancer) -> str:
    """Return nginx's configuration. UsageError when a value cannot stand in it."""
    _refuse_unsafe(balancer)
    return template("balancer.conf.j2").render(
        balancer=balancer, ask_header=ASK_HEADER, answer_header=ANSWER_HEADER
    )


def unit_text(balancer: Balancer) -> str:
    """Return the text of the unit, with the hash of unit and configuration in it."""
    return _unit(balancer, spec_hash(balancer))


def spec_hash(balancer: Balancer) -> str:
    """Return the 12-digit hash of unit and configuration together: another one is another balancer."""
    both = _unit(replace(balancer, promoted=""), _SPEC_MARK) + config_text(balancer)
    return hashlib.sha256(both.encode()).hexdigest()[:12]


def _unit(balancer: Balancer, mark: str) -> str:
    _refuse_unsafe(balancer)
    return template("balancer.service.j2").render(balancer=balancer, spec_hash=mark)


def _refuse_unsafe(balancer: Balancer) -> None:
    """What stands bare in the texts must be plain."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", balancer.user):
        raise UsageError(f"user cannot be used in a unit: {balancer.user!r}")
    if not re.fullmatch(r"(/[A-Za-z0-9_.+-]+)+", balancer.program) or ".." in balancer.program.split("/"):
        raise UsageError(f"nginx is at a path that cannot be used in a unit: {balancer.program!r}")
    ports = (balancer.port, *balancer.members)
    if not balancer.members or len(set(ports)) < len(ports) or not all(0 < port < 65536 for port in ports):
        raise UsageError(f"ports of a balancer: {ports}", next_step="different ones from 1 to 65535")

"""All facts of a host in one round trip: the question (`command`), the answer (`parse`), both (`read`)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from types import MappingProxyType

from fleetbench.facts import files, gpu, network, os, python, systemd
from fleetbench.facts.sections import Sections, split
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.transport.base import Session, Timeouts, bash

TOOL_LIMIT_S = 10
_PLAIN_SECTIONS = {
    "machine": "machine",
    "tools": "tools",
    "packages": "rpm or dpkg-query",
    "accounts": "getent",
    "files": "stat",
    "time": "time synchronisation",
}
_NOT_INSTALLED = 127


def command(
    *,
    prefix: str,
    user: str,
    paths: Sequence[str] = (),
    packages: Sequence[str] = (),
    accounts: Sequence[str] = (),
    disks: Sequence[str] = (),
    token: str,
    tool_limit_s: int = TOOL_LIMIT_S,
) -> tuple[str, ...]:
    """Return the argv that asks a host for its facts; it changes nothing there.

    Args:
        prefix: home of the service user; its venvs, its `venv-vllm` link and its disk are always asked.
        user: service user, always asked.
        paths: managed files; unit files of vllm-* and /etc/fleetbench/* are always asked.
        packages: names of distribution packages.
        accounts, disks: further accounts, and paths whose free space matters.
        token: random, new for each run, letters and digits only.
        tool_limit_s: seconds after which a tool that does not answer (a hung driver) is given up.
    """
    tagged = [f"file:{path}" for path in paths]
    tagged += [f"package:{name}" for name in packages]
    tagged += [f"account:{name}" for name in accounts]
    tagged += [f"disk:{path}" for path in disks]
    return bash(_script(), token, prefix, user, str(tool_limit_s), *tagged)


def new_token() -> str:
    """Return a token for one run of the probe."""
    return secrets.token_hex(16)


def read(
    session: Session,
    *,
    paths: Sequence[str] = (),
    packages: Sequence[str] = (),
    accounts: Sequence[str] = (),
    disks: Sequence[str] = (),
    timeout_s: float | None = None,
) -> HostFacts:
    """Ask the session's host for its facts, in one round trip.

    Raises what the session raises when the host cannot be reached; whatever the host says becomes facts.
    """
    host = session.host
    token = new_token()
    argv = command(
        prefix=host.prefix,
        user=host.user,
        paths=paths,
        packages=packages,
        accounts=accounts,
        disks=disks,
        token=token,
    )
    result = session.run(argv, timeout_s=timeout_s or Timeouts().facts_s)
    facts = parse(result.stdout, host=host.name, token=token)
    if isinstance(facts.os, Missing) and not facts.clock_utc and not result.ok:
        reason = f"the probe did not start: {result.last_line or f'status {result.exit_status}'}"
        return _nothing(host.name, reason)
    return facts


def parse(output: str, *, host: str, token: str) -> HostFacts:
    """Given the probe's stdout and its token, return the facts. Never raises, whatever the text holds."""
    sections = split(output, token)
    units_by_pid = network.units_by_pid(sections)
    machine = os.machine(sections)
    paths, versions = os.tools(sections)
    firewall = network.firewall(sections)
    time_sync = os.time_sync(sections)
    facts = HostFacts(
        host=host,
        root=machine.root,
        os=os.system(sections),
        pythons=python.pythons(sections),
        tools=paths,
        tool_versions=versions,
        packages=os.packages(sections),
        accounts=os.accounts(sections),
        gpus=gpu.gpus(sections, units_by_pid),
        topology=gpu.links(sections),
        units=systemd.units(sections),
        venvs=python.venvs(sections),
        listeners=network.listeners(sections, units_by_pid),
        disks=files.disks(sections),
        files=files.files(sections),
        selinux=machine.selinux,
        firewalld=firewall.state,
        firewall_ports=firewall.ports,
        time_sync=time_sync.state,
        time_offset_ms=time_sync.offset_ms,
        clock_utc=machine.clock_utc,
        memory_mib=machine.memory_mib,
        cpus=machine.cpus,
        numa_nodes=machine.numa_nodes,
        missing=MappingProxyType(
            _missing(sections) | ({"firewalld": firewall.failure} if firewall.failure else {})
        ),
    )
    return _with_missing(facts)


def _missing(sections: Sections) -> dict[str, str]:
    """Reasons of sections that stand behind plain fields. A tool that is not installed is no failure."""
    found = {}
    for name, tool in _PLAIN_SECTIONS.items():
        failed = sections.missing(name, tool)
        if failed is not None and not (name == "time" and sections[name].status == _NOT_INSTALLED):
            found[name] = failed.reason
    return found


def _with_missing(facts: HostFacts) -> HostFacts:
    reasons = {
        field.name: value.reason
        for field in fields(facts)
        if isinstance(value := getattr(facts, field.name), Missing)
    }
    return replace(facts, missing=MappingProxyType({**reasons, **facts.missing}))


def _nothing(host: str, reason: str) -> HostFacts:
    missing = Missing(reason)
    return _with_missing(
        HostFacts(
            host=host,
            os=missing,
            pythons=missing,
            gpus=missing,
            topology=missing,
            units=missing,
            venvs=missing,
            listeners=missing,
            disks=missing,
        )
    )


@cache
def _script() -> str:
    """The probe without its comment lines: it travels as one argument, quoted, in every call."""
    text = (resources.files("fleetbench.facts") / "probe.sh").read_text("utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))

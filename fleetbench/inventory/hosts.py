"""hosts.toml: defaults, groups and hosts put together into `Host` values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleetbench.inventory.documents import Document, Place, named_tables
from fleetbench.inventory.groups import Group, Membership, Variables, check_name, flatten, read_terms
from fleetbench.inventory.keys import build_keys, host_keys
from fleetbench.inventory.kinds import Reader, read_table, reference
from fleetbench.inventory.names import NAME_RULE, is_name
from fleetbench.inventory.patterns import expand_names
from fleetbench.inventory.values import Source
from fleetbench.model import Build, Host

SECTIONS = ("defaults", "builds", "groups", "hosts")


@dataclass(frozen=True, slots=True)
class Hosts:
    """What hosts.toml files come to."""

    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    builds: Mapping[str, Build]
    sources: Mapping[str, Source]


def read_hosts(directory: Path, documents: tuple[Document, ...], *, complete: bool) -> Hosts:
    """Read builds, groups and hosts of all hosts.toml files.

    `[defaults]` of the directory's own file hold for every host, those of a sub-directory's file only for
    the hosts of that file. With `complete` false a file is missing from `documents` because it could not
    be read: names that may be defined there are not reported as unknown.
    """
    definitions = Definitions()
    builds = {
        name: Build(name=name, **values)
        for name, values in definitions.tables(documents, "builds", build_keys(), required=("version",))
    }
    keys = host_keys(reference("build", definitions.names("builds"), complete=complete))
    defaults = _defaults(directory, documents, keys)

    own: dict[str, tuple[Place, dict[tuple[str, ...], Any]]] = {}
    for pattern, place, table in named_tables(documents, "hosts"):
        variables = flatten(read_table(table, place, keys))
        for name in _host_names(pattern, place):
            if definitions.add("hosts", name, place):
                own[name] = (place, variables)

    groups: dict[str, Group] = {}
    for name, place, table in named_tables(documents, "groups"):
        variables = flatten(read_table({k: v for k, v in table.items() if k != "hosts"}, place, keys))
        if "hosts" not in table:
            place.report("expected the key hosts: names, ranges or @groups")
        terms = read_terms(table.get("hosts", ""), place.at("hosts"))
        if check_name(place, name) and definitions.add("groups", name, place):
            groups[name] = Group(name, place, terms if complete else (), variables)

    membership = Membership(groups, tuple(own))
    hosts: dict[str, Host] = {}
    for name, (place, variables) in own.items():
        merged = {**defaults[place.document.file], **membership.variables(name, variables), **variables}
        host = _host(name, membership.of(name), merged, builds, place)
        if host is not None:
            hosts[name] = host
    return Hosts(hosts, membership.members, builds, definitions.sources)


def names_of(sources: Mapping[str, Source], section: str) -> tuple[str, ...]:
    """Return the names of a section among the places where things are defined."""
    return tuple(key.removeprefix(f"{section}.") for key in sources if key.startswith(f"{section}."))


class Definitions:
    """Where each name is defined; a second definition is a problem that names both places."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def add(self, section: str, name: str, place: Place) -> bool:
        """Note a definition; False, and a problem, when the name is taken."""
        known = self.sources.setdefault(
            f"{section}.{name}", source := Source(place.document.shown, place.line)
        )
        if known is not source:
            place.report(f"{section.removesuffix('s')} {name} is already defined at {known}")
            return False
        return True

    def names(self, section: str) -> tuple[str, ...]:
        """Return all names defined in a section, also of tables that cannot be used."""
        return names_of(self.sources, section)

    def tables(
        self,
        documents: tuple[Document, ...],
        section: str,
        keys: Mapping[str, Reader],
        *,
        required: tuple[str, ...] = (),
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return name and values of each `[section.NAME]`, the first of its name, with all required keys."""
        usable = []
        for name, place, table in named_tables(documents, section):
            values = read_table(table, place, keys)
            missing = [key for key in required if key not in table]
            for key in missing:
                place.report(f"expected the key {key}, which has no default")
            if self.add(section, name, place) and all(key in values for key in required):
                usable.append((name, values))
        return usable


def _defaults(
    directory: Path, documents: tuple[Document, ...], keys: Mapping[str, Reader]
) -> dict[Path, dict[tuple[str, ...], Any]]:
    """Return what holds for the hosts of each file before groups and hosts speak."""
    by_file = {
        document.file: flatten(
            read_table(document.tables.get("defaults", {}), document.root.at("defaults"), keys)
        )
        for document in documents
    }
    common = by_file.get(directory / "hosts.toml", {})
    return {file: {**common, **values} for file, values in by_file.items()}


def _host_names(pattern: str, place: Place) -> tuple[str, ...]:
    try:
        names = expand_names(pattern)
    except ValueError as exc:
        place.report(str(exc))
        return ()
    if not all(map(is_name, names)):
        place.report(f"expected a host name of {NAME_RULE}; ranges such as h100-[01-08] are fine")
        return ()
    return names


def _host(
    name: str, groups: tuple[str, ...], merged: Variables, builds: Mapping[str, Build], place: Place
) -> Host | None:
    """Build the host from its merged variables, or report what does not fit together."""
    fields: dict[str, Any] = {key[0]: value for key, value in merged.items() if len(key) == 1}
    for key, value in merged.items():
        if len(key) == 2:
            fields[key[0]] = MappingProxyType({**fields.get(key[0], {}), key[1]: value})
    build = builds.get(fields.pop("build", ""))
    if build is None:
        # A build that cannot be used was reported where it is written; here it is only said that none is.
        # The same holds when a whole file is missing (a problem without a key).
        told = (problem.key for problem in place.document.problems)
        if not any(key == "" or key.startswith("builds") or key.endswith(".build") for key in told):
            place.report(
                f"expected the key build here, in a group or in [defaults]; known: {', '.join(builds)}"
            )
        return None
    host = Host(name=name, build=build, groups=groups, **fields)
    if host.ports[0] <= host.sweep_ports[1] and host.sweep_ports[0] <= host.ports[1]:
        place.report(
            f"expected ports and sweep_ports apart, found {host.ports[0]}-{host.ports[1]} and "
            f"{host.sweep_ports[0]}-{host.sweep_ports[1]}: a sweep would take a service's port"
        )
        return None
    return host

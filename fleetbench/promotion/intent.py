"""What has to be done on a host so that a target serves there, and what stood there before. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetbench import deploy
from fleetbench.facts.values import HostFacts
from fleetbench.operations.files import Directory, TextFile, directories, gone, written
from fleetbench.operations.firewall import port_open
from fleetbench.operations.systemd import UnitFile, absent, enabled, installed
from fleetbench.preflight import units_of
from fleetbench.promotion.place import Place
from fleetbench.promotion.target import Target
from fleetbench.rollback.stand import UNIT_DIRECTORY, Spot, standing, text_now
from fleetbench.steps import Operation, Step, fold
from fleetbench.sweep.balancer import Balancer, config_text, spec_hash, unit_text
from fleetbench.units import OVERRIDE_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is to be done on one host.

    Attributes:
        steps: files that differ, units that are to be enabled or removed.
        starts: why a unit has to be started, by its name: what runs is not what is wanted.
        spots: every unit that is wanted or goes, servers first.
        configurations: text of each balancer's configuration that is there now, None: it is not, by path.
    """

    target: Target
    steps: tuple[Step, ...]
    starts: Mapping[str, str]
    spots: tuple[Spot, ...]
    configurations: Mapping[str, str | None]

    @property
    def nothing(self) -> bool:
        """Whether everything is as it should be."""
        return not self.steps and not self.starts


def intent_of(target: Target, facts: HostFacts, *, open_firewall: bool = False) -> Intent:
    """Return what has to be done. The facts have to know the files of `paths_of`.

    NotPossible for what could not be put back as it is.
    """
    outcome = fold(facts, _operations(target, facts, open_firewall))
    return Intent(
        target=target,
        steps=outcome.steps,
        starts=dict(_starts(target, facts)),
        spots=tuple(sorted(_spots(target, facts), key=lambda spot: spot.balancer)),
        configurations={path: text_now(target.host, path, facts) for path in _configurations(target, facts)},
    )


def paths_of(place: Place) -> tuple[str, ...]:
    """Return the paths, beside unit files, that have to be known of a host before a service goes there."""
    ports = place.member_ports or (place.port,)
    own = (f"{OVERRIDE_DIRECTORY}/vllm-{port}.env" for port in ports)  # as in `units.override_path`
    return OVERRIDE_DIRECTORY, configuration_path(place.port), *own


def _operations(target: Target, facts: HostFacts, open_firewall: bool) -> list[Operation]:
    wanted: list[Operation] = []
    files = [UnitFile.of(spec) for spec in target.units.members]
    balancer = target.units.balancer
    if balancer is not None:
        text = TextFile(path=balancer.config_path, text=config_text(balancer), why="what nginx does")
        wanted += [directories((Directory(path=OVERRIDE_DIRECTORY),)), written(text)]
        files.append(_unit_file(balancer))
    for name in target.place.replaces:
        unit = units_of(facts).get(name)
        if name not in target.units.units and unit is not None:
            wanted += absent(name, unit.fragment)
    for file in files:
        wanted += [installed(file), enabled(file)]
    wanted += [
        gone(path, "there is no balancer any more") for path in _configurations(target, facts) if not balancer
    ]
    if open_firewall:
        wanted.append(port_open(target.place.port))
    return wanted


def _unit_file(balancer: Balancer) -> UnitFile:
    return UnitFile(
        name=balancer.unit,
        path=balancer.unit_path,
        text=unit_text(balancer),
        spec=spec_hash(balancer),
        enabled=True,
        port=balancer.port,
    )


def _starts(target: Target, facts: HostFacts) -> Iterator[tuple[str, str]]:
    for spec in target.units.members:
        why = deploy.must_restart(spec, facts)
        if why:
            yield spec.unit, why
    balancer = target.units.balancer
    if balancer is None:
        return
    # nginx writes its title over its environment, where others keep the hash of their spec. Its files are
    # written while it is stopped, so they say what it is.
    unit = units_of(facts).get(balancer.unit)
    known = _text(facts, balancer.config_path) == config_text(balancer)
    if unit is None or not unit.running:
        yield balancer.unit, "is not running"
    elif not unit.servers or unit.spec != spec_hash(balancer) or unit.need_reload or not known:
        yield balancer.unit, f"runs spec {unit.running_spec or unit.spec or 'unknown'}"


def _spots(target: Target, facts: HostFacts) -> Iterator[Spot]:
    ports = {spec.unit: spec.port for spec in target.units.members} | {target.units.unit: target.place.port}
    for name in dict.fromkeys((*target.units.units, *target.place.replaces)):
        unit = units_of(facts).get(name)
        front = target.units.balancer is not None and name == target.units.unit
        yield Spot(
            unit=name,
            unit_path=f"{UNIT_DIRECTORY}/{name}",
            port=ports.get(name) or (unit.port if unit is not None else None) or 0,
            before=standing(target.host, name, facts),
            balancer=front or (unit is not None and bool(unit.servers)),
        )


def _configurations(target: Target, facts: HostFacts) -> tuple[str, ...]:
    """Return the paths of configurations that are wanted, or belong to a balancer that goes."""
    path = configuration_path(target.place.port)
    unit = units_of(facts).get(f"vllm-{target.place.port}.service")
    there = unit is not None and bool(unit.servers)
    return (path,) if there or target.units.balancer is not None else ()


def configuration_path(port: int) -> str:
    """Return where the configuration of a persistent balancer on a port is."""
    return f"{OVERRIDE_DIRECTORY}/vllm-{port}.conf"


def _text(facts: HostFacts, path: str) -> str | None:
    file = facts.files.get(path)
    return file.text if file is not None and file.sha256 else None

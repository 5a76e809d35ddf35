"""Units: `systemctl show`, our marks inside the unit files, and the running processes' own marks.

The hash of a unit's spec is kept in three places that can differ: wanted (rendered now), in the file, and in
the environment of the running process. systemd 239 (Rocky 8) to 257 print these properties alike, each in an
order of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from fleetbench.facts.fields import clean, rows, whole
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Missing, Unit

_OURS = re.compile(r"(?:vllm|fleetbench)-[^/\s]{1,200}\.[a-z]{3,9}")


def units(sections: Sections) -> Mapping[str, Unit] | Missing:
    """Given the probe's sections, return our units by full name; those unknown to systemd are absent."""
    failed = sections.missing("units", "systemctl show")
    if failed is not None:
        return failed
    in_file, in_process = _marks(sections["marks"].out)
    found: dict[str, Unit] = {}
    for properties in blocks(sections["units"].out):
        unit = _unit(properties)
        if unit is None or unit.load == "not-found":
            continue
        marks = in_file.get(unit.fragment, {})
        found[unit.name] = replace(
            unit,
            spec=marks.get("SPEC", ""),
            gpus=marks.get("GPUS", ""),
            port=whole(marks.get("PORT", "")),
            promoted=marks.get("PROMOTED", ""),
            servers=tuple(port for word in marks.get("SERVERS", "").split(",") if (port := whole(word))),
            running_spec=in_process.get(unit.main_pid, "") if unit.main_pid else "",
        )
    return MappingProxyType(found)


def blocks(text: str) -> Iterator[dict[str, str]]:
    """Yield the properties of each unit in the answer of `systemctl show`: an empty line is between two."""
    for block in re.split(r"\n{2,}", text):
        properties: dict[str, str] = {}
        for line in block.split("\n"):
            key, equals, value = line.partition("=")
            if equals:
                properties.setdefault(key, value)
        if properties:
            yield properties


def _unit(properties: Mapping[str, str]) -> Unit | None:
    name = properties.get("Id", "")
    if not _OURS.fullmatch(name):
        return None
    return Unit(
        name=clean(name, 250),
        load=clean(properties.get("LoadState", "not-found")),
        active=clean(properties.get("ActiveState", "inactive")),
        sub=clean(properties.get("SubState", "dead")),
        result=clean(properties.get("Result", "success")),
        main_pid=whole(properties.get("MainPID", "")) or 0,
        exit_code=whole(properties.get("ExecMainStatus", "")) or 0,
        restarts=whole(properties.get("NRestarts", "")) or 0,
        invocation=clean(properties.get("InvocationID", "")),
        fragment=clean(properties.get("FragmentPath", ""), 400),
        enabled=clean(properties.get("UnitFileState", "")),
        need_reload=properties.get("NeedDaemonReload", "") == "yes",
        description=clean(properties.get("Description", "")),
        drop_ins=tuple(clean(path, 400) for path in properties.get("DropInPaths", "").split()[:32]),
    )


def _marks(text: str) -> tuple[dict[str, dict[str, str]], dict[int, str]]:
    """Marks by unit file, and the spec by main pid."""
    in_file: dict[str, dict[str, str]] = {}
    in_process: dict[int, str] = {}
    for kind, where, third, fourth in rows(text, 4):
        pid = whole(where)
        if kind == "file" and third in ("SPEC", "PORT", "GPUS", "PROMOTED", "SERVERS"):
            in_file.setdefault(where, {})[third] = clean(fourth)
        elif kind == "process" and pid is not None:
            in_process[pid] = clean(third)
    return in_file, in_process

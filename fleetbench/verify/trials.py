"""What is derived once more for each trial: the unit that served it, what ran, and in which versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from fleetbench.errors import Unreadable
from fleetbench.facts.document import from_json
from fleetbench.results.rows import Json, RunKind, as_json
from fleetbench.sweep.answers import answers_in, names_of, together
from fleetbench.sweep.versions import versions_of
from fleetbench.units import hash_in, hash_of
from fleetbench.verify.claims import Checked, Unchecked, claims
from fleetbench.verify.material import OfTrial

UNIT = "unit.service"
# Several files in one text, each below its path on the host.
_FILE = re.compile(r"^# (/\S+/(?P<name>[\w@.-]{1,200}))\n", re.MULTILINE)


def unit(case: OfTrial) -> Iterator[Checked]:
    """The text of each unit file, and the hash that tells two apart."""
    row = case.row
    if not row.unit_text:
        return
    parts = _parts(row.unit_text)
    found = case.files(parts)
    texts = {name: _text(found[name]) if name in found else None for name in parts}
    lacks = case.lacks(parts)
    yield from claims(case.place, parts, texts, "the file of that name", lacks=lacks)
    own = texts.get(UNIT)
    if own is not None:
        yield from claims(case.place, {"spec_hash": row.spec_hash}, {"spec_hash": hash_in(own)}, UNIT)
        if case.run.kind is RunKind.SWEEP:  # what others may have edited is masked where it is kept
            hashed = {"hash of the unit's text": hash_of(own)}
            yield from claims(case.place, {"hash of the unit's text": row.spec_hash}, hashed, UNIT)


def effective(case: OfTrial) -> Iterator[Checked]:
    """What the servers ran with, from their log, answers and metrics at the start."""
    row = case.row
    stored = {name: value for name, value in row.effective.items() if name not in ("invocation", "members")}
    if not stored:
        return
    ports = row.member_ports or (row.port,)
    files = case.files(names_of(ports))
    answers = [found for port in ports if (found := answers_in(port, files)) is not None]
    if len(answers) < len(ports):
        yield Unchecked(place=case.place, name="what it ran with", why="what it answered was not kept")
        return
    known = as_json(together([one.effective for one in answers]))
    ran_with = known if isinstance(known, dict) else {}
    source = "what it answered at its start"
    lacks = case.lacks(names_of(ports))
    yield from claims(case.place, _like(stored), _like(ran_with), source, "effective ", lacks=lacks)
    version = {"vllm_version": answers[0].served.version}
    yield from claims(case.place, {"vllm_version": row.vllm_version}, version, source, lacks=lacks)


def versions(case: OfTrial) -> Iterator[Checked]:
    """What versions.json says of both hosts, from their facts."""
    content = case.read("versions.json")
    if content is None:
        if case.row.unit_text:
            yield Unchecked(place=case.place, name="versions", why="there is no versions.json")
        return
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    known = document if isinstance(document, dict) else {}
    for side, file in (("server", "facts-before.json"), ("client", "facts-client.json")):
        written = known.get(side)
        facts = case.read(file) or case.read("facts-before.json")
        if not isinstance(written, dict) or facts is None:
            yield Unchecked(place=case.place, name=f"versions of the {side}", why="a file of it is missing")
            continue
        try:
            found = versions_of(from_json(_text(facts)), str(written.get("venv", "")))
        except Unreadable as exc:
            yield Unchecked(place=case.place, name=f"versions of the {side}", why=exc.what)
            continue
        versions, prefix = (_like(written), _like(found)), f"versions of the {side}: "
        yield from claims(case.place, *versions, file, prefix, lacks=case.lacks((file,)))


def _parts(text: str) -> dict[str, Json]:
    """Return the files in the text of a trial's unit, by the name that each is kept under."""
    places = list(_FILE.finditer(text))
    if not places or places[0].start():
        return {UNIT: text}
    ends = [*(place.start() for place in places[1:]), len(text) + 1]
    return {place["name"]: text[place.end() : end - 1] for place, end in zip(places, ends, strict=True)}


def _like(document: Mapping[str, Json]) -> Mapping[str, Json]:
    """As JSON has it: a tuple is a list, and nothing is as good as not there."""
    return {str(name): as_json(value) for name, value in document.items() if value not in (None, "", [])}


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")

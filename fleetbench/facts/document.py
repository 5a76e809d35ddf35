"""Facts as JSON: stored as evidence beside a run, and read again by a planner that reaches no host.

Keys are the names of the dataclass fields; a fact that is missing is `{"missing": reason}`. Unknown keys are
ignored, so that an older version reads what a newer one wrote; absent keys take their defaults.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache

from fleetbench.errors import Unreadable
from fleetbench.facts.fields import shown
from fleetbench.facts.values import File, HostFacts, Missing

FORMAT = "fleetbench-facts"
VERSION = 1


def to_json(facts: HostFacts) -> str:
    """Given facts, return them as one JSON document, indented, keys in the order of the fields.

    The documents are kept beside a run: what looks like a secret in a file's text is left out (units that
    others wrote hold tokens), its hash stays that of the whole file.
    """
    document = {"format": FORMAT, "version": VERSION, "facts": _plain(facts)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def from_json(text: str) -> HostFacts:
    """Given a document of `to_json`, return the facts. Unreadable, with the place, when it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable("facts are not JSON", cause=str(exc)) from exc
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Unreadable("not a facts document", cause=f'the key "format" is not "{FORMAT}"')
    if document.get("version") != VERSION:
        raise Unreadable(
            f"facts of version {document.get('version')!r} cannot be read",
            next_step="read them with the fleetbench that wrote them, or probe the host again",
        )
    facts = _read(HostFacts, document.get("facts"), "facts")
    assert isinstance(facts, HostFacts)  # noqa: S101  narrows for mypy
    return facts


def _plain(value: object) -> object:
    if isinstance(value, Missing):
        return {"missing": value.reason}
    if isinstance(value, File) and value.text is not None:
        value = replace(value, text=shown(value.text))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value


@cache
def _hints(kind: type) -> dict[str, object]:
    return dict(typing.get_type_hints(kind))


def _read(kind: object, value: object, where: str) -> object:
    """Read `value` as a field of type `kind`: a dataclass, tuple, mapping, union or scalar of values.py."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(arguments, value, where)
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], inner, f"{where}[{n}]") for n, inner in enumerate(value))
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, dict):
        return types.MappingProxyType(
            {key: _read(arguments[1], inner, f"{where}.{key}") for key, inner in value.items()}
        )
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise _wrong(where, value)


def _read_union(arguments: tuple[object, ...], value: object, where: str) -> object:
    if Missing in arguments and isinstance(value, dict) and set(value) == {"missing"}:
        if not isinstance(value["missing"], str):
            raise _wrong(f"{where}.missing", value["missing"])
        return Missing(value["missing"])
    if type(None) in arguments and value is None:
        return None
    (kind,) = (one for one in arguments if one not in (Missing, type(None)))
    return _read(kind, value, where)


def _read_dataclass(kind: type, value: object, where: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(where, value)
    hints = _hints(kind)
    given = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = _read(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise Unreadable("facts cannot be read", cause=f"{where}.{field.name} is missing")
    made: object = kind(**given)
    return made


def _wrong(where: str, value: object) -> Unreadable:
    return Unreadable("facts cannot be read", cause=f"{where} holds {type(value).__name__}: {value!r:.80}")

"""What a key may hold: small readers that take a TOML value and its place and give the value that we use.

A reader that cannot use a value notes a problem at its place and returns `INVALID`; the load fails in the
end, but only after every other key has been looked at too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fleetbench.inventory.documents import Place
from fleetbench.inventory.names import near_names, suggestion
from fleetbench.inventory.problems import shown

INVALID: Final = object()

Reader = Callable[[Any, Place], Any]

# Variables that a unit gets from elsewhere; a second value would win over it or be lost, silently.
RESERVED_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "CUDA_DEVICE_ORDER": "units always count GPUs in PCI bus order",
        "CUDA_VISIBLE_DEVICES": "each unit's GPU set decides",
        "HIP_VISIBLE_DEVICES": "each unit's GPU set decides",
        "ROCR_VISIBLE_DEVICES": "each unit's GPU set decides",
        "TORCH_CUDA_ARCH_LIST": "write arch_list instead",
        "FLEETBENCH_SPEC": "it carries the unit's hash",
    }
)
SECRET_VARIABLE = re.compile(r"(?i)(TOKEN|(API|ACCESS|SECRET)_?KEY|PASSWORD|PASSWD|SECRET|CREDENTIALS)$")


QUOTE_DOTS = 'quote a name that holds a dot, as in [models."llama-3.1-8b"]'


def read_table(table: Any, place: Place, keys: Mapping[str, Reader]) -> dict[str, Any]:
    """Given a TOML table and a reader for each key, return the values of the keys that it holds.

    Unknown keys are problems and values that cannot be used are left out.
    """
    if not isinstance(table, dict):
        place.expected("a table", table)
        return {}
    values = {}
    for key, value in table.items():
        if key in keys:
            values[key] = keys[key](value, place.at(key))
        elif isinstance(value, dict):
            # [models.llama-3.1-8b] is three tables for TOML: models, llama-3 and 1-8b
            near = suggestion(key, keys) if near_names(key, keys) else QUOTE_DOTS
            place.at(key).report(f"no such table here; {near}")
        else:
            place.at(key).report(f"no such key here; {suggestion(key, keys)}")
    return {key: value for key, value in values.items() if value is not INVALID}


def whole(low: int, high: int) -> Reader:
    """A whole number from `low` to `high`."""

    def read(value: Any, place: Place) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        place.expected(f"a whole number from {low} to {high}", value)
        return INVALID

    return read


def number(low: float, high: float, *, unit: str = "") -> Reader:
    """A number from `low` to `high`, whole or not; never inf or nan."""

    def read(value: Any, place: Place) -> Any:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if good and low <= value <= high:  # nan compares false with everything
            return float(value)
        place.expected(f"a number{' of ' + unit if unit else ''} from {low:g} to {high:g}", value)
        return INVALID

    return read


def flag(value: Any, place: Place) -> Any:
    """True or false."""
    if isinstance(value, bool):
        return value
    place.expected("true or false", value)
    return INVALID


def text(expected: str, pattern: str = r".*") -> Reader:
    """Text without control characters that matches a pattern as a whole; `expected` says it in words."""
    compiled = re.compile(pattern)

    def read(value: Any, place: Place) -> Any:
        if (
            isinstance(value, str)
            and value.isprintable()
            and len(value) <= 4096
            and compiled.fullmatch(value)
        ):
            return value
        place.expected(expected, value)
        return INVALID

    return read


def choice(*names: str) -> Reader:
    """One of a few words."""

    def read(value: Any, place: Place) -> Any:
        if isinstance(value, str) and value in names:
            return value
        near = near_names(value, names) if isinstance(value, str) else ()
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        place.report(f"expected {' or '.join(names)}, found {shown(value)}{hint}")
        return INVALID

    return read


def reference(noun: str, known: Iterable[str], *, complete: bool = True) -> Reader:
    """The name of something defined elsewhere.

    With `complete` false (a file with definitions could not be read) any name passes: it may be right.
    """
    names = tuple(known)

    def read(value: Any, place: Place) -> Any:
        if isinstance(value, str) and value in names:
            return value
        if not isinstance(value, str):
            place.expected(f"the name of a {noun}", value)
        elif complete:
            place.report(
                f"no {noun} is called {shown(value)}; {suggestion(value, names) or 'none is defined'}"
            )
        return INVALID

    return read


def many(item: Reader, *, least: int = 0) -> Reader:
    """A list, each element read by `item`."""

    def read(value: Any, place: Place) -> Any:
        if not isinstance(value, list) or len(value) < least:
            place.expected("a list" + (f" of at least {least}" if least else ""), value)
            return INVALID
        read_items = tuple(item(element, place.at(index)) for index, element in enumerate(value))
        return INVALID if INVALID in read_items else read_items

    return read


def one_or_many(item: Reader) -> Reader:
    """One value or a list of at least one; always read as a tuple, each value once."""
    several = many(item, least=1)

    def read(value: Any, place: Place) -> Any:
        if isinstance(value, list):
            values = several(value, place)
            return values if values is INVALID else tuple(dict.fromkeys(values))
        single = item(value, place)
        return single if single is INVALID else (single,)

    return read


def ports(value: Any, place: Place) -> Any:
    """A range of TCP ports: `"8001-8099"` or `[8001, 8099]`."""
    ends: list[Any] = value if isinstance(value, list) else []
    if isinstance(value, str) and (match := re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", value)):
        ends = [int(match[1]), int(match[2])]
    whole_ends = len(ends) == 2 and all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if whole_ends and 1 <= ends[0] <= ends[1] <= 65535:
        return (ends[0], ends[1])
    found = str(value) if isinstance(value, list) and len(value) <= 4 else shown(value)
    place.report(
        f'expected first and last port from 1 to 65535 as "8001-8099" or [8001, 8099], found {found}'
    )
    return INVALID


def controller_file(value: Any, place: Place) -> Any:
    """A file on the controller; a relative path counts from the directory of the TOML file that names it."""
    if not isinstance(value, str) or not value or not value.isprintable():
        place.expected("a path", value)
        return INVALID
    try:
        # absolute() and not resolve(): a symbolic link stays the name that the operator knows
        return str((place.document.file.parent / Path(value).expanduser()).absolute())
    except RuntimeError:
        place.expected("a path that begins with ~ or with the ~name of a known user", value)
        return INVALID


def environment(value: Any, place: Place) -> Any:
    """A table of environment variables for units or installers; whole numbers become text."""
    if not isinstance(value, dict):
        place.expected("a table of environment variables", value)
        return INVALID
    variables: dict[str, str] = {}
    for name, content in value.items():
        here = place.at(name)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            here.report("expected the name of an environment variable")
        elif name in RESERVED_VARIABLES:
            here.report(f"expected no {name} here: {RESERVED_VARIABLES[name]}")
        elif SECRET_VARIABLE.search(name):
            here.report(
                f"expected no secret in the inventory, found {name}; secrets go to the host as credentials"
            )
        elif isinstance(content, str) and content.isprintable():
            variables[name] = content
        elif isinstance(content, int | float) and not isinstance(content, bool):
            variables[name] = str(content)
        else:
            here.expected("text without control characters, or a number", content)
    return MappingProxyType(variables)

"""tariff.toml, or a few words on a command line, into what hosts cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleetbench.errors import UsageError, one_line
from fleetbench.inventory.documents import Document, Place, read_document
from fleetbench.inventory.kinds import INVALID, Reader, number, read_table, text, whole
from fleetbench.inventory.names import NAME_RULE, is_name, suggestion
from fleetbench.inventory.patterns import expand_names
from fleetbench.inventory.problems import InventoryProblems, Problem
from fleetbench.model import Tariff, Tariffs

FILE = "tariff.toml"
SECTIONS = ("tariff", "gpus", "hosts")
REQUIRED = ("host_price", "gpus", "years", "kwh_price")
EXAMPLE = "host_price=300000,gpus=8,years=4,kwh_price=0.20,pue=1.3"
_MOST_WORDS = 40


def tariff_keys() -> Mapping[str, Reader]:
    """Keys of [tariff] in tariff.toml, and but for the currency of [gpus.NAME] and [hosts.NAME]."""
    return {
        "host_price": number(0, 1e9),
        "gpus": whole(0, 1024),
        "years": number(0.1, 50, unit="years"),
        "kwh_price": number(0, 1000),
        "pue": number(1, 5),
        "host_watts": number(0, 100_000, unit="watts"),
        "utilisation": number(0.01, 1),
        "currency": text("a currency such as EUR or €", r"[A-Za-z]{1,8}|[€$£¥₹]"),
    }


def read_tariff(file: Path) -> Tariffs:
    """Read a tariff file; `InventoryProblems` with every mistake in it otherwise."""
    document = _document(file)
    found = _tariffs(document)
    if found is None:
        raise InventoryProblems(document.problems)
    return found


def tariff_problems(directory: Path) -> tuple[Problem, ...]:
    """Return what is wrong in a directory's tariff.toml; nothing where there is none."""
    try:
        _of_inventory(directory)
    except InventoryProblems as exc:
        return exc.problems
    return ()


def find_tariff(given: str, directory: Path) -> Tariffs | None:
    """Return the tariff that is meant: words (`years=4,…`), a file, or without either the inventory's.

    None where nothing is given and the inventory has none.
    """
    if not given:
        return _of_inventory(directory)
    if _is_there(given):
        return read_tariff(Path(given))
    if "=" not in given:
        raise UsageError(
            f"there is no tariff file {one_line(given, 100)!r}",
            next_step=f"name a file, or write it here: --tariff '{EXAMPLE}'",
        )
    return tariff_of_words(given)


def tariff_of_words(given: str) -> Tariffs:
    """Given `host_price=300000,gpus=8,years=4,kwh_price=0.20`, return the tariff; UsageError otherwise."""
    words = [word.partition("=") for word in given.split(",") if word.strip()][:_MOST_WORDS]
    table: dict[str, Any] = {name.strip(): _value(value.strip()) for name, _, value in words}
    document = Document(Path("--tariff"), "--tariff", {"tariff": table}, {})
    found = _tariffs(document)
    if document.problems or found is None:
        first = document.problems[0]
        key = first.key.removeprefix("tariff").removeprefix(".")
        raise UsageError(
            f"--tariff: {f'{key}: ' if key else ''}{first.text}", next_step=f"for instance '{EXAMPLE}'"
        )
    return found


def _of_inventory(directory: Path) -> Tariffs | None:
    """Return the inventory's tariff; None where there is none, or where all of it is commented out."""
    file = directory / FILE
    return read_tariff(file) if file.exists() and _document(file).tables else None


def _document(file: Path) -> Document:
    problems: list[Problem] = []
    document = read_document(file, problems)
    if document is None:
        raise InventoryProblems(problems)
    return document


def _tariffs(document: Document) -> Tariffs | None:
    for section in document.tables:
        if section not in SECTIONS:
            near = suggestion(section, SECTIONS)
            document.root.at(section).report(f"expected [tariff], [gpus.NAME] or [hosts.NAME]; {near}")
    keys = tariff_keys()
    place = document.root.at("tariff")
    table = document.tables.get("tariff", {})
    common = read_table(table, place, keys)
    missing = [key for key in REQUIRED if not isinstance(table, dict) or key not in table]
    if missing:
        place.report(
            f"expected the key{'s' if len(missing) > 1 else ''} {', '.join(missing)}:"
            f" {'they have' if len(missing) > 1 else 'it has'} no default"
        )
    keys = {**keys, "currency": _elsewhere}
    gpus = {name: read_table(values, where, keys) for name, where, values in _named(document, "gpus")}
    hosts: dict[str, dict[str, Any]] = {}
    for pattern, where, values in _named(document, "hosts"):
        read = read_table(values, where, keys)
        for name in _names(pattern, where):
            if hosts.setdefault(name, read) is not read:
                where.report(f"host {name} is already in another table")
    if document.problems:
        return None
    return Tariffs(common=Tariff(**common), gpus=MappingProxyType(gpus), hosts=MappingProxyType(hosts))


def _elsewhere(value: Any, place: Place) -> Any:
    """Refuse a currency beside what differs: prices of a file are compared, and nothing is converted."""
    place.report("expected currency in [tariff] only: prices of one file are compared with each other")
    return INVALID


def _named(document: Document, section: str) -> Iterator[tuple[str, Place, Any]]:
    place = document.root.at(section)
    content = document.tables.get(section, {})
    if not isinstance(content, dict):
        place.expected(f"tables [{section}.NAME]", content)
        return
    for name, table in content.items():
        if not name.strip() or len(name) > 100 or not name.isprintable():
            place.at(name).report("expected a name")
        else:
            yield name, place.at(name), table


def _names(pattern: str, place: Place) -> tuple[str, ...]:
    try:
        names = expand_names(pattern)
    except ValueError as exc:
        place.report(str(exc))
        return ()
    if not all(map(is_name, names)):
        place.report(f"expected a host name of {NAME_RULE}; ranges such as h100-[01-08] are fine")
        return ()
    return names


def _is_there(given: str) -> bool:
    try:
        return Path(given).exists()
    except OSError:  # longer than a name may be
        return False


def _value(text: str) -> Any:
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text

"""What somebody types to say which entries are meant, in values. Pure.

RUN            a run: its id, the beginning of one, `latest`, or `previous`
RUN/3          one trial of it
RUN:tp=2,c=64  the rows for which all of that is true
imported/SOURCE, imported/SOURCE/12, imported/SOURCE:gpu=H100
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fleetbench.errors import UsageError, one_line
from fleetbench.report.entry import Entry

IMPORTED = "imported"
LATEST = "latest"
PREVIOUS = "previous"
MOST_FILTERS = 20

Word = int | float | str | None
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to choose entries by.

    Attributes:
        of: its value in an entry; None where that is unknown, or there is no limit.
        trial: whether it tells trials of one entry apart (starts on several hosts are one entry).
        meaning: for the help.
    """

    of: Callable[[Entry], Word]
    trial: bool = False
    meaning: str = ""


FIELDS: Mapping[str, Field] = {
    "tp": Field(of=lambda entry: _split(entry, entry.config.tp), meaning="tensor parallel size"),
    "dp": Field(of=lambda entry: _split(entry, entry.config.dp), meaning="data parallel size"),
    "pp": Field(of=lambda entry: _split(entry, entry.config.pp), meaning="pipeline stages"),
    "ep": Field(of=lambda entry: "on" if entry.config.ep else "off", meaning="expert parallel: on, off"),
    "units": Field(of=lambda entry: _split(entry, entry.config.units), meaning="servers"),
    "gpus": Field(of=lambda entry: entry.gpus, meaning="GPUs of all units"),
    "len": Field(of=lambda entry: entry.config.max_model_len, meaning="max-model-len"),
    "args": Field(of=lambda entry: " ".join(entry.config.serve_args), meaning="arguments of the server"),
    "variant": Field(of=lambda entry: entry.config.variant, meaning="variant of the sweep"),
    "build": Field(of=lambda entry: entry.config.build, meaning="build of the inventory"),
    "configuration": Field(of=lambda entry: entry.config.label, meaning="all of these, as in the report"),
    "vllm": Field(of=lambda entry: entry.vllm_version, trial=True, meaning="version that served"),
    "host": Field(of=lambda entry: entry.host, trial=True, meaning="host of the inventory"),
    "gpu": Field(of=lambda entry: entry.gpu, meaning="what the driver calls the GPUs"),
    "model": Field(of=lambda entry: entry.model, meaning="model"),
    "c": Field(of=lambda entry: entry.workload.max_concurrency, meaning="concurrency, or none"),
    "rate": Field(of=lambda entry: entry.workload.request_rate, meaning="requests per second, or none"),
    "n": Field(of=lambda entry: entry.workload.num_prompts, meaning="requests"),
    "input": Field(of=lambda entry: entry.workload.input_len or None, meaning="tokens sent"),
    "output": Field(of=lambda entry: entry.workload.output_len or None, meaning="tokens back"),
    "dataset": Field(of=lambda entry: entry.workload.dataset, meaning="where prompts are from"),
    "table": Field(of=lambda entry: entry.table, meaning="table of an imported row"),
    "name": Field(of=lambda entry: entry.name, meaning="name in the report"),
}
# How else people call them.
_ALIASES = {
    "config": "configuration",
    "concurrency": "c",
    "max_concurrency": "c",
    "max_model_len": "len",
    "vllm_version": "vllm",
    "version": "vllm",
    "serve_args": "args",
    "request_rate": "rate",
    "num_prompts": "n",
    "input_len": "input",
    "output_len": "output",
}
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One condition. `exact` is for values that come from the entries themselves."""

    key: str
    value: str
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which entries are meant.

    Attributes:
        text: as it was typed, on one line.
        source: id of a run or of an import, the beginning of one, `latest` or `previous`.
        part: number of a trial, or position of an imported row.
    """

    text: str
    source: str
    imported: bool = False
    part: int | None = None
    filters: tuple[Filter, ...] = ()

    @property
    def told(self) -> frozenset[str]:
        """What its user names: a difference in that is what was asked for.

        A trial is a configuration; the number of an imported row names nothing.
        """
        trial = ("trial",) if self.part is not None and not self.imported else ()
        return frozenset((*(each.key for each in self.filters), *trial))

    @property
    def narrowing(self) -> str:
        """What stands behind the source: `/3`, `:tp=2,c=64`."""
        part = "" if self.part is None else f"/{self.part}"
        filters = ",".join(f"{each.key}={one_line(each.value, 60)}" for each in self.filters)
        return part + (f":{filters}" if filters else "")


def read_selector(text: str) -> Selector:
    """Given what was typed, return the selector; UsageError, with what may be meant, when it is none."""
    shown = one_line(text, 80)
    head, colon, tail = text.partition(":")
    words = head.split("/")
    imported = words[0] == IMPORTED
    words = words[1:] if imported else words
    if len(words) > 2 or (not words[:1] and not imported) or (words and not words[0] and not imported):
        raise UsageError(
            f"{shown!r} names no entries",
            next_step="RUN, RUN/TRIAL, RUN:tp=2,c=64, latest, previous, or imported/SOURCE",
        )
    part = None
    if len(words) == 2:
        if not re.fullmatch(r"[1-9]\d{0,6}", words[1]):
            what = "row of an import" if imported else "trial"
            raise UsageError(f"{shown!r}: a {what} is a number", next_step="fleetbench runs show RUN")
        part = int(words[1])
    filters = tuple(_filters(tail, shown)) if colon else ()
    return Selector(
        text=shown, source=words[0] if words else "", imported=imported, part=part, filters=filters
    )


def field_named(text: str) -> str:
    """Given the name of a field, or another one for it, return its key; UsageError where there is none."""
    name = text.strip().lower().replace("-", "_")[:40]
    key = _ALIASES.get(name, name)
    if key in FIELDS:
        return key
    near = difflib.get_close_matches(name, [*FIELDS, *_ALIASES], n=2, cutoff=0.6)
    raise UsageError(
        f"{one_line(text, 40)!r} is nothing to choose rows by",
        next_step=f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(FIELDS)}",
    )


def chosen(entries: Iterable[Entry], filters: Iterable[Filter], text: str) -> tuple[Entry, ...]:
    """Return the entries for which all filters are true; UsageError with the values there are when none is.

    Text is compared without case: entries that have exactly that value, else those that have it as a part.
    """
    left = tuple(entries)
    for each in filters:
        found = matching(left, FIELDS[each.key].of, each)
        if not found:
            raise nothing_fits(text, each, [FIELDS[each.key].of(entry) for entry in left])
        left = found
    return left


def matching(rows: Iterable[_Row], of: Callable[[_Row], Word], wanted: Filter) -> tuple[_Row, ...]:
    """Return the rows whose value is the one that is wanted."""
    rows = tuple(rows)
    if wanted.exact:
        return tuple(row for row in rows if shown(of(row)) == wanted.value)
    text = wanted.value.lower()
    exact = tuple(row for row in rows if _equal(of(row), text))
    return exact or tuple(row for row in rows if isinstance(v := of(row), str) and text in v.lower())


def nothing_fits(text: str, wanted: Filter, values: Iterable[Word]) -> UsageError:
    """Return the error for a filter that leaves nothing, with the values that there are."""
    there = list(dict.fromkeys(one_line(shown(value), 60) for value in values))
    more = f" and {len(there) - 8} more" if len(there) > 8 else ""
    return UsageError(
        f"{one_line(text, 80)}: no row has {wanted.key}={one_line(wanted.value, 40)}",
        cause=f"there is {wanted.key}={', '.join(there[:8])}{more}" if there else "there is no row",
        next_step="name one of these",
    )


def shown(value: Word) -> str:
    """Return a value as it is typed: `none` for no limit and for what is unknown."""
    return (
        "none" if value is None or value == "" else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _filters(text: str, whole: str) -> Iterable[Filter]:
    parts = text.split(",")
    if len(parts) > MOST_FILTERS:
        raise UsageError(f"{whole!r}: more than {MOST_FILTERS} filters")
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise UsageError(
                f"{whole!r}: {one_line(part, 40)!r} is no filter", next_step="for instance :tp=2,c=64"
            )
        yield Filter(key=field_named(key), value=value.strip()[:200])


def _equal(value: Word, text: str) -> bool:
    if value is None or value == "":
        return text == "none"
    if isinstance(value, int | float):
        return bool(_NUMBER.fullmatch(text)) and float(text) == float(value)
    return value.lower() == text


def _split(entry: Entry, size: int) -> int | None:
    return size if entry.split_known else None

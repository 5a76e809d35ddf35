"""The table of failure signatures: `data/failures.toml` read, checked and compiled once.

A signature is data: which text gives a class away, how near to the root cause it is, what it means and what
to do. The table is checked when it is read, so that a wrong edit is found by the first test, not at 2 a.m.
"""

from __future__ import annotations

import re
import string
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from fleetbench.errors import FleetbenchError, one_line

# Longest piece of a log that is put into a sentence of ours.
MAX_DETAIL = 160


class Role(StrEnum):
    """How a signature stands to the root cause.

    ROOT: names the cause. ECHO: may be what another process saw of a cause that stands elsewhere, so an
    error of unknown class before it wins. WRAPPER: says that something died, never why.
    """

    ROOT = "root"
    ECHO = "echo"
    WRAPPER = "wrapper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A line matches when it holds `text`, and `regex` where there is one; `fields` add named groups.

    `any_level`: warnings and infos count too; else only errors and lines without a level do.
    """

    text: str
    regex: re.Pattern[str] | None = None
    fields: tuple[re.Pattern[str], ...] = ()
    any_level: bool = False

    def match(self, line: str) -> tuple[int, dict[str, str]] | None:
        """Given a message, return where `text` ends in it and the named groups, or None."""
        start = line.find(self.text)
        if start < 0:
            return None
        groups: dict[str, str | None] = {}
        if self.regex is not None:
            found = self.regex.search(line)
            if found is None:
                return None
            groups = found.groupdict()
        for field in self.fields:
            found = field.search(line)
            if found is not None:
                groups.update(found.groupdict())
        return start + len(self.text), {
            name: one_line(value, MAX_DETAIL) for name, value in groups.items() if value
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One class of failure.

    Attributes:
        kind: name of the class.
        group: family, for what a failure implies: `memory`, `plan`, `install`, `systemd` …
        priority: lower is nearer to the root cause; among equals the first line in the text decides.
        cause: one sentence, without the log's figures.
        detail: the same sentence with named groups of the match; used when all of them were found.
        advice: the next step.
        versions: which vLLM versions print this text; empty: all, or not vLLM's.
        retryable: whether the same start may work when it is simply tried again.
        any_level: warnings and infos count too, for all patterns.
        needs_failure: a warning or info counts only in a text that shows a failure anyway (healthy starts
            print it as well).
        unless_later: void when a later line holds one of these: the server got over it.
        min_count: number of lines, of one process, from which on it counts.
        kernel: the line comes from the kernel or the audit log.
        quotes_first_error: the evidence is the first error of unknown class, where there is one.
    """

    kind: str
    group: str
    priority: int
    patterns: tuple[Pattern, ...]
    cause: str
    advice: str
    role: Role = Role.ROOT
    detail: str = ""
    versions: str = ""
    retryable: bool = False
    any_level: bool = False
    needs_failure: bool = False
    unless_later: tuple[str, ...] = ()
    min_count: int = 1
    kernel: bool = False
    quotes_first_error: bool = False

    def sentence(self, groups: dict[str, str]) -> str:
        """Given the named groups of a match, return the cause in one sentence."""
        wanted = _placeholders(self.detail)
        if wanted and wanted <= groups.keys():
            return self.detail.format_map(groups)
        return self.cause


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureTable:
    """All signatures, and the texts that say something about a failure without naming one.

    Attributes:
        wrappers: lines that only say that something else failed.
        stops: lines of an orderly stop; what dies after one died because it was told to.
        harmless: exceptions that end a process without being the reason.
        ignored: lines that look like a failure and are none.
        starts: systemd's and journald's lines that begin a new start or boot.
    """

    signatures: tuple[Signature, ...]
    wrappers: tuple[str, ...]
    stops: tuple[str, ...]
    harmless: tuple[str, ...]
    ignored: tuple[str, ...]
    starts: tuple[re.Pattern[str], ...]

    def signature(self, kind: str) -> Signature:
        """Return the signature of a class; KeyError when there is none of that name."""
        for signature in self.signatures:
            if signature.kind == kind:
                return signature
        raise KeyError(kind)


@cache
def failure_table() -> FailureTable:
    """Return the table that comes with fleetbench."""
    text = resources.files("fleetbench").joinpath("data/failures.toml").read_text(encoding="utf-8")
    return parse_table(text)


def parse_table(text: str) -> FailureTable:
    """Given the TOML text of a table, return it checked; FleetbenchError names the entry that is wrong."""
    try:
        document = tomllib.loads(text)
        signatures = tuple(_signature(entry) for entry in document["failure"])
        general = document["general"]
        table = FailureTable(
            signatures=signatures,
            wrappers=tuple(general["wrappers"]),
            stops=tuple(general["stops"]),
            harmless=tuple(general["harmless"]),
            ignored=tuple(general["ignored"]),
            starts=tuple(_expression(pattern) for pattern in general["starts"]),
        )
    except (KeyError, TypeError, ValueError, re.error) as exc:
        raise FleetbenchError("the table of failure signatures cannot be read", cause=str(exc)) from exc
    kinds = [signature.kind for signature in signatures]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise FleetbenchError(
            "the table of failure signatures is wrong", cause=f"defined twice: {', '.join(twice)}"
        )
    return table


def _signature(entry: dict[str, Any]) -> Signature:
    values = dict(entry)
    kind = values.get("kind", "?")
    loud = bool(values.get("any_level", False))
    patterns = tuple(_pattern(item, any_level=loud) for item in values.pop("match"))
    values["role"] = Role(values.get("role", "root"))
    values["unless_later"] = tuple(values.get("unless_later", ()))
    try:
        signature = Signature(patterns=patterns, **values)
    except TypeError as exc:
        raise ValueError(f"{kind}: {exc}") from exc
    if not (patterns and signature.cause and signature.advice):
        raise ValueError(f"{kind}: match, cause and advice must not be empty")
    named = {name for p in patterns for e in (p.regex, *p.fields) if e is not None for name in e.groupindex}
    unknown = _placeholders(signature.detail) - named
    if unknown:
        raise ValueError(f"{kind}: detail uses {sorted(unknown)}, which no expression of it captures")
    return signature


def _pattern(item: str | dict[str, Any], *, any_level: bool) -> Pattern:
    if isinstance(item, str):
        item = {"text": item}
    if unknown := item.keys() - {"text", "regex", "fields", "any_level"}:
        raise ValueError(f"unknown keys in match: {sorted(unknown)}")
    if len(item["text"]) < 4:
        raise ValueError(f"text too short to be a signature: {item['text']!r}")
    return Pattern(
        text=item["text"],
        regex=_expression(item["regex"]) if "regex" in item else None,
        fields=tuple(_expression(pattern) for pattern in item.get("fields", ())),
        any_level=any_level or item.get("any_level", False),
    )


# Anything unbounded could make a search quadratic on a hostile line: repeats carry an upper bound, and a
# repeated group must not hold a repeat itself.
_UNBOUNDED = re.compile(r"(?<!\\)[*+]|\{\d*,\}")
_NESTED = re.compile(r"[*+?}]\)(?:[*+]|\{\d)")
_MAX_GAPS = 3


def _expression(pattern: str) -> re.Pattern[str]:
    """Compile an expression of the table, refusing those whose time is not bounded by the line's length."""
    outside_classes = re.sub(r"\[(?:\\.|[^\]\\])+\]", "c", pattern)
    if _UNBOUNDED.search(outside_classes):
        raise ValueError(f"unbounded repeat in {pattern!r}: write {{0,80}} instead of * or +")
    if _NESTED.search(outside_classes):
        raise ValueError(f"repeat inside a repeat in {pattern!r}")
    if len(re.findall(r"(?<!\\)\.\{", outside_classes)) > _MAX_GAPS:
        raise ValueError(f"more than {_MAX_GAPS} gaps in {pattern!r}")
    return re.compile(pattern)


def _placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}

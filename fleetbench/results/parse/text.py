"""The text report of `vllm bench serve` and of clients that print alike, anywhere in any captured text.

A report begins at its header bar and ends at its end bar, at the next header, at the start of another run,
or where a section or the first count comes a second time. What has no header is a fragment and is never
read. Lines of other processes are sorted out first, by their prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from fleetbench.errors import one_line
from fleetbench.results.parse.draft import Draft
from fleetbench.results.parse.labels import label_table
from fleetbench.results.parse.lines import Line
from fleetbench.results.parse.numbers import read_number
from fleetbench.results.parse.preamble import Preamble, begins_a_run
from fleetbench.results.values import Block

_HEADER = re.compile(r"(?<!=)={3,} ?(Serving|Embedding/Pooling) Benchmark Results? ?={3,}", re.IGNORECASE)
_STEADY = re.compile(r"(?<!=)={3,} ?Steady-State Metrics ?={3,}", re.IGNORECASE)
_TITLE = re.compile(r"(?<!=)={3,} ?[A-Za-z][^=\n]{2,60}={3,}")
_SECTION = re.compile(r"(?<!-)-{3,} ?([A-Z][^:=\n]{2,58}?) ?-{3,}")
_END = re.compile(r"(?<!=)={20,}(?!=)")
_RULE = re.compile(r"-{20,}")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_DECORATION = "*|` \t\r\n\f\v"  # a table's bars, bold and code marks
_LONGEST_LABEL = 60
_TWO_DECIMALS = re.compile(r"\d+\.\d\d\s*|.*\s", re.DOTALL)
_RUST_WIDTH = 60  # vLLM's Rust client centres its header in 60 columns, the Python client in 50
_FOREIGN_LINES = 60  # a report interrupted by more lines than this is over
_LOOK_AHEAD = 6  # lines in which an unknown prefix must come again to be one
_OWN_KEY = re.compile(r"[a-z][a-z0-9_.]{1,60}")


@dataclass(slots=True)
class Found:
    """What a text holds: blocks, blocks without any measured value, and report lines without a header."""

    blocks: list[Block] = field(default_factory=list)
    empty: list[Block] = field(default_factory=list)
    fragments: list[int] = field(default_factory=list)


def find_reports(lines: Iterable[Line], source: str) -> Found:
    """Given clean lines, return all reports in the order in which they begin."""
    streams: dict[str, list[Line]] = {}
    for line in lines:
        streams.setdefault(line.stream, []).append(line)
    found = Found()
    for stream in streams.values():
        _Scanner(source, found).scan(stream)
    found.blocks.sort(key=lambda block: block.first_line)
    found.empty.sort(key=lambda block: block.first_line)
    found.fragments.sort()
    return found


class _Scanner:
    """Reads the lines of one stream."""

    def __init__(self, source: str, found: Found) -> None:
        self.source = source
        self.found = found
        self.preamble = Preamble()
        self.draft: Draft | None = None
        self.lead = ""
        self.section = ""
        self.sections_seen: set[str] = set()
        self.foreign = 0

    def scan(self, lines: list[Line]) -> None:
        for position, line in enumerate(lines):
            if header := _HEADER.search(line.text):
                self._begin(line, header, lines[position + 1 : position + 1 + _LOOK_AHEAD])
            text = self._own_part(line.text)
            if text is None:
                self._count_foreign()
                continue
            for piece in _explode(replace(line, text=text), inside=self.draft is not None):
                self._take(piece)
        self._close()

    def _begin(self, line: Line, header: re.Match[str], following: list[Line]) -> None:
        """A header ends what was open; what stands before it on each line is a prefix we do not know."""
        self._close()
        before = line.text[: header.start()]
        self.preamble.observe(before)
        repeated = bool(before.strip()) and any(near.text.startswith(before) for near in following)
        self.lead = before if repeated else ""
        self.draft = Draft(first_line=line.number, last_line=line.number)
        self.draft.pooling = not header[1].lower().startswith("serving")
        if header.end() - header.start() >= _RUST_WIDTH:
            self.draft.dialect = "vllm-rust"
        elif self.draft.pooling:
            self.draft.dialect = "vllm-pooling"

    def _own_part(self, text: str) -> str | None:
        if self.draft is None or not self.lead:
            return text
        return text[len(self.lead) :].lstrip() if text.startswith(self.lead) else None

    def _take(self, piece: Line) -> None:
        text = piece.text.strip()
        draft = self.draft
        if _HEADER.fullmatch(text):
            return
        if draft is None:
            self._outside(piece)
        elif draft.ended and self.section != "steady_state":
            self._after_end(draft, piece)
        elif _END.fullmatch(text):
            draft.ended, draft.last_line, self.section = True, piece.number, ""
        elif section := _SECTION.fullmatch(text):
            self._enter(draft, section[1], piece)
        elif _RULE.fullmatch(text):
            self.foreign = 0
        elif _FENCE.match(text) or _TITLE.fullmatch(text) or begins_a_run(text):
            self._close()
            self._outside(piece)
        else:
            self._labelled(draft, piece)

    def _outside(self, piece: Line) -> None:
        if _FENCE.match(piece.text):
            self.preamble = Preamble()  # on a page, what stands in another box belongs to another run
            return
        self.preamble.observe(piece.text)
        parts = _labelled(piece.text)
        if parts and (label := label_table().find(parts.label)) and label.kind in ("number", "count"):
            self.found.fragments.append(piece.number)

    def _after_end(self, draft: Draft, piece: Line) -> None:
        """The Rust client prints a second table below the report, with the same labels."""
        text = piece.text.strip()
        if _STEADY.fullmatch(text):
            self.section, draft.dialect = "steady_state", "vllm-rust"
        elif text and not text.startswith("Warning: steady-state"):
            self._close()
            self._take(piece)

    def _enter(self, draft: Draft, title: str, piece: Line) -> None:
        name = title.strip()
        if name.lower() in self.sections_seen:
            self._close()  # a second round without a header: a fragment of something else
            return
        self.sections_seen.add(name.lower())
        self.section = "" if name.lower() in label_table().plain_sections else _slug(name)
        self.foreign = 0
        draft.last_line = piece.number

    def _labelled(self, draft: Draft, piece: Line) -> None:
        parts = _labelled(piece.text)
        label = label_table().find(parts.label) if parts else None
        if parts is None or label is None:
            self._unlabelled(draft, piece, parts)
            return
        if label.key == "completed" and self.sections_seen:
            self._close()
            self._outside(piece)
            return
        self.foreign = 0
        value = parts.value
        if piece.open_ended and not _TWO_DECIMALS.fullmatch(value):
            draft.last_line = piece.number
            cut = f"'{one_line(value, 40)}' may be cut" if value.strip() else "no value, cut off"
            draft.refuse(label.key, piece.number, f"{label.text}: {cut}: the text ends here")
            return
        draft.take(label, value, piece.number, section=self.section)

    def _unlabelled(self, draft: Draft, piece: Line, parts: _Parts | None) -> None:
        """A line of the report's shape with a label we do not know is kept under its own name."""
        text = piece.text.strip()
        if parts and parts.gap.count(" ") >= 2:
            reading, key = read_number(parts.value), _slug(parts.label)
            if (
                reading.value is not None
                and _OWN_KEY.fullmatch(key)
                and label_table().find(parts.label) is None
            ):
                name = f"{self.section}_{key}" if self.section else f"other_{key}"
                draft.keep(name, reading.value, piece.number, one_line(parts.label, 60))
                draft.last_line, self.foreign = piece.number, 0
                return
        if cut := label_table().inline.match(text):
            draft.problem(piece.number, f"cut off after '{one_line(cut[0], 60)}'")
        elif text:
            self._count_foreign()

    def _count_foreign(self) -> None:
        self.foreign += 1
        if self.draft is not None and self.foreign > _FOREIGN_LINES:
            self._close()

    def _close(self) -> None:
        """Hand over the open report, if any, and be ready for the next one."""
        if self.draft is not None:
            if not self.draft.ended:
                self.draft.problem(self.draft.last_line, "the report has no end bar")
            observed = None if self.draft.dialect == "sglang" else self.preamble
            block = self.draft.block(self.source, observed)
            (self.found.blocks if self.draft.measured else self.found.empty).append(block)
            self.preamble = Preamble()
        self.draft, self.lead, self.section, self.foreign = None, "", "", 0
        self.sections_seen = set()


@dataclass(frozen=True, slots=True)
class _Parts:
    """A line `label: gap value`, without the bars and marks around the label."""

    label: str
    gap: str
    value: str


def _labelled(text: str) -> _Parts | None:
    """Split a line at its first colon; None when what stands before it cannot be a label.

    No expression: with marks before and after the label, one would take minutes over a hostile line.
    """
    head, colon, rest = text.partition(":")
    label = head.strip(_DECORATION)
    if not colon or "\n" in label or not 2 <= len(label) <= _LONGEST_LABEL:
        return None
    value = rest.lstrip(_DECORATION)
    return _Parts(label, rest[: len(rest) - len(value)], value)


def _explode(line: Line, *, inside: bool) -> Iterator[Line]:
    """Split a line on which a scraper has put several lines of a report; other lines pass as they are."""
    text = line.text
    header = _HEADER.search(text)
    if not header and not (inside and len(text) > _RUST_WIDTH):
        yield line
        return
    labels = list(label_table().inline.finditer(text))
    if not header and len(labels) < 2:
        yield line
        return
    marks = {match.start() for match in labels}
    for pattern in (_HEADER, _STEADY, _SECTION, _END):
        for match in pattern.finditer(text):
            marks |= {match.start(), match.end()}
    yield from _without_doubles(line, [text[a:b] for a, b in _spans(sorted(marks), len(text))])


def _spans(marks: list[int], length: int) -> Iterator[tuple[int, int]]:
    yield from zip([0, *marks], [*marks, length], strict=True)


def _without_doubles(line: Line, pieces: list[str]) -> Iterator[Line]:
    """A label twice between two bars of one line means columns side by side: neither value is safe."""
    seen: set[str] = set()
    filled = [piece.strip() for piece in pieces if piece.strip()]
    for position, text in enumerate(filled, start=1):
        label, colon, _ = text.partition(":")
        double = bool(colon) and label.lower() in seen
        if text.startswith(("=", "-")):
            seen.clear()
        seen.add(label.lower())
        yield replace(
            line,
            text=f"{label}: two values side by side" if double else text,
            open_ended=line.open_ended and position == len(filled),
        )


def _slug(title: str) -> str:
    words = re.sub(r"[^a-z0-9.]+", "_", title.lower()).strip("_")
    return words.removesuffix("_metrics")

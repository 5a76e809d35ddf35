"""How a table fits a terminal: words are wrapped, long texts shortened, columns left out or set below.

No word is broken that fits: half a number is a wrong number, and half an id finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line

GAP = 2  # between two columns
BOUND = "\xa0"  # a blank at which no line ends; text from a host has none, `errors.one_line` sees to that
MOST_LINES = 5  # of a cell that is shortened: what is longer is read in JSON or CSV
_PROSE, _NARROWEST_PROSE = 40, 28  # a cell longer than this is text to read, and is given so much at least
_MOST_KEYS = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """Panels, one below the other, each a list of columns (place in the table, width in characters); and the
    places of the columns that found no room."""

    panels: tuple[tuple[tuple[int, int], ...], ...]
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Need:
    """Characters of a column: that break no word, and in which nothing is wrapped."""

    least: int
    all: int


def is_number(cell: object) -> bool:
    """Whether a cell stands to the right: a number, or none where numbers are."""
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def texts(cells: Sequence[object]) -> list[str]:
    """Return the cells of a column as text: None is a dash; numbers have a comma at thousands where one of
    the column has it, and stay together with a mark that they carry."""
    shown = [_shown(cell) for cell in cells]
    commas = any("," in text for cell, text in zip(cells, shown, strict=True) if is_number(cell))
    return [
        (f"{cell:,}" if commas and isinstance(cell, int) else text).replace(" ", BOUND)
        if is_number(cell)
        else text
        for cell, text in zip(cells, shown, strict=True)
    ]


def _shown(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    if isinstance(cell, int) and abs(cell) >= 10_000:
        return f"{cell:,}"
    return "\n".join(one_line(line, 2000) for line in str(cell).splitlines()) or ""


def lay_out(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    spare: Iterable[str] = (),
    numeric: Sequence[bool] = (),
) -> Layout:
    """Given headings and cells, return how they stand in `width` characters; None is room for everything.

    Columns named in `spare` are left out where there is no room, the first one first. What still has none
    goes into further panels, each begun by the leading columns that tell most rows apart: the first one,
    and those of text behind it.
    """
    needs = [_need(heading, [row[place] for row in rows]) for place, heading in enumerate(columns)]
    kept = list(range(len(columns)))
    if width is None:
        return Layout((tuple((place, needs[place].all) for place in kept),))
    for name in spare:
        if not _fits(kept, needs, width) and name in columns:
            kept.remove(columns.index(name))
    names = next((n for n in range(1, len(kept)) if numeric and numeric[kept[n]]), _MOST_KEYS)
    keys = _keys(kept[:names], needs, rows, width)
    panels = [kept] if _fits(kept, needs, width) else list(_panels(keys, kept[len(keys) :], needs, width))
    widths = [_widths([needs[place] for place in panel], width) for panel in panels]
    return Layout(
        tuple(tuple(zip(panel, wide, strict=True)) for panel, wide in zip(panels, widths, strict=True)),
        tuple(place for place in range(len(columns)) if place not in kept),
    )


def wrapped(text: str, width: int) -> list[str]:
    """Return a cell as lines of at most `width`; a word is broken only where it is longer than that."""
    from rich.cells import cell_len, chop_cells

    lines: list[str] = []
    for line in text.split("\n"):
        if cell_len(line) <= width:
            lines.append(line)
            continue
        begun = ""
        for word in line.split(" "):
            if begun and cell_len(begun) + 1 + cell_len(word) > width:
                lines.append(begun)
                begun = ""
            begun = f"{begun} {word}" if begun else word
            *full, begun = chop_cells(begun, width) or [""]
            lines += full
        lines.append(begun)
    return [line.replace(BOUND, " ") for line in lines]


def shortened(text: str, width: int) -> list[str]:
    """Return a cell as at most MOST_LINES lines, the last with an ellipsis where there would be more."""
    from rich.cells import cell_len

    lines = wrapped(text, width)
    if len(lines) <= MOST_LINES or not _is_prose(text):
        return lines
    last = lines[MOST_LINES - 1]
    while cell_len(last) >= width:
        last = last.rpartition(" ")[0] if " " in last else last[:-1]
    return [*lines[: MOST_LINES - 1], f"{last}…"]


def _is_prose(text: str) -> bool:
    return len(text) > _PROSE and " " in text


def _need(heading: str, cells: Sequence[str]) -> _Need:
    from rich.cells import cell_len

    texts = (heading, *cells)
    widest = max(cell_len(line) for text in texts for line in text.split("\n"))
    longest = max(cell_len(word) for text in texts for word in text.replace("\n", " ").split(" "))
    return _Need(max(longest, _NARROWEST_PROSE) if any(map(_is_prose, cells)) else longest, widest)


def _fits(places: Sequence[int], needs: Sequence[_Need], width: int) -> bool:
    return sum(needs[place].least for place in places) + GAP * (len(places) - 1) <= width


def _panels(
    keys: Sequence[int], others: Sequence[int], needs: Sequence[_Need], width: int
) -> Iterator[list[int]]:
    panel = list(keys)
    for place in others:
        if len(panel) > len(keys) and not _fits([*panel, place], needs, width):
            yield panel
            panel = list(keys) if _fits([*keys, place], needs, width) else []
        panel.append(place)
    yield panel


def _keys(
    names: Sequence[int], needs: Sequence[_Need], rows: Sequence[Sequence[str]], width: int
) -> Sequence[int]:
    found, told_apart = names[:1], 0
    for number in range(1, min(_MOST_KEYS, len(names)) + 1):
        keys = names[:number]
        different = len({tuple(row[place] for place in keys) for row in rows})
        if different > told_apart and (number == 1 or _fits(keys, needs, width // 2)):
            found, told_apart = keys, different
    return found


def _widths(needs: Sequence[_Need], width: int) -> list[int]:
    """Each column has its longest word; what is left goes to those that lack least, so that few wrap."""
    widths = [need.least for need in needs]
    left = width - sum(widths) - GAP * (len(needs) - 1)
    for place in sorted(range(len(needs)), key=lambda place: needs[place].all - widths[place]):
        more = min(max(left, 0), max(needs[place].all - widths[place], 0))
        widths[place] += more
        left -= more
    while left < 0 and max(widths) > 1:  # a word longer than the terminal
        widths[widths.index(max(widths))] -= 1
        left += 1
    return widths

"""Where labels go, so that none covers another or a mark. Pure, in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP_PX, MARK_PX = 8, 6


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; `top` is above `bottom`, so it is the smaller number."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share a place."""
        return not (
            self.right <= other.left
            or other.right <= self.left
            or self.bottom <= other.top
            or other.bottom <= self.top
        )

    def inside(self, other: Box) -> bool:
        """Whether it lies within the other one."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def placed(
    points: Sequence[tuple[float, float]],
    widths: Sequence[float],
    height: float,
    *,
    around: Sequence[tuple[float, float]],
    room: Box,
) -> list[Box | None]:
    """Return a box for the label of each point, beside it; None where there is no room for it.

    `around` are the marks that no label may cover.
    """
    taken = [Box(x - MARK_PX, y - MARK_PX, x + MARK_PX, y + MARK_PX) for x, y in (*points, *around)]
    found: list[Box | None] = []
    for (x, y), width in zip(points, widths, strict=True):
        box = next(
            (
                box
                for box in _beside(x, y, width, height)
                if box.inside(room) and not any(box.meets(other) for other in taken)
            ),
            None,
        )
        found.append(box)
        if box is not None:
            taken.append(box)
    return found


def _beside(x: float, y: float, width: float, height: float) -> Iterator[Box]:
    half = height / 2
    for left, middle in (
        (x + GAP_PX, y - height),
        (x + GAP_PX, y),
        (x - width / 2, y - height - 2),
        (x - GAP_PX - width, y),
        (x + GAP_PX, y + height),
        (x - GAP_PX - width, y + height),
        (x - GAP_PX - width, y - height),
        (x - width / 2, y + height + 2),
    ):
        yield Box(left, middle - half, left + width, middle + half)


def apart(middles: Sequence[float], height: float, *, lowest: float, highest: float) -> list[float]:
    """Return where labels of one column go, in the order given: as near to `middles` as they fit.

    None covers another where there is room between `lowest` and `highest`, the smaller and larger number.
    """
    order = sorted(range(len(middles)), key=lambda place: middles[place])
    found = dict.fromkeys(order, lowest)
    before = lowest - height
    for place in order:
        found[place] = before = max(middles[place], before + height)
    after = highest + height
    for place in reversed(order):
        found[place] = after = min(found[place], after - height)
    return [found[place] for place in range(len(middles))]

"""An SVG of a chart as it may stand in a page: shapes and text only, ids of its own, shorter numbers. Pure.

Names of hosts and models are in it, and it is put into the page as markup. The renderer quotes them; here
everything that is not a shape or a text is left out once more. What a mark says of itself (its `aria-label`)
becomes `data-says`, one line for each field, which the page shows when somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_ELEMENTS = {
    *("svg", "g", "path", "rect", "line", "circle", "ellipse", "polygon", "polyline", "text", "tspan"),
    *("defs", "clipPath", "linearGradient", "radialGradient", "stop"),
}
_ATTRIBUTES = {
    *("d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "r", "rx", "ry", "cx", "cy", "fx", "fy", "points"),
    *("width", "height", "viewBox", "transform", "offset", "id", "clip-path", "gradientUnits", "display"),
    *("fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"),
    *("stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "opacity"),
    *("font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "pointer-events"),
    *("stop-color", "stop-opacity"),
}
_NUMBERS = {"d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "transform", "points"}
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?!\d*e)")
_OWN_REFERENCE = re.compile(r"url\(#([\w-]+)\)")
_NO_MARKS = {"axis", "legend", "title"}


def inlined(svg: str, name: str, alt: str, titles: Sequence[str] = ()) -> Markup:
    """Return an SVG as markup.

    Args:
        svg: text of an SVG file. ElementTree.ParseError when it is none.
        name: what its ids begin with, unique in the page.
        alt: what it is for those who do not see it.
        titles: names of the fields that its marks show, in order; empty: all that they have.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314  from our own renderer, which writes no DTD
    _clean(root, name, titles)
    root.set("role", "img")
    root.set("aria-label", alt)
    ElementTree.register_namespace("", _NAMESPACE[1:-1])
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704  nothing else is left in it


def tooltip_titles(specification: Any) -> Iterator[str]:
    """Yield the names of the fields in the tooltips of a Vega-Lite specification, in order."""
    if isinstance(specification, Mapping):
        for key, value in specification.items():
            if key == "tooltip" and isinstance(value, Sequence) and not isinstance(value, str):
                yield from (str(field.get("title") or field.get("field")) for field in value)
            elif key not in ("data", "datasets"):
                yield from tooltip_titles(value)
    elif isinstance(specification, Sequence) and not isinstance(specification, str):
        for value in specification:
            yield from tooltip_titles(value)


def lines_of(label: str, titles: Collection[str] = ()) -> list[str]:
    """Given what a mark says, `name: tp=1; tok/s: 192`, return a line for each field that is asked for."""
    if not titles:
        return label.split("; ")
    begins = re.compile(rf"(?:^|; )(?=(?:{'|'.join(map(re.escape, titles))}): )")
    found: dict[str, str] = {}
    for part in begins.split(label):
        title = next((title for title in titles if part.startswith(f"{title}: ")), None)
        if title is not None:
            found.setdefault(title, part)
    return [found[title] for title in titles if title in found]


def _clean(element: ElementTree.Element, name: str, titles: Sequence[str]) -> None:
    for child in list(element):
        if not isinstance(child.tag, str) or child.tag.removeprefix(_NAMESPACE) not in _ELEMENTS:
            element.remove(child)
        else:
            _clean(child, name, titles)
    label = element.get("aria-label")
    is_mark = label and element.get("aria-roledescription") not in _NO_MARKS
    for key, value in list(element.attrib.items()):
        kept = _kept(key, value, name)
        if kept is None:
            del element.attrib[key]
        else:
            element.set(key, kept)
    lines = lines_of(label, titles) if label and is_mark else []
    if lines:
        element.set("data-says", "\n".join(lines))


def _kept(key: str, value: str, name: str) -> str | None:
    if key not in _ATTRIBUTES or (key, value) == ("opacity", "1"):
        return None
    if key == "id":
        return f"{name}-{value}"
    if "url(" in value:
        return _OWN_REFERENCE.sub(rf"url(#{name}-\1)", value) if _OWN_REFERENCE.fullmatch(value) else None
    if key in _NUMBERS:
        return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
    return value

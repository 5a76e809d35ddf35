"""A Vega-Lite specification as SVG and as PNG; nothing is fetched from anywhere.

The renderer, vl-convert, is Vega in an engine of its own. It needs a third of a second to come up, and holds
Python's lock while it draws an SVG: threads gain nothing, processes do (`drawers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetbench.drawing.smaller import smaller
from fleetbench.errors import FleetbenchError

PIXELS_PER_POINT = 2  # for screens with small pixels; a chart of 800 is 1600 wide


def svg_of(specification: Mapping[str, Any]) -> bytes:
    """Return a Vega-Lite specification as an SVG; FleetbenchError where it cannot be drawn."""
    return str(
        _converted(lambda convert: convert.vegalite_to_svg(dict(specification), allowed_base_urls=[]))
    ).encode()


def png_of(specification: Mapping[str, Any]) -> bytes:
    """Return a Vega-Lite specification as a PNG, `PIXELS_PER_POINT` times as wide as it says."""
    return png_of_svg(svg_of(specification))


def png_of_svg(svg: bytes) -> bytes:
    """Return the PNG of an SVG that `svg_of` made: half the work, where both are wanted."""
    return smaller(_converted(lambda convert: convert.svg_to_png(svg.decode(), scale=PIXELS_PER_POINT)))


def cannot_draw(cause: str) -> FleetbenchError:
    """Return the error for a specification that the renderer refuses, or for one that ended."""
    return FleetbenchError(
        "cannot draw a chart", cause=cause, next_step="run again with --debug, and report it"
    )


def not_installed(error: ImportError) -> FleetbenchError:
    """Return the error for a library that is not there."""
    return FleetbenchError(
        "cannot draw charts", cause=str(error), next_step="pip install altair vl-convert-python"
    )


def _converted(draw: Callable[[Any], Any]) -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise not_installed(error) from error
    try:
        return draw(vl_convert)
    except ValueError as error:
        raise cannot_draw(str(error)) from error

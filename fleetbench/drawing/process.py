"""A renderer as a process of its own: a specification a line comes in, a picture a line goes out, as JSON.

It ends when its input does, so also when its parent is killed.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from fleetbench.drawing.vega import png_of_svg, svg_of
from fleetbench.errors import FleetbenchError

_SMALLEST = {"data": {"values": [{"a": "A"}]}, "mark": "bar", "encoding": {"y": {"field": "a"}}}


def main() -> None:
    """Answer until the input ends. What the renderer prints goes to stderr, the answers alone to stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The engine and the fonts are loaded with the first picture, while the parent still reads its rows.
    answer(_SMALLEST)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(answer(json.loads(line)), separators=(",", ":")).encode() + b"\n")
        answers.flush()


def answer(specification: Mapping[str, Any]) -> dict[str, str]:
    """Return `svg` as text and `png` in base64, or `what` with `cause` and `next_step` of an error."""
    try:
        svg = svg_of(specification)
        return {"svg": svg.decode(), "png": base64.b64encode(png_of_svg(svg)).decode()}
    except FleetbenchError as error:
        return {"what": error.what, "cause": error.cause, "next_step": error.next_step}

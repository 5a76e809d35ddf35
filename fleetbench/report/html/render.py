"""A page as one HTML file that needs nothing beside it and may do nothing but show itself. Pure.

The file's own policy (Content-Security-Policy) allows its one style sheet and its one script, by their
hashes, and no request to anywhere: what a host, a model or a file wrote stays text, also where a mistake of
ours would let it through.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache

import jinja2
from markupsafe import Markup

from fleetbench.report.html.values import Page
from fleetbench.units import templates_directory

TEMPLATE, STYLE, SCRIPT = "report.html.j2", "report.css", "report.js"


def html(page: Page) -> str:
    """Return a page as the text of an HTML file."""
    style, script = _text(STYLE), _text(SCRIPT)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _jinja()
        .get_template(TEMPLATE)
        .render(
            page=page,
            policy=policy,
            style=Markup(style),  # noqa: S704  our own files; hashed above as they stand here
            script=Markup(script),  # noqa: S704
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _text(name: str) -> str:
    return (templates_directory() / "report" / name).read_text("utf-8")


@cache
def _jinja() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_directory() / "report"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["sortable"] = lambda value: f"{value:.7g}" if isinstance(value, float) else value
    made.filters["slug"] = lambda text: "".join(c if c.isalnum() else "-" for c in str(text).lower())
    return made

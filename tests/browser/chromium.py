"""The distribution's Chromium, without a network, and what it has to say of a page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright


def executable() -> str:
    """Return the path of a Chromium of this machine; empty where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), "")


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a headless Chromium. Its sandbox needs another user than root."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=executable(), args=[*options, "--disable-gpu"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Opened:
    """A page that was opened from disk; what it asked for besides itself, and what went wrong in it."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@contextmanager
def opened(started: Browser, file: Path, **context: Any) -> Iterator[Opened]:
    """Open a file in a context of its own (`viewport`, `color_scheme`, `java_script_enabled` …)."""
    made: BrowserContext = started.new_context(offline=True, **context)
    page = made.new_page()
    found = Opened(page)
    page.on("request", lambda request: found.requests.append(request.url))
    page.on("console", lambda said: found.errors.append(said.text) if said.type != "log" else None)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    try:
        page.goto(file.resolve().as_uri())
        yield found
    finally:
        made.close()

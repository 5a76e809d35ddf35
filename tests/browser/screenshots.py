"""Pictures of a report: `python tests/browser/screenshots.py REPORT.html DIRECTORY` writes them.

`report.png` is the first screen at 1280 pixels, `evidence.png` a row that was opened; the others are to be
looked at: whole page light and dark, a telephone, paper.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chromium import browser, opened

DESKTOP = {"width": 1280, "height": 800}
TELEPHONE = {"width": 390, "height": 844}


def screenshots(report: Path, directory: Path) -> list[Path]:
    """Write the pictures of a report into a directory and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    made = [directory / f"{name}.png" for name in ("report", "evidence", "whole", "dark", "telephone")]
    first, evidence, whole, dark, telephone = made
    with browser() as started:
        with opened(started, report, viewport=DESKTOP) as light:
            light.page.screenshot(path=first)
            light.page.screenshot(path=whole, full_page=True)
            light.page.locator("button.more").first.click()
            light.page.locator("#results").screenshot(path=evidence)
        with opened(started, report, viewport=DESKTOP, color_scheme="dark") as other:
            other.page.locator("button.more").first.click()
            other.page.screenshot(path=dark, full_page=True)
        with opened(started, report, viewport=TELEPHONE, device_scale_factor=2) as small:
            small.page.screenshot(path=telephone, full_page=True)
        with opened(started, report) as printed:
            printed.page.pdf(path=directory / "paper.pdf", prefer_css_page_size=True, print_background=True)
    return [*made, directory / "paper.pdf"]


if __name__ == "__main__":
    screenshots(Path(sys.argv[1]), Path(sys.argv[2]))

"""The pages of the documentation, and the script that makes parts of them, for tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md")))


def read(path: Path) -> str:
    """Return a page's text."""
    return path.read_text("utf-8")


def _generate() -> ModuleType:
    specification = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


generate = _generate()

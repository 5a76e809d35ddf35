"""The example reports are what the rows in the repository come to, with the code as it is."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fleetbench.results.store import Store

ROOT = Path(__file__).parents[2]
AGAIN = "python docs/example_report.py --pictures"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The program that writes them."""
    spec = importlib.util.spec_from_file_location("example_report", ROOT / "docs" / "example_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def store(example: ModuleType) -> Iterator[Store]:
    """Their rows."""
    with example.example_store() as found:
        yield found


@pytest.mark.parametrize("name", ["h200", "cpu", "published"])
def test_the_text_in_the_repository_is_that_of_its_rows(example: ModuleType, store: Store, name: str) -> None:
    kept = (example.PLACE / name / "report.md").read_text("utf-8")
    without = re.sub(r"\n## Charts\n.*?(?=\n## |\Z)", "\n", kept, flags=re.DOTALL)
    assert without.split() == example.text_of(store, name).split(), f"make them anew: {AGAIN}"


@pytest.mark.parametrize("name", ["h200", "cpu", "published"])
def test_every_picture_that_a_text_shows_is_there_and_the_page_is_whole(
    example: ModuleType, name: str
) -> None:
    place = example.PLACE / name
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (place / "report.md").read_text("utf-8"))
    assert len(shown) > 3
    assert all((place / path).is_file() for path in shown)
    page = (place / "report.html").read_text("utf-8")
    assert page.rstrip().endswith("</html>")
    assert (example.PLACE / f"{name}.png").is_file()

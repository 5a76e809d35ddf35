"""The table of rules and the code say the same, and the table is checked when it is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from fleetbench.errors import FleetbenchError
from fleetbench.results.rows import Verdict
from fleetbench.results.rules.table import parse_rules, rule_table

PACKAGE = Path(__file__).parents[2] / "fleetbench"
TABLE = resources.files("fleetbench").joinpath("data/rules.toml").read_text("utf-8")


def made() -> Iterator[tuple[str, str, set[str]]]:
    """Yield file, rule and verdicts of each `Finding(…)` in the code whose rule is a constant."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Finding":
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            rule = given.get("rule")
            if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                verdicts = set(re.findall(r"Verdict\.([A-Z]+)", ast.unparse(given["verdict"])))
                yield str(path.relative_to(PACKAGE)), rule.value, verdicts


def test_every_rule_of_the_code_is_a_row_of_the_table_and_every_row_is_in_the_code() -> None:
    assert {rule for _, rule, _ in made()} == {rule.id for rule in rule_table().rules}


def test_a_row_names_the_verdicts_that_the_code_asks_for_and_no_others() -> None:
    asked: dict[str, set[Verdict]] = {}
    for _, rule, verdicts in made():
        asked.setdefault(rule, set()).update(Verdict[name] for name in verdicts)
    named = {rule.id: set(rule.verdicts) for rule in rule_table().rules}
    assert asked == named


def test_verdicts_stand_the_worst_first_and_every_text_is_a_sentence() -> None:
    order = [Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID]
    for rule in rule_table().rules:
        assert list(rule.verdicts) == sorted(rule.verdicts, key=order.index), rule.id
        assert rule.explanation.endswith("."), rule.id
        assert rule.action.endswith((".", "`.")), rule.id
        assert not rule.title.endswith("."), rule.id
    for name, meaning in rule_table().meanings:
        assert meaning.endswith("."), name


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('id = "waves"', 'id = "counts"', "counts"),
        ('name = "waves"', 'name = "heaps"', "heaps"),
        ('group = "report"', 'group = "reports"', "client-status"),
        ('verdicts = ["invalid"]', 'verdicts = ["wrong"]', "wrong"),
        ("value = 10\n", 'value = "ten"\n', "waves"),
        ("value = 10\n", "value = true\n", "waves"),
        ("[[rule]]", "[[rules]]", "rule"),
        ('[[threshold]]\nname = "waves"', "[[threshold", "rules"),
    ],
)
def test_a_wrong_table_is_refused_by_name(old: str, new: str, word: str) -> None:
    assert old in TABLE
    count = 1 if old != "[[rule]]" else -1
    with pytest.raises(FleetbenchError, match="table of rules") as caught:
        parse_rules(TABLE.replace(old, new, count))
    assert word in str(caught.value.cause) + str(caught.value)


def test_a_rule_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        rule_table().rule("nosuch")

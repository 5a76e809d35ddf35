"""What --hosts means."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetbench.errors import InventoryError
from fleetbench.inventory import Inventory, load, select

HOSTS = """
[defaults]
build = "cuda"
[builds.cuda]
version = "0.19.1"
[hosts."h100-[01-08]"]
[hosts.h200-01]
[hosts.a100-01]
[groups.h100]
hosts = "h100-*"
[groups.big]
hosts = ["@h100", "h200-01", "!h100-08"]
[groups.none]
hosts = []
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (tmp_path / "hosts.toml").write_text(HOSTS)
    return load(tmp_path)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a100-01", "a100-01"),
        ("a100-01,h100-02,h100-01", "h100-01 h100-02 a100-01"),
        ("h100-01,h100-[01-02],@h100,!h100-[03-08]", "h100-01 h100-02"),
        ("!h100-01,h100-[01-02]", "h100-02"),
        ("@all,!@h100", "h200-01 a100-01"),
        ("@big,!h100-[01-06]", "h100-07 h200-01"),
        ("*-01", "h100-01 h200-01 a100-01"),
        ("h?00-01", "h100-01 h200-01"),
        ("@h*,!h100-*,a100-01", "a100-01"),
        (" a100-01 , h200-01 ", "h200-01 a100-01"),
        ("h100-[02,04-05]", "h100-02 h100-04 h100-05"),
        ("@all,!@none,!@h100,!a100-01", "h200-01"),
    ],
)
def test_an_expression_means_hosts_in_the_order_of_the_inventory(
    inventory: Inventory, expression: str, expected: str
) -> None:
    assert [host.name for host in select(inventory, expression)] == expected.split()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("h100-9", "no host is called h100-9; did you mean h100-08 or h100-07 or h100-06?"),
        ("H200-01", "no host is called H200-01; did you mean h200-01"),
        ("@h10", "no group is called @h10; did you mean @h100?"),
        ("@zzz", "no group is called @zzz; known: @h100, @big, @none, @all"),
        ("@all,!h100-33", "no host is called h100-33"),
        ("h100-[07-12]", "no host is called h100-[09-12]"),
        ("v100-*", "no host is called v100-*"),
        ("h100-[8-01]", "runs backwards"),
        ("h100-[01-08", "has no partner"),
        ("@none", "selects no host"),
        ("h100-01,!h100-01", "nothing is left after the exclusions"),
        ("!h100-01", "write @all,!h100-01"),
        ("", "it is empty"),
        (" , ,", "it is empty"),
        ("@", "no group is called @"),
        ("a100-01,!", "no host is called"),
    ],
)
def test_an_expression_that_means_nothing_is_refused(
    inventory: Inventory, expression: str, message: str
) -> None:
    with pytest.raises(InventoryError) as caught:
        select(inventory, expression)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    "hostile",
    [
        "; touch /tmp/x",
        "$(id)",
        "-oProxyCommand=id",
        "a\nb",
        "\x1b[2J",
        "%n",
        "../../etc",
        "[" * 5000,
        "@" + "x" * 100_000,
        "h[1-9999][1-9999][1-9999]",
    ],
)
def test_a_hostile_name_is_refused_in_three_printable_lines(inventory: Inventory, hostile: str) -> None:
    with pytest.raises(InventoryError) as caught:
        select(inventory, hostile)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 3
    assert all(line.isprintable() and len(line) < 1000 for line in lines)


def test_several_terms_that_mean_nothing_are_all_named(inventory: Inventory) -> None:
    with pytest.raises(InventoryError) as caught:
        select(inventory, "h100-9,@bag,a100-01")
    assert "h100-9" in caught.value.cause
    assert "@bag; did you mean @big?" in caught.value.cause

"""What comes from hosts and files reaches the terminal and the spreadsheet as text and nothing else."""

from __future__ import annotations

import csv
import io
import json

import pytest

from fleetbench import console


def test_json_on_a_terminal_moves_no_cursor_and_is_still_the_same_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = {"version": "1\x9b31m\x7f\u202e\u2028 × tok/s", "nested": ["\x1b[2J\n"]}
    console.print_json(value)
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    assert "× tok/s" in printed
    assert json.loads(printed) == value


def test_csv_holds_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_csv(("a", "b", "c"), [('=HYPERLINK("http://x")', -1.5, None), ("+1", "@x", "-2")])
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[1:] == [[' =HYPERLINK("http://x")', "-1.5", ""], [" +1", " @x", " -2"]]


def test_square_brackets_of_a_file_name_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("x[/red].txt", "[b]"), [("a", 1)])
    assert "x[/red].txt" in capsys.readouterr().out


def test_a_title_is_text_too(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("a" * 60,), [(1,)], title="trial 1 (--x=[/srv/media] [red]y\x1b[2J) -> vllm-8001")
    assert "trial 1 (--x=[/srv/media] [red]y" in (printed := capsys.readouterr().out)
    assert "\x1b" not in printed

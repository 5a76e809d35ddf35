"""The offline command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from report_text import VALUES, report

from fleetbench import cli


def _run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from fleetbench.cli import main; main(prog_name='fleetbench')", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Three files: a report, a text without one, a report in UTF-16."""
    contents = {"good": report().encode(), "bad": b"nothing here", "wide": report().encode("utf-16")}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in contents}


def test_json_is_a_list_with_one_object_a_block(files: dict[str, str]) -> None:
    done = _run("parse", files["good"], "--format", "json")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert {key: row[key] for key in VALUES} == VALUES
    assert row["source"] == files["good"]
    assert done.stderr == b""


def test_standard_input_and_utf_16_are_read(files: dict[str, str]) -> None:
    piped = _run("parse", "-", "--format", "json", stdin=Path(files["wide"]).read_bytes())
    (row,) = json.loads(piped.stdout)
    assert (row["source"], row["completed"], row["complete"]) == ("-", 731, True)


def test_csv_has_one_header_and_one_row_a_block_over_all_files(files: dict[str, str]) -> None:
    done = _run("parse", files["good"], files["wide"], "--format", "csv")
    rows = list(csv.DictReader(done.stdout.decode().splitlines()))
    assert [row["completed"] for row in rows] == ["731", "731"]
    assert rows[0]["request_goodput"] == ""
    assert float(rows[0]["total_token_throughput"]) == 2298.25


def test_a_table_shows_values_and_the_problems_below(files: dict[str, str]) -> None:
    text = report().replace("61.07", "nan  ")
    done = _run("parse", "-", stdin=text.encode())
    assert done.returncode == 0
    assert b"766.06" in done.stdout
    assert b"line 5: Benchmark duration (s): 'nan' is not a finite number" in done.stdout


def test_nothing_readable_ends_with_status_1_and_a_reason_in_three_lines(files: dict[str, str]) -> None:
    done = _run("parse", files["bad"], "--format", "json")
    assert done.returncode == 1
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) <= 3
    assert lines[0] == f"error: {files['bad']}: no benchmark result in this text"
    assert lines[1].startswith("  cause:")
    assert lines[2].startswith("  next:")


def test_one_bad_file_among_good_ones_is_named_and_the_others_are_shown(files: dict[str, str]) -> None:
    done = _run("parse", files["bad"], files["good"], "--format", "json")
    assert done.returncode == 1
    assert len(json.loads(done.stdout)) == 1
    assert files["bad"].encode() in done.stderr


@pytest.mark.parametrize("name", ["/does/not/exist", "/", "/proc/self/mem", "line\nbreak\x1b[2J"])
def test_a_file_that_cannot_be_read_is_an_error_without_traceback(name: str) -> None:
    done = _run("parse", name)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_debug_shows_the_traceback(files: dict[str, str]) -> None:
    assert b"Traceback" in _run("--debug", "parse", files["bad"]).stderr


@pytest.mark.parametrize("arguments", [("parse",), ("parse", "x", "--format", "yaml"), ("frobnicate",)])
def test_wrong_usage_ends_with_status_2(arguments: tuple[str, ...]) -> None:
    done = _run(*arguments)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_the_version_is_the_package_s() -> None:
    from fleetbench import __version__

    assert _run("--version").stdout.decode().strip() == f"fleetbench {__version__}"


def test_help_lists_the_commands_without_importing_any_or_anything_heavy() -> None:
    code = (
        "import sys\nfrom fleetbench.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m.startswith('fleetbench.commands.') or m.partition('.')[0] in "
        "('rich', 'agate', 'altair', 'sqlalchemy', 'fabric', 'paramiko', 'jinja2', 'requests')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "parse" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_whose_module_is_missing_does_not_break_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    monkeypatch.setitem(cli.COMMANDS, "ghost", ("fleetbench.commands.no_such_module:ghost", "Not there."))
    shown = CliRunner().invoke(cli.main, ["--help"])
    assert shown.exit_code == 0
    assert "ghost" not in shown.output
    assert "parse" in shown.output
    assert CliRunner().invoke(cli.main, ["ghost"]).exit_code == 2


def test_every_command_of_the_table_that_is_installed_can_be_imported() -> None:
    import click

    context = click.Context(cli.main)
    assert isinstance(cli.main, click.Group)
    for name in cli.main.list_commands(context):
        assert isinstance(cli.main.get_command(context, name), click.Command), name


def test_an_unexpected_exception_is_one_message_and_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    import click
    from click.testing import CliRunner

    @click.command()
    def broken() -> None:
        raise ZeroDivisionError("secret\nlines")

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: broken)
    done = CliRunner().invoke(cli.main, ["broken"])
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    assert "--debug" in done.output


def test_an_interrupt_ends_with_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    import click
    from click.testing import CliRunner

    @click.command()
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: stopped)
    assert CliRunner().invoke(cli.main, ["stopped"]).exit_code == 130

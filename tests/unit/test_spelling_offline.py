"""What was mistyped on the offline command line is told with the nearest thing that there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from docs_pages import generate

from fleetbench.cli import OF_INVOKE, main
from fleetbench.commands.nearest import file_step
from fleetbench.failures import classify


def told(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("verfiy", "Did you mean verify?"),
        ("REPORT", "Did you mean report"),
        ("sweep", "`invoke sweep` reaches hosts"),
        ("frobnicate", "There is no command frobnicate"),
        ("x\x1b[31m" + "y" * 10_000, "There is no command x [31m"),
    ],
)
def test_a_mistyped_command(word: str, says: str) -> None:
    status, text = told(word)
    assert status == 2
    assert says in text
    assert "\x1b" not in text
    assert len(text) < 400


def test_options_and_commands_of_commands_go_on_as_ever() -> None:
    assert "Did you mean" in told("runs", "shwo")[1]
    assert "--debug" in told("--debgu")[1]
    assert told("--help")[0] == 0


def test_what_is_said_to_be_a_verb_of_invoke_is_one() -> None:
    assert set(generate.collection().task_names) >= OF_INVOKE


@pytest.mark.parametrize("command", ["import", "parse", "explain"])
def test_a_file_that_is_not_there(command: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    status, text = told(command, str(tmp_path / "resutl.json"))
    assert status == 1
    assert f"did you mean {tmp_path}/result.json?" in text
    status, text = told(command, str(tmp_path / "nowhere" / "at" / "all"))
    assert status == 1
    assert "or - for standard input" in text


def test_a_file_that_is_there_is_not_suggested_once_more(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    assert file_step(str(tmp_path / "a.json"), "else") == "else"
    assert file_step("\x00", "else") == "else"
    (tmp_path / "b\x1b\n.json").write_text("")
    assert file_step(str(tmp_path / "b.json"), "else").isprintable()


def test_a_model_that_nobody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    arguments = ("--gpus", "H200")
    assert "Llama-3.1-70B?" in told("ceiling", "lama-3.1-8b", *arguments)[1]
    assert "did you mean" not in told("ceiling", "zzzzzz", *arguments)[1]


HEAD = "(EngineCore pid=1) ERROR 11-30 10:00:00 [core.py:1] "


@pytest.mark.parametrize(
    ("next_line", "evidence"),
    [
        (f"{HEAD}        the frobnicator is upside down", "RuntimeError: the frobnicator is upside down"),
        (f"(Other pid=2) hello\n{HEAD}   upside down", "RuntimeError: upside down"),
        (f"{HEAD}During handling of the above exception, another exception occurred:", "RuntimeError:"),
        ("(EngineCore pid=1) INFO 11-30 10:00:00 [core.py:1] all is well", "RuntimeError:"),
        (f'{HEAD}  File "/x/y.py", line 3, in f\n{HEAD}and more', "RuntimeError:"),
        ("", "RuntimeError:"),
    ],
)
def test_an_exception_whose_message_begins_on_the_next_line_is_quoted_with_it(
    next_line: str, evidence: str
) -> None:
    found = classify(f"{HEAD}RuntimeError: \n{next_line}\n")
    assert found.failure is None
    assert found.evidence == evidence
    assert found.line == 1

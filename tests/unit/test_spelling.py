"""What was mistyped is told with what may have been meant."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from invoke.tasks import Task

import tasks
from fleetbench.verbs.entrance import help_asked, options_of
from fleetbench.verbs.spelling import mistake

ROOT = Path(__file__).parents[2]
OPTIONS = {"sweep": {"--model", "--no-prune", "--help"}, "hosts": {"--hosts"}}


@pytest.mark.parametrize(
    ("words", "what", "next_step"),
    [
        (("swep",), "there is no verb swep", "did you mean sweep?"),
        (("sweep", "--modell", "x"), "invoke sweep has no option --modell", "did you mean --model?"),
        (("sweep", "--no-prun"), "invoke sweep has no option --no-prun", "did you mean --no-prune?"),
        (("zzz",), "there is no verb zzz", "invoke --list"),
        (("hosts", "--zzz=1"), "invoke hosts has no option --zzz", "invoke --help hosts"),
    ],
)
def test_a_mistyped_word_is_told_with_the_nearest_one(
    words: tuple[str, ...], what: str, next_step: str
) -> None:
    found = mistake(words, OPTIONS)
    assert found is not None
    assert (found.what, found.next_step) == (what, next_step)


@pytest.mark.parametrize(
    "words",
    [(), ("--list",), ("--help", "sweep"), ("sweep", "--model=x", "--help"), ("hosts", "--hosts", "a")],
)
def test_what_is_right_or_invokes_own_is_left_alone(words: tuple[str, ...]) -> None:
    assert mistake(words, OPTIONS) is None


def test_every_option_of_every_verb_is_known() -> None:
    """A right option that was refused would be worse than a wrong one with a poor message."""
    verbs = {name: found for name, found in vars(tasks).items() if isinstance(found, Task)}
    assert len(verbs) > 10
    options = {name: options_of(verb) for name, verb in verbs.items()}
    for name, verb in verbs.items():
        for argument in inspect.signature(verb.body).parameters:
            assert argument == "c" or mistake((name, f"--{argument.replace('_', '-')}"), options) is None
        assert mistake((name, "--dry", "--echo"), options) is None


def test_asking_for_the_options_of_a_verb_leaves_it_its_help() -> None:
    before = dict(tasks.sweep.help)
    options_of(tasks.sweep)
    assert tasks.sweep.help == before


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("promote", "--help"), "promote"),
        (("--debug", "promote", "-h"), "promote"),
        (("promote", "latest", "--help"), ""),
        (("deploy", "--help"), ""),
        ((), ""),
    ],
)
def test_help_after_a_verb_that_wants_a_word_is_help(words: tuple[str, ...], verb: str) -> None:
    assert help_asked(words, {"promote", "lab"}) == verb


def test_the_command_line_ends_with_the_suggestion() -> None:
    argv = [sys.executable, "-m", "invoke", "swep"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: there is no verb swep\n  next:  did you mean sweep?\n"


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = f"{sys.executable} -m invoke --help sweep | true; exit ${{PIPESTATUS[1]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""

"""Commands that the documentation and our own messages show would be understood by their program."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs_pages import PAGES, ROOT, generate, read
from invoke.exceptions import ParseError
from invoke.parser import Parser
from invoke.parser.context import ParserContext
from invoke.program import Program

from fleetbench import cli

SOURCES = sorted([*(ROOT / "fleetbench").rglob("*.py"), ROOT / "tasks.py"])


def _commands(text: str) -> Iterator[str]:
    """Yield every command line that a page shows: in code blocks, and as code within a sentence."""
    fenced = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for block in fenced:
        joined = re.sub(r"\\\n\s*", " ", block)
        for line in joined.splitlines():
            yield from _parts(line.strip().removeprefix("$ "))
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`((?:[A-Z_]+=\S+ )*(?:invoke|fleetbench) [^`]+)`", outside):
        yield from _parts(code)


def _parts(line: str) -> Iterator[str]:
    """Split a shell line at pipes and the like; yield what calls us, without comment and variables."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.wordchars += "!@[]*?,:%{}…+^$\\"
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set("|&;<>"):
            while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                del command[0]
            if command[:1] in (["invoke"], ["fleetbench"]) and len(command) > 1:
                yield shlex.join(command)
            command = []
        else:
            command.append(word)


SHOWN = sorted({(path.name, command) for path in PAGES for command in _commands(read(path))})


def _complaint(command: str) -> str:
    """Parse a command as its program would, without running it; return what it says against it."""
    program, *words = [word for word in shlex.split(command) if word != "…"]
    if len(words) == 1 and not words[0].startswith("-"):  # a command's name, within a sentence
        named = generate.collection().task_names if program == "invoke" else cli.COMMANDS
        return "" if words[0] in named else f"no command is called {words[0]}"
    try:
        if program == "invoke":
            core = ParserContext(args=Program().core_args())
            Parser(initial=core, contexts=generate.collection(["invoke", *words]).to_contexts()).parse_argv(
                words
            )
        else:
            _parse_click(cli.main, words)
    except (ParseError, ValueError) as exc:
        return str(exc)
    except click.ClickException as exc:
        return exc.format_message()
    except SystemExit as exc:  # tasks.py says of a mistyped verb or option what may have been meant
        return f"left with status {exc.code}" if exc.code else ""
    return ""


def _parse_click(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    words = [word for word in words if word not in ("--help", "--version")]
    if isinstance(command, click.Group) and not words:
        return
    context = command.make_context(command.name or "fleetbench", list(words), parent=parent)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if isinstance(command, click.Group) and rest:
        _, member, left = command.resolve_command(context, rest)
        assert member is not None
        _parse_click(member, left, context)


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_a_command_that_a_page_shows_would_be_understood(page: str, command: str) -> None:
    assert _complaint(command) == ""


def test_commands_are_found_on_every_page_and_a_wrong_one_is_noticed() -> None:
    found = {page: sum(name == page for name, _ in SHOWN) for page in ("README.md", "operators.md", "lab.md")}
    assert min(found.values()) >= 5, found
    wrong = (
        "invoke deply --hosts a",
        "invoke deploy --host a",
        "invoke deploy --port many",
        "invoke lab reboot a b c",
        "fleetbench raport",
        "fleetbench report --formt csv",
        "fleetbench runs shw x",
        "fleetbench report --format yaml",
    )
    assert [command for command in wrong if not _complaint(command)] == []


NEXT = re.compile(r"\b(invoke|fleetbench) ([a-z]+)((?:(?! - )[^.;,()`·\n])*)")


def test_commands_that_error_messages_recommend_exist() -> None:
    tasks = {context.name: context for context in generate.collection().to_contexts()}
    wrong, seen = [], 0
    for path in SOURCES:
        for text in _texts(path):
            for program, name, rest in NEXT.findall(text):
                options = re.findall(r"(?<!\S)--([a-z][a-z-]+)", rest)
                if program != "invoke" or not (name in tasks or options):
                    continue
                seen += 1
                arguments = tasks[name].args.values() if name in tasks else ()
                known = {str(argument.name).replace("_", "-") for argument in arguments}
                wrong += [(path.name, name, option) for option in options if option not in known]
    assert seen > 20
    assert wrong == []


def _texts(path: Path) -> Iterator[str]:
    """Yield every text in a module, what a formatted one is filled with shown as X; without docstrings."""
    tree = ast.parse(read(path))
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(node.value)
        if isinstance(node, ast.JoinedStr):
            inside.update(ast.walk(node))
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value

"""Write the parts of docs/ that follow from the code: docs/cli.md, and the tables between markers.

Run it by hand after a change: `python docs/generate.py`. It names the files that it changed on stderr. A test
compares its answer with the files, so that a forgotten run does not get far.

In a marked table of a page the last column is written by people, except of tables that stand in a TOML file
of the package: it is kept by the row's name. A row that is new gets an empty one, which the test refuses too.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from invoke.collection import Collection
from invoke.parser.argument import Argument

from fleetbench import cli, model
from fleetbench.inventory import keys, sweeps, tariff
from fleetbench.inventory.documents import Document
from fleetbench.inventory.kinds import Reader, reference
from fleetbench.report.columns import measurement_columns, summary_columns
from fleetbench.report.imported import imported_columns
from fleetbench.report.requests import REQUEST_COLUMNS
from fleetbench.results.dictionary import meaning, version
from fleetbench.results.rules.table import GROUPS, rule_table
from fleetbench.results.views import Dialect, views
from fleetbench.telemetry.figures import figures

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
Row = tuple[str, ...]
MARK = re.compile(
    r"(<!-- generated: (?P<name>[\w.-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL | re.MULTILINE
)
INVOKE_KINDS = {str: "TEXT", int: "NUMBER", float: "DECIMAL"}


def pages() -> dict[Path, str]:
    """Return each file that is made, whole or in parts, with the text that it should have."""
    found = {DOCS / "cli.md": cli_page(), DOCS / "schema.md": schema_page()}
    for path in sorted(DOCS.glob("*.md")):
        text = found.get(path) or path.read_text("utf-8")
        found[path] = MARK.sub(
            lambda match: match[1] + _refreshed(match["name"], match["body"]) + match[4], text
        )
    return found


def collection(words: Sequence[str] = ("invoke",)) -> Collection:
    """Return the tasks as `invoke` sees them when the words are its command line (`lab` looks at it)."""
    specification = importlib.util.spec_from_file_location("tasks", ROOT / "tasks.py")
    if specification is None or specification.loader is None:
        raise FileNotFoundError(ROOT / "tasks.py")
    module: ModuleType = importlib.util.module_from_spec(specification)
    before, sys.argv = sys.argv, list(words)
    try:
        specification.loader.exec_module(module)
    finally:
        sys.argv = before
    return Collection.from_module(module)


def click_commands() -> Iterator[tuple[click.Context, click.Command]]:
    """Yield every command of `fleetbench` with a context that knows its full name, groups before members."""
    yield from _below(click.Context(cli.main, info_name="fleetbench"), cli.main)


def _below(context: click.Context, command: click.Command) -> Iterator[tuple[click.Context, click.Command]]:
    yield context, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None:
                yield from _below(click.Context(member, info_name=name, parent=context), member)


# ---------------------------------------------------------------- docs/cli.md


def cli_page() -> str:
    """Return the whole page about both command lines."""
    parts = [
        "# Commands",
        "Made by `docs/generate.py` from the code; changes belong there.",
        "`invoke` reaches hosts, `fleetbench` reads files and the store and never reaches a host.\n"
        "Both print results to stdout and everything about the work to stderr.\n"
        "The order of work, with examples, is in [operators.md](operators.md).",
        "## invoke",
        *(_task_text(context) for context in collection().to_contexts()),
        "## fleetbench",
        *(_command_text(context, command) for context, command in click_commands()),
    ]
    return "\n\n".join(parts) + "\n"


def _task_text(context: Any) -> str:
    arguments = list(dict.fromkeys(context.args.values()))
    words = [argument.name.upper() for argument in arguments if argument.positional]
    if context.name == "lab":
        words += ["[HOST]", "[STATE]"]
    rows = [_option_of_task(argument) for argument in arguments if not argument.positional]
    heading = f"### invoke {context.name}"
    usage = " ".join(["invoke", context.name, *words, *(["[OPTIONS]"] if rows else [])])
    about = [f"`{a.name.upper()}`: {a.help}" for a in arguments if a.positional]
    return "\n\n".join(
        [heading, f"    {usage}", _prose(collection()[context.name].__doc__), *about, _table(_OPTIONS, rows)]
    )


_OPTIONS = ("option", "default", "meaning")


def _option_of_task(argument: Argument) -> Row:
    name = "--" + (argument.name or "").replace("_", "-")
    kind = "" if argument.kind is bool else " " + INVOKE_KINDS[argument.kind]
    default = "" if argument.kind is bool or argument.default in (None, "") else f"`{argument.default}`"
    return f"`{name}{kind}`", default, argument.help or ""


def _command_text(context: click.Context, command: click.Command) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    parts = [f"### {context.command_path}", f"    {usage}", _prose(command.help)]
    if options:
        parts.append(_table(_OPTIONS, [_option_of_command(option) for option in options]))
    return "\n\n".join(parts)


def _option_of_command(option: click.Option) -> Row:
    kind = ""
    if isinstance(option.type, click.Choice):
        kind = " " + "|".join(map(str, option.type.choices))
    elif not option.is_flag:
        kind = f" {option.metavar or 'TEXT'}"
    plain = isinstance(option.default, str | int) and not option.is_flag and option.default != ""
    return f"`{max(option.opts, key=len)}{kind}`", f"`{option.default}`" if plain else "", option.help or ""


def _prose(text: str | None) -> str:
    r"""Return a docstring as Markdown: what stands below `\b` is an example."""
    blocks = inspect.cleandoc(text or "").split("\n\n")
    shown = []
    for block in blocks:
        head, _, example = block.partition("\b\n")
        shown.append(f"```sh\n{example}\n```" if example else head)
    return "\n\n".join(shown)


# ---------------------------------------------------------------- docs/schema.md

_SCHEMA = """# Columns

Made by `docs/generate.py` from the code; meanings belong into `fleetbench/data/columns.toml`.
This is version {version} of all columns together: it is raised when one comes, goes or changes its meaning.
It stands in Parquet (metadata), JSON (`schema_version`) and in `fleetbench query --schema`.

A name means the same wherever it stands.
Numbers have the unit that is given here; an empty cell is unknown and never 0.
Times are UTC, as `2026-11-30T14:12:33Z`.
A number counts only with its verdict: `where verdict = 'valid'` is what reports rank and draw.

## Views

What `fleetbench query` asks; the tables of the database itself may change with any release."""


def schema_page() -> str:
    """Return the whole page about views and files."""
    parts = [_SCHEMA.format(version=version())]
    for view in views(Dialect.SQLITE):
        parts += [f"### {view.name}", f"A row is {view.text}.", _columns_table(tuple(view.columns))]
    parts += ["## Files", "CSV has one header line and one line for each row; Parquet has the same columns."]
    for name, text, columns in (
        (
            "summary.csv",
            "`report` and `export --rows summary`: a configuration under a workload",
            summary_columns(),
        ),
        (
            "measurements.csv",
            "`report` and `export --rows measurements`: one execution of the client",
            measurement_columns(),
        ),
        ("requests", "`export --rows requests`: one answered request of a repeat", REQUEST_COLUMNS),
        ("imported.csv", "`report imported`: one row of a source", imported_columns()),
    ):
        parts += [f"### {name}", f"{text}.", _columns_table(columns)]
    return "\n\n".join(parts) + "\n"


def _columns_table(columns: Sequence[str]) -> str:
    rows = [
        (f"`{name}`", found.kind.value, found.unit, found.text)
        for name in columns
        if (found := meaning(name, figures())) is not None
    ]
    return _table(("column", "kind", "unit", "meaning"), rows)


# ---------------------------------------------------------------- tables in pages


def tables() -> Mapping[str, Callable[[], tuple[Row, list[Row]]]]:
    """Return what stands between markers, by name: column heads, and rows without their last column."""
    build, sweep = reference("build", ()), reference("sweep", ())
    return {
        "builds": lambda: _keys_table(keys.build_keys(), model.Build),
        "hosts": lambda: _keys_table(keys.host_keys(build), model.Host),
        "models": lambda: _keys_table(keys.model_keys(sweep), model.Model),
        "sweeps": lambda: _keys_table(sweeps.keys(build), model.Sweep),
        "configurations": lambda: _keys_table(keys.config_keys(), model.Config),
        "workloads": lambda: _keys_table(keys.workload_keys(), model.Workload),
        "tariff": lambda: _keys_table(tariff.tariff_keys(), model.Tariff),
    }


def whole_tables() -> Mapping[str, Callable[[], tuple[Row, list[Row]]]]:
    """Return what stands between markers and is data of the package to its last column."""
    groups = {f"rules.{group}": partial(_rules_table, group) for group in GROUPS}
    return {"thresholds": _thresholds_table, **groups}


def _refreshed(name: str, body: str) -> str:
    """Return a marked table as it should be, with the meanings that people wrote."""
    if name in whole_tables():
        return _table(*whole_tables()[name]()) + "\n"
    heads, rows = tables()[name]()
    written = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body.splitlines()[2:]
    ]
    meanings = {cells[0]: cells[-1] for cells in written if len(cells) == len(heads)}
    return _table(heads, [(*row, meanings.get(row[0], "")) for row in rows], escape=False) + "\n"


def _keys_table(readers: Mapping[str, Reader], noun: type) -> tuple[Row, list[Row]]:
    fields = {field.name: field for field in dataclasses.fields(noun)}
    rows: list[Row] = []
    for key, reader in readers.items():
        if key == "workload":
            rows.append(("`workload`", "a table, or a list of tables", "a workload of defaults"))
            continue
        field = fields[key]
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        rows.append((f"`{key}`", _escaped(expectation(reader)), _escaped(_default(default))))
    return ("key", "value", "default", "meaning"), rows


def expectation(reader: Reader) -> str:
    """Ask a reader of the inventory what it expects: its own words in an error message."""
    if (said := _complaint(reader, object())) != "a list":
        several = _complaint(reader, [])
        return f"{said}; or a list" if several.startswith("a list of at least") else said
    return f"a list, each {_complaint(reader, [object()])}"


def _complaint(reader: Reader, value: object) -> str:
    document = Document(Path("inventory.toml"), "inventory.toml", {}, {})
    reader(value, document.root)
    said = document.problems[0].text.removeprefix("expected ")
    return re.sub(r", found .*", "", said)


def _default(value: object) -> str:
    """Return a default as one would write it in TOML; a dash where there is none."""
    if value is dataclasses.MISSING:
        return "must be given"
    return "–" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case (int(), int()):
            return f'"{value[0]}-{value[1]}"'
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
        case _:
            return f"{value:g}"


def _thresholds_table() -> tuple[Row, list[Row]]:
    table = rule_table()
    rows: list[Row] = [
        (f"`{name}`", f"{getattr(table.thresholds, name):g}", meaning) for name, meaning in table.meanings
    ]
    return ("threshold", "value", "meaning"), rows


def _rules_table(group: str) -> tuple[Row, list[Row]]:
    rows: list[Row] = [
        (
            f"`{rule.id}`",
            ", ".join(f"`{verdict}`" for verdict in rule.verdicts),
            rule.title + ("" if rule.applies_to == "both" else f" ({rule.applies_to} rows)"),
            rule.explanation,
            rule.action,
        )
        for rule in rule_table().rules
        if rule.group == group
    ]
    return ("rule", "verdict", "what it finds", "why that counts", "what to do"), rows


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def _table(heads: Sequence[str], rows: Sequence[Row], *, escape: bool = True) -> str:
    cells = [[_escaped(cell) if escape else cell for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Write what differs."""
    for path, text in pages().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            sys.stderr.write(f"written: {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

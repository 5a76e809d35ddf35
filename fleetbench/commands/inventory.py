"""`fleetbench inventory`: is it right, and which hosts does an expression mean?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from fleetbench import console
from fleetbench.errors import Exit
from fleetbench.inventory import InventoryProblems, Problem, default_directory, fold_names, load, select
from fleetbench.inventory.prompts import missing_prompts
from fleetbench.inventory.tariff import tariff_problems
from fleetbench.model import Host

COLUMNS = (
    "host",
    "groups",
    "gpu",
    "gpu_count",
    "build",
    "version",
    "device",
    "ports",
    "sweep_ports",
    "prefix",
)


def inventory_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --inventory DIR, as `directory`."""
    return click.option(
        "--inventory",
        "directory",
        type=click.Path(path_type=Path),
        envvar="FLEETBENCH_INVENTORY",
        help="Inventory directory  [default: inventory, here or beside a tasks.py above]",
    )(command)


@click.group()
def inventory() -> None:
    """Check the inventory; print the hosts that an expression means."""


group = inventory


@inventory.command()
@click.argument("place", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@inventory_option
@click.option("--format", "form", type=click.Choice(console.FORMATS), help="Print problems as a table.")
@click.pass_context
def check(context: click.Context, place: Path | None, directory: Path | None, form: str | None) -> None:
    """Read all files of the inventory and print what is wrong in them, file by file.

    \b
    fleetbench inventory check
    fleetbench inventory check /srv/fleet/inventory --format json
    """
    problems: tuple[Problem, ...] = ()
    summary = ""
    try:
        loaded = load(place or directory or default_directory())
        problems = (*missing_prompts(loaded), *tariff_problems(loaded.directory))
        counted = ("hosts", "groups", "models", "sweeps", "builds")
        summary = ", ".join(_count(len(getattr(loaded, noun)), noun) for noun in counted) + ": ok"
    except InventoryProblems as exc:
        problems = exc.problems
    if form:
        rows = [(problem.file, problem.line, problem.key, problem.text) for problem in problems]
        console.print_rows(("file", "line", "key", "problem"), rows, form=form)
    elif problems:
        console.write("\n".join(map(str, problems)))
        console.write(_count(len(problems), "problems"))
    else:
        console.write(summary)
    context.exit(Exit.FAILED if problems else Exit.OK)


@inventory.command()
@click.argument("expression", default="@all")
@inventory_option
@click.option("--format", "form", type=click.Choice(console.FORMATS), help="Print more than the names.")
@click.option("--fold", is_flag=True, help="Print the names short, as h100-[01-08].")
def expand(expression: str, directory: Path | None, form: str | None, fold: bool) -> None:
    """Print the hosts that EXPRESSION means, one a line; all hosts without one.

    \b
    fleetbench inventory expand 'h100-[01-08],!h100-03'
    fleetbench inventory expand '@nvlink,a100-*' --format table
    """
    hosts = select(load(directory or default_directory()), expression)
    if form:
        console.print_rows(COLUMNS, [_row(host, form) for host in hosts], form=form)
    elif fold:
        console.write(fold_names(host.name for host in hosts))
    else:
        console.write("\n".join(host.name for host in hosts))


def _row(host: Host, form: str) -> tuple[object, ...]:
    groups: object = list(host.groups) if form == "json" else " ".join(host.groups)
    ports, sweep_ports = (f"{first}-{last}" for first, last in (host.ports, host.sweep_ports))
    build = host.build
    return (
        *(host.name, groups, host.gpu, host.gpu_count),
        *(build.name, build.version, build.device.value, ports, sweep_ports, host.prefix),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun.removesuffix('s') if number == 1 else noun}"

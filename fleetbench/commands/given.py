"""What was typed, looked at before anything is read: nothing given is taken for not given by mistake."""

from __future__ import annotations

from pathlib import Path

import click

from fleetbench.errors import UsageError, one_line
from fleetbench.inventory import default_directory


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an option whose value is empty, as a callback of click: `--slo "$SLO"` without that variable."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and not value.strip():
        raise click.BadParameter("nothing is given; leave it out if you mean none", context, parameter)
    return value


def inventory_directory(given: Path | None) -> Path:
    """Return the directory of the inventory, which need not be there unless it is named by --inventory."""
    source = click.get_current_context().get_parameter_source("directory")
    typed = source is click.core.ParameterSource.COMMANDLINE  # the environment names it for all commands
    if typed and given is not None and not given.is_dir():
        raise UsageError(
            f"there is no inventory at {one_line(str(given), 200)}",
            next_step="--inventory DIR names the directory with hosts.toml",
        )
    return given or default_directory()


def not_imported(run: str, does: str) -> None:
    """Refuse imported figures where only a run can be meant; `does` is what is done with runs."""
    name, _, source = run.partition("/")
    if name == "imported":
        shown = one_line(f"imported/{source}" if source else "imported", 80)
        raise UsageError(
            f"{shown} is no run: {does}", next_step=f"fleetbench report {shown} shows imported figures"
        )

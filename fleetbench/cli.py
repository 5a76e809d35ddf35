"""The offline command line `fleetbench`: reads files and the store, never a host.

Each command lives in a module of its own below `fleetbench/commands/` and is imported when it is called:
`fleetbench --help` imports none of them.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import importlib.util
from typing import Any

import click

from fleetbench import __version__, console
from fleetbench.errors import Exit, FleetbenchError, Interrupted, UsageError, one_line

# name: (module:attribute, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "parse": ("fleetbench.commands.parse:parse", "Read benchmark reports and result files."),
    "import": ("fleetbench.commands.importing:import_", "Import and judge figures that others measured."),
    "inventory": ("fleetbench.commands.inventory:inventory", "Check and expand the inventory."),
    "plan": ("fleetbench.commands.plan:plan", "Say which configurations of a sweep can work on a host."),
    "ceiling": ("fleetbench.commands.ceiling:ceiling", "Compute how fast a model can be on given GPUs."),
    "runs": ("fleetbench.commands.runs:runs", "List and show stored runs."),
    "report": ("fleetbench.commands.report:report", "Report on a run: tables, charts, Markdown, CSV."),
    "recommend": ("fleetbench.commands.recommend:recommend", "Say which configuration to deploy, and why."),
    "query": ("fleetbench.commands.query:query", "Ask the store by SQL."),
    "look": ("fleetbench.commands.query:look", "Show a run, a query or a CSV file as a table."),
    "stat": ("fleetbench.commands.query:stat", "Describe the columns of a run, a query or a CSV file."),
    "export": ("fleetbench.commands.export:export", "Write runs for other programs, or as an archive."),
    "compare": ("fleetbench.commands.compare:compare", "Compare runs, configurations, hosts, versions."),
    "verify": ("fleetbench.commands.verify:verify", "Derive stored numbers anew from the raw files."),
    "explain": ("fleetbench.commands.explain:explain", "Say why a server failed to start, from its journal."),
}


# Verbs that people look for here; the other command line has them.
OF_INVOKE = frozenset(
    ("bench", "demo", "deploy", "hosts", "lab", "logs", "provision", "remove", "restart", "status", "sweep")
)


class LazyGroup(click.Group):
    """A group that imports a command when it is called, and turns errors into three lines and a status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands whose module is installed."""
        return [name for name, (target, _) in COMMANDS.items() if _installed(target)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _installed(entry[0]):
            return None
        module, _, attribute = entry[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; of a mistyped one say which that may be."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(f"There is no command {one_line(name, 60)}{self._meant(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        if name in OF_INVOKE:
            return f": `invoke {name}` reaches hosts, fleetbench never does"
        near = difflib.get_close_matches(name[:60].lower(), self.list_commands(ctx), n=2)
        return f". Did you mean {' or '.join(near)}?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; no traceback reaches the user without --debug."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:
            console.error(Interrupted("interrupted"))
            ctx.exit(Exit.INTERRUPTED)
        except OSError as exc:
            if exc.errno == errno.EPIPE:  # `fleetbench … | head`: click ends quietly
                raise
            self._fail(ctx, exc)
        except Exception as exc:
            self._fail(ctx, exc)

    def _fail(self, ctx: click.Context, exc: Exception) -> None:
        console.error(exc, debug=bool(ctx.params.get("debug")))
        if isinstance(exc, UsageError):  # as click's own; of `invoke` 2 means something else
            ctx.exit(Exit.WRONG_USAGE)
        ctx.exit(exc.exit_status if isinstance(exc, FleetbenchError) else Exit.FAILED)


def _installed(target: str) -> bool:
    return importlib.util.find_spec(target.partition(":")[0]) is not None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="fleetbench", message="%(prog)s %(version)s")
def main(debug: bool) -> None:
    """Benchmark results of vLLM servers: read, keep, compare, report. Touches no host; `invoke` does.

    Exit status: 0 done, 1 failed, 2 wrong usage, 4 a regression (`compare --fail-on`), 130 interrupted.
    """

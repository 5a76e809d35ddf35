"""`fleetbench recommend`: which measured configuration to deploy, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import inventory_directory, not_empty
from fleetbench.commands.inventory import inventory_option
from fleetbench.commands.nearest import refuse_misspelt
from fleetbench.errors import Exit, UsageError, one_line
from fleetbench.inventory.tariff import EXAMPLE, find_tariff
from fleetbench.model import Tariffs

if TYPE_CHECKING:
    from fleetbench.choice.recommend import Recommendation
    from fleetbench.choice.slo import Slo
    from fleetbench.report.entry import Entry
    from fleetbench.results.store import Store

FORMATS = ("table", "markdown", "json")
IMPORTED = "imported"


@click.command()
@click.argument("run", metavar="[RUN|latest|imported/SOURCE]", default="latest")
@click.option(
    "--slo",
    metavar="BOUNDS",
    default="",
    callback=not_empty,
    help="What has to hold, in quotes: 'ttft_p99_ms<2000,tpot_p99_ms<60'. Latencies are ttft, tpot, itl and "
    "e2el, statistics p50, p90, p95, p99, mean. 'ttft_p99<2s' and ttft_p99_ms:2000 (<=) are the same.",
)
@click.option(
    "--objective",
    metavar="NAME",
    default="tokens/s",
    show_default=True,
    help="What to have most of, or least: tokens/s, tokens/s/gpu, requests/s, goodput (requests/s that meet "
    "the SLO each), cost (of a million output tokens), energy (tokens per joule).",
)
@click.option(
    "--tariff",
    metavar="FILE|WORDS",
    default="",
    callback=not_empty,
    help="What hosts cost: a file, or 'host_price=300000,gpus=8,years=4,kwh_price=0.20,pue=1.3'. Default: "
    "tariff.toml of the inventory, where it has one.",
)
@inventory_option
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Lines and a table for people, Markdown, or JSON for programs.",
)
@click.pass_context
def recommend(
    context: click.Context, run: str, slo: str, objective: str, tariff: str, directory: Path | None, form: str
) -> None:
    """Say which valid configuration of a run to deploy, at which load, and what would change that.

    The best is the configuration and load with the best objective among those that meet the whole SLO. What
    noise cannot tell apart is settled by fewer GPUs, then by the simpler configuration, and said. A run on
    several kinds of GPU, with several shapes of requests or context lengths gets one answer for each.

    RUN is an id, the beginning of one, or `latest`; `imported/SOURCE` chooses among imported rows. Exit
    status 1 when no question has an answer; then it says what comes nearest.

    \b
    fleetbench recommend latest --slo 'ttft_p99_ms<2000,tpot_p99_ms<60'
    fleetbench recommend latest --slo 'ttft_p99<2s,e2el_p95<30s' --objective goodput
    fleetbench recommend latest --objective cost --tariff prices.toml
    """
    from fleetbench.choice.objective import objective_named
    from fleetbench.choice.recommend import recommendations
    from fleetbench.choice.render import document, markdown, next_step
    from fleetbench.choice.slo import parse_slo
    from fleetbench.results.store import open_store

    bounds, wanted = parse_slo(slo), objective_named(objective)
    tariffs = find_tariff(tariff, inventory_directory(directory))
    refuse_unanswerable(wanted.name, bounds, tariffs)
    with open_store(create=False) as store:
        entries = read_entries(store, run, bounds)
    found = recommendations(entries, bounds, wanted, tariffs)
    if form == "json":
        console.print_json([document(one, next_step(one)) for one in found])
    elif form == "markdown":
        console.write("\n".join(markdown(one, next_step(one)) for one in found))
    else:
        for place, one in enumerate(found):
            if place:
                console.write("")
            show(one, next_step(one), among=len(found))
    if all(one.best is None for one in found):
        context.exit(Exit.FAILED)


def refuse_unanswerable(objective: str, slo: Slo, tariffs: Tariffs | None) -> None:
    """Refuse an objective that lacks what it is made of, before raw files are read."""
    from fleetbench.choice.slo import EXAMPLE as SLO_EXAMPLE

    if objective == "cost" and tariffs is None:
        raise UsageError(
            "--objective cost needs a tariff",
            next_step=f"--tariff '{EXAMPLE}', or tariff.toml of the inventory",
        )
    if objective == "goodput" and not slo.of_each_request:
        raise UsageError("--objective goodput needs an SLO on ttft, tpot or e2el", next_step=SLO_EXAMPLE)


def read_entries(store: Store, run: str, slo: Slo) -> tuple[Entry, ...]:
    """Return the entries of a run, with goodput where requests were kept, or those of imported rows."""
    from fleetbench.choice.goodput import Counting, with_goodput
    from fleetbench.report.files import sample_reader
    from fleetbench.report.imported import read_imported
    from fleetbench.report.imported_entries import entries_of_import
    from fleetbench.report.own_entries import entries_of_run
    from fleetbench.report.summary import summarise
    from fleetbench.results.rows import UNFINISHED

    name, _, source = run.partition("/")
    if name == IMPORTED:
        return tuple(
            entry for about, rows in read_imported(store, source) for entry in entries_of_import(about, rows)
        )
    refuse_misspelt(run)
    row = store.run(run)
    if row.state in UNFINISHED:
        console.progress(f"run {row.id} is {row.state.value}: what is still to be measured may win")
    counting = Counting(sample_reader(store.directory(row.id)), slo)
    report = summarise(row, store.trials(row.id), store.measurements(row.id), counting)
    return with_goodput(entries_of_run(report), report, counting.kept)


def show(found: Recommendation, command: str, *, among: int = 1) -> None:
    """Write a recommendation for people: the answer, the table, what would change it, what to type next.

    `among` several answers, each begins with its question.
    """
    from fleetbench.choice.render import MOST_ROWS, candidates_table, left_out_lines

    question = one_line(found.question, 1000)
    if among > 1:
        console.write(f"{question}\n")
    for reason in found.reasons:
        console.write(one_line(reason, 1000))
    console.write(f"\n{question}\n" if among == 1 else "")
    if found.candidates:
        made = candidates_table(found)
        console.print_table(made.columns, made.rows)
        if len(found.candidates) > MOST_ROWS:
            console.write(f"… and {len(found.candidates) - MOST_ROWS} more: --format json has all")
    _list("who wins where, and what would change that", found.sensitivity)
    _list("what could not be chosen", tuple(left_out_lines(found.left_out)))
    if command:
        console.write(f"\nnext: {one_line(command)}")


def _list(title: str, lines: tuple[str, ...]) -> None:
    if lines:
        console.write(f"\n{title}:")
    for line in lines:
        console.write(f"- {one_line(line, 1000)}")

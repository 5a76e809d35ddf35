"""`fleetbench compare`: runs, configurations, hosts, versions, imported figures beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import not_empty
from fleetbench.errors import FleetbenchError, NotPossible, Regression, UsageError, one_line

if TYPE_CHECKING:
    from fleetbench.report.compare.compared import Compared
    from fleetbench.report.compare.failing import Outcome

FORMATS = ("table", "markdown", "json", "csv")


@click.command()
@click.argument("which", metavar="A [B…]", nargs=-1, required=True)
@click.option(
    "--by", metavar="FIELD", default="", callback=not_empty, help="Compare by: host, gpu, vllm, model, tp …"
)
@click.option(
    "--fail-on",
    "limits",
    metavar="METRIC:PERCENT",
    multiple=True,
    help="Exit status 4 beyond a limit: regression:3%, p99_ttft_ms:5% (several, or by commas).",
)
@click.option("--strict", is_flag=True, help="With --fail-on: fail also where it cannot be ruled out.")
@click.option("--anyway", is_flag=True, help="Compare what is not one population; each ratio says so.")
@click.option("--per-gpu", is_flag=True, help="Throughput for each GPU, where the numbers of GPUs differ.")
@click.option("--metric", "metrics", metavar="KEY", multiple=True, help="Only this metric (several).")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="A table for people, Markdown for a pull request, JSON or CSV for programs.",
)
def compare(
    which: tuple[str, ...],
    by: str,
    limits: tuple[str, ...],
    strict: bool,
    anyway: bool,
    per_gpu: bool,
    metrics: tuple[str, ...],
    form: str,
) -> None:
    """Compare B with the baseline A: what differs around them first, then each ratio with its interval.

    A and B are RUN, RUN/TRIAL, RUN:tp=2,c=64, `latest`, `previous` (the run of the same sweep before the
    other one) or imported/SOURCE[/ROW]. `previous` and imported figures are the baseline wherever they
    stand; A alone is compared with the previous run. Rows of equal configuration and load are pairs.

    Fields to choose rows by: tp dp pp ep units len args variant build configuration vllm host gpu gpus model
    c rate n input output dataset table name.

    What is not one population (model, GPU, number of GPUs, load, client, dtype, own and imported) is
    refused, unless a filter or --by asks for it, or --anyway.

    \b
    fleetbench compare previous latest --fail-on regression:3%
    fleetbench compare latest:tp=2 latest:tp=4 --per-gpu
    fleetbench compare latest --by host
    fleetbench compare latest imported/multi-gpu --anyway

    Exit status 4 when --fail-on finds a regression: an interval that lies wholly beyond the limit, or a row
    that was valid and is not any more. What cannot be ruled out is told, and fails with --strict.
    """
    from fleetbench.report.compare.compared import compare_sides
    from fleetbench.report.compare.failing import judged, metric_named, read_rules
    from fleetbench.report.compare.figures import compared_as
    from fleetbench.report.compare.selectors import field_named, read_selector
    from fleetbench.report.compare.sides import sides_by, two_sides
    from fleetbench.results.store import open_store

    rules = read_rules(limits)
    limited = {compared_as(rule.metric, per_gpu=per_gpu).key for rule in rules if rule.metric is not None}
    only = {compared_as(metric_named(name), per_gpu=per_gpu).key for name in metrics}
    if only and (left_out := limited - only):
        raise UsageError(
            f"--fail-on {left_out.pop()} is left out by --metric", next_step="name it there, too"
        )
    selectors = [read_selector(text) for text in which]
    with open_store(create=False) as store:
        sides = sides_by(store, selectors, field_named(by)) if by else two_sides(store, selectors)
    baseline, *others = sides
    compared = [compare_sides(baseline, other, per_gpu=per_gpu, only=only) for other in others]
    refused = [one for one in compared if one.in_the_way and not anyway]
    outcome = judged(compared, rules) if rules and not refused else None
    _show(compared, outcome, form, anyway=anyway, strict=strict)
    if refused:
        raise _refusal(refused[0])
    if not any(one.rows for one in compared) and not (outcome and outcome.regressions):
        raise FleetbenchError(
            "no row of one side has a counterpart of equal configuration and load on the other",
            cause=compared[0].why_no_pair,
            next_step="name one row of each: RUN/TRIAL, or RUN:tp=2,c=64",
        )
    if outcome is not None:
        _end(outcome, strict=strict)


def _show(
    compared: Sequence[Compared], outcome: Outcome | None, form: str, *, anyway: bool, strict: bool
) -> None:
    from fleetbench.report.columns import Table
    from fleetbench.report.compare.document import document, figure_table
    from fleetbench.report.compare.pull_request import markdown
    from fleetbench.report.compare.text import Heading, Items, blocks
    from fleetbench.report.csv_text import csv_text

    if form == "json":
        console.print_json(document(compared, outcome, anyway=anyway, strict=strict))
    elif form == "csv":
        console.write(csv_text(figure_table(compared, anyway=anyway)))
    elif form == "markdown":
        console.write(markdown(blocks(compared, outcome, anyway=anyway)))
    else:
        for block in blocks(compared, outcome, anyway=anyway):
            if isinstance(block, Heading):
                console.write(f"\n{one_line(block.text)}")
            elif isinstance(block, Table):
                console.print_table(block.columns, block.rows)
            elif isinstance(block, Items):
                for text in block.texts:
                    console.write(f"  {one_line(text, 2000)}")


def _refusal(one: Compared) -> NotPossible:
    there = list(dict.fromkeys(each.sentence for each in one.in_the_way))
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    ways = [way] if (way := _both_sides(one)) else []
    ways += ["--per-gpu"] if any(each.key == "gpus" for each in one.in_the_way) else []
    return NotPossible(
        f"{one.other.label} and {one.baseline.label} are not one population",
        cause="; ".join(there[:3]) + more,
        next_step=f"choose what is alike, {', '.join([*ways, 'or --anyway'])}",
    )


def _both_sides(one: Compared) -> str:
    """What would ask for the differences: the filters that name them on each side; empty where none does."""
    from fleetbench.report.compare.conditions import ASPECTS
    from fleetbench.report.compare.selectors import FIELDS

    asking: dict[str, tuple[str, str]] = {}
    for each in one.in_the_way:
        told = ASPECTS[each.key].told if each.key in ASPECTS else ()
        field = next((name for name in told if name in FIELDS), "")
        if not field:
            return ""
        asking.setdefault(field, (each.one, each.other))
    one_side, other = (
        ",".join(f"{field}={_typed(values[side])}" for field, values in asking.items()) for side in (0, 1)
    )
    return f"or ask for it on both sides, beside other filters (…:{one_side} and …:{other})"


def _typed(value: str) -> str:
    word = {"no limit": "none", "all at once": "none"}.get(value, value)
    return f"'{word}'" if " " in word else word


def _end(outcome: Outcome, *, strict: bool) -> None:
    from fleetbench.report.compare.text import counted_comparisons

    lost, unclear = outcome.regressions, outcome.unclear
    if not outcome.judged:
        raise FleetbenchError(
            "--fail-on has nothing to judge",
            cause="no row of the baseline is valid and has the metric",
            next_step="compare with another baseline",
        )
    if outcome.failed(strict=strict):
        found = (*lost, *(unclear if strict else ()))
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        what = f"{len(lost)} regression{'s' if len(lost) != 1 else ''}"
        raise Regression(
            f"{what}, {len(unclear)} not ruled out, of {counted_comparisons(outcome.judged)}",
            cause=f"{found[0].sentence}{more}",
            next_step="--format json names each",
        )
    if unclear:
        console.progress(
            f"compare: no regression shown; {len(unclear)} of {outcome.judged} cannot be ruled out"
            " (more repeats or starts would tell; --strict fails on them)"
        )

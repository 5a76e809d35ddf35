"""A run in a few lines of Markdown, for a pull request or a wiki. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fleetbench.model import TrialState
from fleetbench.report.finding import finding, headlines
from fleetbench.report.markdown_text import escaped, table
from fleetbench.report.summary import Report
from fleetbench.report.terminal import terminal_table


def short_markdown(report: Report) -> str:
    """Return what was measured, the table of all configurations, what the numbers say, and what did not work.

    Nothing else: no images, no files. `fleetbench report` has the whole report.
    """
    return "\n\n".join(filter(None, _parts(report))) + "\n"


def _parts(report: Report) -> Iterator[str]:
    run = report.run
    yield f"### {escaped(run.repo or run.model)}, {escaped(run.created_at[:10])}"
    yield escaped("; ".join(_about(report)))
    shown = terminal_table(report)
    yield table(shown.columns, shown.rows)
    yield (
        "\n".join(f"- {escaped(finding(report, metric), 600)}" for metric in headlines(report))
        or "Nothing valid was measured."
    )
    yield "\n".join(f"- {line}" for line in _left_out(report))
    yield f"`{run.id}`, {len(report.rows)} rows, {sum(row.valid for row in report.rows)} of them valid."


def _about(report: Report) -> Iterator[str]:
    run = report.run
    gpus = sorted({trial.gpu_name for trial in report.trials if trial.gpu_name})
    versions = sorted({trial.vllm_version for trial in report.trials if trial.vllm_version})
    yield f"hosts {', '.join(run.hosts)}"
    if gpus:
        yield ", ".join(gpus)
    if versions:
        yield f"vLLM {', '.join(versions)}"
    if len(report.workloads) == 1:
        yield report.workloads[0].label
    if not run.ended_at:
        yield f"not over: {run.state.value}"


def _left_out(report: Report) -> Iterator[str]:
    """Each trial that has no number, once, with its cause; those not tried of one cause together."""
    names = {row.trial.number: row.name for row in report.rows}
    causes: dict[tuple[str, str], list[str]] = {}
    for trial in report.trials:
        if trial.failure is not None and trial.state is not TrialState.MEASURED:
            causes.setdefault((trial.state.value, trial.failure.cause), []).append(names[trial.number])
    for (state, cause), which in causes.items():
        yield f"{escaped(', '.join(which))}: {state}, {escaped(cause)}"

"""`fleetbench explain`: why did it fail? A log in, class, cause, evidence and advice out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fleetbench import console
from fleetbench.commands.nearest import file_step
from fleetbench.errors import Unreadable, one_line
from fleetbench.failures import Diagnosis

# The journal of one start is a few MB; beyond this somebody gave the journal of the whole host.
_LARGEST_BYTES = 256 * 1024 * 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="A table for people, JSON for programs.",
)
@click.option(
    "--kernel-log",
    "kernel_log",
    metavar="FILE",
    default="",
    help="The kernel's log of the same time (journalctl -k): memory killer, SELinux, GPU errors.",
)
@click.pass_context
def explain(context: click.Context, file: str, form: str, kernel_log: str) -> None:
    """Name the cause of a failure from the log of a server, an installer or a bench client.

    Give the whole log of one start, stdout and stderr together: the last lines only say that something
    failed. Exit status 0 when a class was found, 1 when not (with the reason: the cause is not in this text,
    the error is of no known class, or nothing failed).

    \b
    journalctl -u vllm-8001 -b -o cat | fleetbench explain -
    fleetbench explain server.log --kernel-log kernel.log --format json
    """
    from fleetbench.failures import classify

    if file == "-" == kernel_log:
        raise click.UsageError("standard input can be only one of the two logs")
    diagnosis = classify(_read(file), kernel_log=_read(kernel_log) if kernel_log else "")
    if form == "json":
        console.print_json(as_object(diagnosis))
    else:
        console.write("\n".join(f"{name:<12} {value}" for name, value in as_rows(diagnosis)))
    context.exit(0 if diagnosis.failure is not None else 1)


def as_object(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis as the JSON object of `--format json`; `class` is null when abstaining."""
    failure = diagnosis.failure
    return {
        "class": diagnosis.kind,
        "cause": failure.cause if failure else None,
        "evidence": diagnosis.evidence or None,
        "advice": diagnosis.next_step,
        "retryable": failure.retryable if failure else False,
        "reason": diagnosis.reason or None,
        "line": diagnosis.line,
        "processes": list(diagnosis.processes),
        "also": list(diagnosis.also),
        "restarts": diagnosis.restarts,
    }


def as_rows(diagnosis: Diagnosis) -> list[tuple[str, object]]:
    """Return a diagnosis as rows of name and value; what is not known has no row."""
    known = as_object(diagnosis)
    rows: list[tuple[str, object]] = [("class", known["class"] or "none")]
    rows += [(name, known[name]) for name in ("cause", "reason", "evidence", "line", "advice") if known[name]]
    if diagnosis.failure is not None:
        rows.append(("retryable", "yes" if known["retryable"] else "no"))
    if diagnosis.processes:
        rows.append(("reported by", ", ".join(diagnosis.processes)))
    if diagnosis.also:
        rows.append(("also seen", ", ".join(diagnosis.also)))
    if diagnosis.restarts:
        rows.append(("restarts", diagnosis.restarts))
    return rows


def _read(name: str) -> str:
    try:
        content = sys.stdin.buffer.read(_LARGEST_BYTES + 1) if name == "-" else _head(Path(name))
    except OSError as exc:
        raise Unreadable(
            f"{one_line(name)}: cannot be read",
            cause=exc.strerror or str(exc),
            next_step=file_step(name, "give a file with the log, or - for standard input"),
        ) from exc
    if len(content) > _LARGEST_BYTES:
        raise Unreadable(
            f"{one_line(name)}: larger than {_LARGEST_BYTES // 2**20} MiB",
            next_step="give the log of one start: journalctl -u UNIT -b, or _SYSTEMD_INVOCATION_ID=…",
        )
    return content.decode("utf-16" if content.startswith(_UTF16) else "utf-8", "replace")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_BYTES + 1)

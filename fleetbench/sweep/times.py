"""How long the trials of a run are expected to take, and more exactly so with each that is measured."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fleetbench.model import Step
from fleetbench.plan.durations import Expected, Seen, Subject, expected
from fleetbench.plan.roofline import Guess, Machine, Shape
from fleetbench.results.rows import Json, RunRow, TrialRow
from fleetbench.results.store import Store
from fleetbench.sweep.history import kinds_of, seen_before, seen_in


class Times:
    """Expected durations of one run. Safe to use from several threads."""

    def __init__(
        self, store: Store, run: RunRow, *, warmup: bool = True, arguments: tuple[str, ...] = ()
    ) -> None:
        """`arguments` are those that the model gives each of its servers."""
        self._store, self._run = store, run
        self._warmup, self._arguments = warmup, arguments
        self._kinds = kinds_of(run)
        self._guesses = guesses_of(run.arguments)
        self._before = seen_before(store, run.model, set(self._kinds.values()), but=run.id)
        self._lock = threading.Lock()
        self._seen: tuple[Seen, ...] = ()
        self._known: dict[int, Expected] = {}
        self.learn()

    def learn(self) -> None:
        """Take in what this run has measured by now."""
        seen = self._before + tuple(seen_in(self._store, self._run))
        with self._lock:
            self._seen = seen
            self._known = {}

    def of(self, row: TrialRow) -> Expected:
        """Return the steps of a trial with their expected seconds."""
        with self._lock:
            if row.number not in self._known:
                kind = self._kinds.get(row.host, "")
                subject = Subject(
                    model=self._run.model,
                    kind=kind,
                    config=row.config,
                    workloads=row.workloads,
                    repeats=row.repeats,
                    warmup=self._warmup,
                )
                guess = self._guesses.get(kind) or unknown()
                self._known[row.number] = expected(subject, self._seen, guess, arguments=self._arguments)
            return self._known[row.number]

    def seconds(self, row: TrialRow) -> float:
        """Return how long a trial is expected to take in all."""
        return self.of(row).seconds

    def by_step(self, number: int) -> Mapping[Step, float]:
        """Return the expected seconds of each step of a trial; empty for one that is not there."""
        rows = [row for row in self._store.trials(self._run.id) if row.number == number]
        return self.of(rows[0]).by_step() if rows else {}


def unknown() -> Guess:
    """Return what to go by when nothing is known: a usual model on a usual GPU."""
    return Guess(shape=Shape.of(None), machine=Machine.usual())


def as_arguments(guesses: Mapping[str, Guess]) -> dict[str, Json]:
    """Return the guesses of a run's kinds of host as its row keeps them: a resumed run asks no host."""
    return {
        kind: {"shape": asdict(guess.shape), "machine": asdict(guess.machine)}
        for kind, guess in guesses.items()
    }


def guesses_of(arguments: Mapping[str, Json]) -> dict[str, Guess]:
    """Return the guesses that a run's row keeps; those that another version wrote are left out."""
    kept = arguments.get("guesses")
    found: dict[str, Guess] = {}
    for kind, guess in (kept if isinstance(kept, dict) else {}).items():
        with contextlib.suppress(TypeError, KeyError):
            parts: Any = guess
            shape, machine = Shape(**parts["shape"]), Machine(**parts["machine"])
            found[kind] = Guess(shape=shape, machine=machine)
    return found

"""Which entries belong into one chart: those of one source and model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fleetbench.errors import one_line
from fleetbench.model import Workload
from fleetbench.report.charts.frame import slug
from fleetbench.report.entry import Entry, ranked, traffic
from fleetbench.report.gpu_names import short_gpus
from fleetbench.report.metrics import OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The entries of one source and model; `slug` tells it apart in the names of files."""

    source: str
    model: str
    entries: tuple[Entry, ...]
    slug: str = ""

    @property
    def about(self) -> str:
        """What every chart says at the end of its subtitle."""
        runs = tuple(dict.fromkeys(entry.run or entry.source for entry in self.entries))
        source = f"{len(runs)} runs" if len(runs) > 1 else f"run {runs[0]}"
        source = f"imported from {self.source}" if self.entries[0].imported else source
        return one_line(", ".join(filter(None, (short_model(self.model), source))), 100)

    @property
    def loads(self) -> dict[str, tuple[Entry, ...]]:
        """The entries by load, in the order in which the loads first appear."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.load, []).append(entry)
        return {load: tuple(entries) for load, entries in found.items()}

    @property
    def busiest(self) -> str:
        """The load under which the most was put out, of all valid entries."""
        loads = self.loads

        def most(load: str) -> float:
            return max((entry.value(OUTPUT) or 0 for entry in ranked(loads[load])), default=0.0)

        return max(loads, key=most)

    def by_traffic(self) -> list[tuple[Entry, ...]]:
        """Return the entries that were sent the same requests, whatever the load was."""
        found: dict[Workload, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(traffic(entry.workload), []).append(entry)
        return [tuple(group) for group in found.values()]

    def key(self, kind: str, number: int = 1) -> str:
        """Return the key of a chart; `number`: of several charts of a kind."""
        return "-".join(filter(None, (kind, self.slug, str(number) if number > 1 else "")))


def populations(entries: Iterable[Entry]) -> Iterator[Population]:
    """Yield the entries of each source and model, in the order in which they first appear."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.source, entry.model), []).append(entry)
    taken: set[str] = set()
    for number, ((source, model), group) in enumerate(found.items(), start=1):
        name = slug(short_model(model)) if len(found) > 1 else ""
        if name in taken or (len(found) > 1 and not name):
            name = f"{name or 'model'}-{number}"
        taken.add(name)
        yield Population(source=source, model=model, entries=tuple(group), slug=name)


def short_model(model: str) -> str:
    """Return a model's name without its owner."""
    return one_line(model.rpartition("/")[2] or model, 60)


def line_name(entry: Entry, population: Population, *, context: bool = True) -> str:
    """Return what an entry's line is called: its configuration, without its context length if that varies.

    The GPU is named where there are several kinds, the series where there is one; an imported row is called
    what its source calls it.
    """
    if entry.imported:
        parts = [entry.name, f"pp={entry.config.pp}" if entry.config.pp > 1 else ""]
        parts += [f"len={entry.config.max_model_len}"] if context and entry.config.max_model_len else []
        return one_line(" ".join(filter(None, parts)), 60)
    config = entry.config if context else replace(entry.config, max_model_len=None)
    gpus = short_gpus(found.gpu for found in population.entries)
    gpu = gpus[entry.gpu] if len(gpus) > 2 else ""
    return one_line(" ".join(filter(None, (gpu, entry.series, config.label))), 110)

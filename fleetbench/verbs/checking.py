"""What `invoke sweep --check` prints: the trials, what the planner says of each, what would be borrowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleetbench import console
from fleetbench.errors import NotPossible
from fleetbench.model import GpuSet, Host, Trial
from fleetbench.plan.durations import in_words
from fleetbench.plan.gpu_sets import gpu_sets
from fleetbench.plan.schedule import Place
from fleetbench.results.store import Store
from fleetbench.sweep.borrowable import refuse_unreturnable, to_borrow
from fleetbench.verbs.common import Options
from fleetbench.verbs.forecast import Forecast, restoring_s, show_steps, show_total
from fleetbench.verbs.planning import Question, Survey, refuse_unready, tell


def show(
    store: Store,
    surveys: Sequence[Survey],
    found: Sequence[Trial],
    question: Question,
    forecast: Forecast,
    options: Options,
    *,
    client: Host | None,
    steps: bool,
) -> None:
    """Print the trials (or the steps of those that are tried), their verdicts, and the units to borrow."""
    tried = [trial for trial in found if trial.skipped is None]
    tell(surveys, ())
    restoring: dict[str, float] = {}
    for one in surveys:
        used = [trial for trial in tried if trial.host == one.host.name]
        gpus = GpuSet(tuple(sorted({index for trial in used for index in trial.gpus.indices})))
        lent = to_borrow(one.facts, gpus)
        restoring[one.host.name] = restoring_s(store, forecast, one.host.name, lent)
        for unit in lent:
            console.progress(f"would borrow the GPUs of {unit.name} (GPU {unit.gpus})", host=one.host.name)
        try:
            refuse_unreturnable(one.host, lent, one.facts)
        except NotPossible as exc:
            console.progress(f"would be refused: {exc.what} ({exc.cause}; {exc.next_step})", host=exc.host)
    try:
        refuse_unready(surveys, found, question, client)
    except NotPossible as exc:
        console.progress(f"would be refused: {exc.what} ({exc.next_step})", host=exc.host)
    if steps:
        show_steps(tried, forecast, form=options.form)
    else:
        columns = _columns({one.host.name: one.place for one in surveys}, forecast)
        rows = [tuple(cell(trial) for cell in columns.values()) for trial in found]
        console.print_rows(tuple(columns), rows, form=options.form)
    for workload in question.sweep.workloads:
        console.progress(f"workload: {workload.label}")
    others = "" if len(tried) == len(found) else "; --try-all tries the others, too"
    console.progress(f"{len(tried)} of {len(found)} trials would be tried{others}")
    show_total(tried, forecast, restoring)


def _columns(places: Mapping[str, Place], forecast: Forecast) -> Mapping[str, Callable[[Trial], object]]:
    """The table: a column is its name and what it says of a trial."""
    return {
        "trial": lambda trial: trial.number,
        "host": lambda trial: trial.host,
        "gpus": lambda trial: _gpus(trial, places[trial.host]),
        "port": _ports,
        "config": lambda trial: trial.config.label,
        "repeats": lambda trial: trial.repeats,
        "time": lambda trial: in_words(forecast.of_trial(trial).seconds) if trial.skipped is None else None,
        "verdict": _verdict,
        "weights GiB": lambda trial: trial.predicted.get("weights_gib"),
        "KV tokens": lambda trial: trial.predicted.get("kv_tokens_total"),
        "requests": lambda trial: trial.predicted.get("sequences_total"),
        "reason": _reason,
    }


def _gpus(trial: Trial, place: Place) -> str:
    """The set of each unit; of one that is not tried none."""
    if trial.skipped is not None:
        return ""
    return " + ".join(map(str, gpu_sets(trial.config, place.gpus, place.topology)))


def _ports(trial: Trial) -> str:
    """The port that is measured, and of several servers theirs behind it."""
    return " ".join([str(trial.port), *(["→"] if trial.member_ports else []), *map(str, trial.member_ports)])


def _verdict(trial: Trial) -> str:
    verdict = str(trial.predicted.get("verdict", "not judged"))
    return verdict if trial.skipped is None else f"{verdict}, skipped"


def _reason(trial: Trial) -> str:
    reasons = trial.predicted.get("reasons")
    return str(reasons[0]) if isinstance(reasons, list) and reasons else ""

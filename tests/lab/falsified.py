"""Measurements that are wrong on purpose: one way each, by a server or client whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from known_host import RECORD, VERSION_FILE, WRONG_FILE, install_known, model_toml
from standin_host import Fleet, fleet_of

from fleetbench.results.rows import Finding, MeasurementKind, MeasurementRow, TrialRow

HOST = "lab-01"
# What is said of sound runs of this size on a busy machine, too: no alarms.
REMARKS = {"percentile-samples", "client-bound", "repeats-apart"}
# A request of the schedule lasts 0.03 + 15 × 0.005 = 0.105 s; twenty waves of four take 2.1 s.
PACE: Mapping[str, float | str] = {"ttft_s": 0.03, "token_s": 0.005}
MODELS: Mapping[str, Mapping[str, float | str]] = {
    "clean": {},
    "all-fail": {"fail_every": 1},
    "some-fail": {"fail_every": 5},
    "stalling": {"stall_after": 40, "stall_s": 10},
    "narrow": {"tp": 1},
    "masked": {"model": "known/another"},
    "eager": {"eager": 1},
    "caching": {"cache": 1},
    "miscounting": {"counted": 0.8},
}
SWEEPS = """
[sweeps.one]
parallel = [{ tp = 2 }]
repeats = 1
workload = { num_prompts = 80, max_concurrency = 4, input_len = 32, output_len = 16 }

[sweeps.long]
parallel = [{ tp = 1 }]
repeats = 1
workload = { num_prompts = 320, max_concurrency = 4, input_len = 32, output_len = 16 }

[sweeps.two]
parallel = [{ tp = 1, max_model_len = 96 }, { tp = 1, max_model_len = 128 }]
repeats = 1
workload = { num_prompts = 80, max_concurrency = 4, input_len = 32, output_len = 16 }
"""


@contextmanager
def known_fleet(place: Path) -> Iterator[Fleet]:
    """One host whose server and client are known, with a model for each way to be wrong."""
    with fleet_of(1, place, "tk") as fleet:
        install_known(fleet.settings, HOST)
        models = "".join(
            model_toml(name, f"known/{name}", PACE | settings) for name, settings in MODELS.items()
        )
        (fleet.inventory / "models.toml").write_text(models, "utf-8")
        (fleet.inventory / "sweeps.toml").write_text(SWEEPS, "utf-8")
        yield fleet


def clean(fleet: Fleet) -> None:
    """Take away what a test left, the wrongs among it."""
    fleet.clean()
    fleet.on(HOST, f"rm -f {RECORD} {VERSION_FILE} {WRONG_FILE}")


def sweep(fleet: Fleet, model: str, name: str = "one") -> None:
    """Sweep a model; the sweep itself ends well, whatever is wrong with its numbers."""
    done = fleet.invoke("sweep", "--model", model, "--hosts", HOST, "--sweep", name)
    assert done.status == 0, done.err


def measured(fleet: Fleet) -> tuple[MeasurementRow, ...]:
    """The repeats of the newest run."""
    with fleet.store() as store:
        rows = store.measurements(store.run("latest").id)
    return tuple(row for row in rows if row.kind is MeasurementKind.MEASURE)


def trials(fleet: Fleet) -> tuple[TrialRow, ...]:
    """The trials of the newest run."""
    with fleet.store() as store:
        return store.trials(store.run("latest").id)


def finding(row: MeasurementRow, rule: str) -> Finding:
    """The finding of a rule on a row, which must have one."""
    found = [one for one in row.findings if one.rule == rule]
    assert found, f"{rule} is not among {[(one.rule, one.text) for one in row.findings]}"
    return found[0]

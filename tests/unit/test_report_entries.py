"""One noun for own and imported figures: what an entry takes from each, and what it never mixes."""

from __future__ import annotations

from dataclasses import replace

from imported_figures import published
from report_rows import CLOSED, TOO_LITTLE_MEMORY, measurement, repeats, result, run, trial

from fleetbench.model import Config, TrialState
from fleetbench.report.entry import Entry, Status, of_load, ranked
from fleetbench.report.imported_entries import entries_of_import
from fleetbench.report.metrics import OUTPUT, PER_GPU, PER_JOULE, PER_REQUEST, PER_USER, PROMPT
from fleetbench.report.own_entries import entries_of_run
from fleetbench.report.summary import summarise
from fleetbench.results.rows import Verdict


def own(*trials: object, rows: list[object] | None = None) -> tuple[Entry, ...]:
    """Entries of a report."""
    return entries_of_run(summarise(run(), trials, rows or []))  # type: ignore[arg-type]


def test_every_trial_is_an_entry_whatever_became_of_it() -> None:
    found = own(
        trial(1, Config(tp=1), state=TrialState.FAILED, failure=TOO_LITTLE_MEMORY),
        trial(2, Config(tp=2), gpu_name="NVIDIA H200"),
        trial(3, Config(dp=2), state=TrialState.IMPLIED, failure=TOO_LITTLE_MEMORY),
        trial(4, Config(tp=4)),
        rows=[
            *repeats(2, 1000.0, 1010.0, 990.0),
            measurement(4, 1, result(50.0), Verdict.SUSPECT, "3 waves, of 10 that it takes"),
        ],
    )
    assert [(entry.name, entry.status) for entry in found] == [
        ("tp=1 dp=1", Status.FAILED),
        ("tp=2 dp=1", Status.VALID),
        ("tp=1 dp=2", Status.IMPLIED),
        ("tp=4 dp=1", Status.SUSPECT),
    ]
    failed, valid, _, suspect = found
    assert (failed.cause, failed.advice) == ("CUDA out of memory", "use tp=2")
    assert suspect.cause == "3 waves, of 10 that it takes"
    assert suspect.value(OUTPUT) == 50
    assert (valid.gpu, valid.gpus, valid.model, valid.repeats) == ("NVIDIA H200", 2, "org/tiny", 3)
    assert valid.value(OUTPUT) == 1000
    assert valid.value(PER_GPU) == 500
    assert valid.value(PER_USER) == 100  # 1e4 / 1000 ms for each token
    assert (valid.completed, valid.failed) == (3 * 640, 0)
    assert [entry.name for entry in ranked(found)] == ["tp=2 dp=1"]


def test_starts_of_one_configuration_are_one_entry_and_other_gpus_another() -> None:
    config = Config(tp=2)
    found = own(
        trial(1, config, gpu_name="NVIDIA H100"),
        trial(2, config, gpu_name="NVIDIA H100"),
        trial(3, config, gpu_name="NVIDIA H200"),
        rows=[*repeats(1, 1000.0, 1010.0), *repeats(2, 900.0, 910.0), *repeats(3, 1500.0, 1510.0)],
    )
    assert [(entry.gpu, entry.repeats, entry.trial) for entry in found] == [
        ("NVIDIA H100", 4, 1),
        ("NVIDIA H200", 2, 3),
    ]
    spread = found[0].spread(OUTPUT)
    assert spread is not None
    assert spread.count == 4
    assert len({seen.start for seen in found[0].observations[OUTPUT.key]}) == 2


def test_tokens_for_a_joule_come_from_measured_energy_alone() -> None:
    measured, unknown = (
        replace(row, telemetry={"gpu_energy_j": energy})
        for row, energy in zip(repeats(1, 1000.0, 1000.0)[1:], (8192.0, None), strict=True)
    )
    on_gpu = trial(1, Config(), gpu_name="NVIDIA H200")
    found = own(on_gpu, rows=[measured])[0]
    assert found.value(PER_JOULE) == 640 * 128 / 8192
    assert own(on_gpu, rows=[unknown])[0].value(PER_JOULE) is None


def test_gpus_that_had_no_part_in_it_give_an_entry_no_energy_power_or_rate_of_a_gpu() -> None:
    """A build for processors on a host with GPUs: they are sampled, and name nothing that was measured."""
    sampled = {
        "gpu_energy_j": 8192.0,
        "gpu_power_w_mean": 574.0,
        "kv_usage_max": 0.5,
        "bmc_power_w_mean": 900,
    }
    rows = [replace(row, telemetry=sampled) for row in repeats(1, 1000.0, 1000.0)]
    (found,) = own(trial(1, Config(tp=2)), rows=rows)
    assert (found.gpu, found.gpus, found.on_gpus) == ("", 2, False)
    assert not {PER_GPU.key, PER_JOULE.key} & {*found.values, *found.observations}
    assert dict(found.telemetry) == {"kv_usage_max": 0.5, "bmc_power_w_mean": 900.0}
    (other,) = own(trial(1, Config(tp=2), gpu_name="NVIDIA H200"), rows=rows)
    assert (other.value(PER_GPU), other.on_gpus) == (500.0, True)
    assert other.telemetry["gpu_power_w_mean"] == 574.0


def test_clients_of_two_kinds_are_not_paired_by_seed() -> None:
    rows = repeats(1, 1000.0, 1010.0, 990.0) + repeats(2, 1100.0, 1111.0, 1089.0)
    one, other = own(trial(1, Config()), trial(2, Config(tp=2)), rows=rows)
    same = other.against(one, OUTPUT)
    assert same is not None
    assert same.method == "paired by seed"
    other_client = replace(one, client="rust 0.33.0").against(replace(other, client="python 0.32.0"), OUTPUT)
    assert other_client is not None
    assert other_client.method == "Welch"


def test_an_imported_row_has_the_same_names() -> None:
    source, rows = published("multi-gpu-report.toml")
    entries = entries_of_import(source, rows)
    assert len(entries) == len(rows)
    found = next(entry for entry in entries if entry.table.startswith("4.1.1") and entry.name == "gpu-medium")
    assert (found.gpu, found.gpus, found.config.tp) == ("NVIDIA V100 PCIe 16GB", 2, 2)
    assert (found.value(PROMPT), found.value(OUTPUT), found.value(PER_REQUEST)) == (39.73, 552.69, 61.43)
    assert found.status is Status.SUSPECT
    assert found.cause
    assert found.load == "one fixed prompt n=100 c=10"
    assert len(of_load(entries)) > 4
    assert not ranked(entries)  # none of them is valid


def test_the_load_of_an_own_entry_is_that_of_its_workload() -> None:
    assert own(trial(1, Config()), rows=repeats(1, 10.0))[0].load == CLOSED.label  # type: ignore[arg-type]


def test_own_workloads_of_one_label_are_loads_of_their_own() -> None:
    """Greedy and sampled answers, and prompts of two kinds: a best one of all four would be of none."""
    hot = replace(CLOSED, temperature=0.7)
    uneven = replace(CLOSED, extra_args=("--burstiness", "0.5"))
    loads = (CLOSED, hot, uneven, replace(CLOSED, num_prompts=10))
    trials = [trial(1, Config(), workloads=loads), trial(2, Config(tp=2), workloads=loads)]
    rows = [
        row
        for number in (1, 2)
        for place in range(len(loads))
        for row in repeats(number, 100.0 * (place + 1), workload_index=place)
    ]
    entries = own(*trials, rows=rows)
    said = CLOSED.label
    assert [entry.load for entry in entries[:4]] == [
        f"{said} temperature=0",
        f"{said} temperature=0.7",
        f"{said} temperature=0 --burstiness 0.5",
        loads[3].label,
    ]
    assert [len(group) for group in of_load(entries).values()] == [2, 2, 2, 2]


def test_imported_rates_are_loads_of_their_own() -> None:
    source, rows = published("multi-gpu-report.toml")
    given = [
        replace(rows[0], row=replace(rows[0].row, result=replace(rows[0].row.result, request_rate=rate)))
        for rate in (2.0, 8.0, "inf", None)
    ]
    loads = [entry.load for entry in entries_of_import(source, given)]
    assert loads[0] == "one fixed prompt n=100 c=10 2/s"
    assert loads == [f"{loads[2]} 2/s", f"{loads[2]} 8/s", loads[2], loads[2]]

"""What is sampled beside a measurement on real hosts: the truth, over interruptions, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from invoked import until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.results.rows import MeasurementKind, MeasurementRow
from fleetbench.telemetry import samples

BENCH = ("bench", "--hosts", "lab-01", "--input-len", "8", "--output-len", "8", "--concurrency", "1")
# 60 requests of 8 tokens, 0.05 s apart: three seconds.
LONG = (*BENCH, "--num-prompts", "60", "--no-warmup", "--repeats", "1")


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A service on port 8001 of the first host, the same for all tests that leave it as it was."""
    if booted_fleet.model_on("lab-01") != "standin/good":
        booted_fleet.deploy("good")
    yield booted_fleet
    booted_fleet.clean(keep_services=True)


def measured(fleet: Fleet) -> tuple[MeasurementRow, set[str]]:
    """The one repeat of the newest run, and the names of its files."""
    with fleet.store() as store:
        run = store.run("latest")
        (row,) = (one for one in store.measurements(run.id) if one.kind is MeasurementKind.MEASURE)
        return row, {path.name for path in (store.directory(run.id) / row.directory).iterdir()}


def number(row: MeasurementRow, name: str) -> float:
    value = row.telemetry[name]
    assert isinstance(value, int | float), (name, value)
    return value


def test_samples_say_what_the_client_says_and_nothing_is_left(served: Fleet) -> None:
    done = served.invoke(*LONG)
    assert done.status == 0, done.err
    row, files = measured(served)
    assert row.result is not None

    assert files >= {samples.METRICS, samples.HOST, samples.GPUS, samples.ABOUT}
    assert "problem" not in row.telemetry
    assert number(row, "samples") >= 2
    assert number(row, "missed_samples") <= 1
    assert row.telemetry["window_s"] == pytest.approx(row.result.duration, abs=1e-5)
    assert row.telemetry["generation_tps"] == pytest.approx(row.result.output_throughput, rel=1e-3)
    assert row.telemetry["server_requests"] == 60
    assert (row.telemetry["server_prompt_tokens"], row.telemetry["server_generation_tokens"]) == (480, 480)
    assert (row.telemetry["waiting_max"], row.telemetry["prefix_hit_share"]) == (0, 0)
    for who in ("client", "server"):
        assert 0 < number(row, f"{who}_cpu_cores_mean") <= number(row, f"{who}_cpu_cores_max")
    assert 0 < number(row, "host_cpu_share_mean") <= 1
    assert row.telemetry["clock_offset_ms"] == 0
    # The lab's card is at its clock and holds its server's memory; the sweep's other cards are not asked.
    assert (row.telemetry["gpu_util_mean"], row.telemetry["gpu_memory_mib_max"]) == (95, 60_000)
    assert row.telemetry["gpu_sm_mhz_mean"] == row.telemetry["gpu_sm_mhz_max_possible"] == 1980
    assert (row.telemetry["gpu_throttled_share"], row.telemetry["gpu_ecc"]) == (0, 0)
    assert served.left("lab-01") == ""


def test_a_client_on_another_host_has_its_processor_time_from_there(served: Fleet) -> None:
    done = served.invoke(*LONG, "--client", "lab-02")
    assert done.status == 0, done.err
    row, files = measured(served)

    assert samples.CLIENT in files
    assert number(row, "client_cpu_cores_mean") > 0
    assert number(row, "server_cpu_cores_mean") > 0
    # One machine, one clock: what is left of the difference is the way to the hosts and back.
    assert abs(number(row, "clock_offset_ms")) < 250
    assert [served.left(name) for name in served.names] == ["", ""]


def test_a_controller_that_was_killed_finds_the_samples_again(served: Fleet) -> None:
    bench = served.begin(*LONG)
    bench.wait_for("requests")
    bench.kill()
    until(lambda: "exit_status" in served.on("lab-01", "ls /opt/vllm/runs/*/out"))
    again = served.invoke(*LONG)
    assert "continuing run" in again.err
    row, _ = measured(served)

    assert number(row, "samples") >= 2
    # The controller that came back has asked for a completion, to see that the server still answers.
    assert row.telemetry["server_requests"] in (60, 61)
    assert row.telemetry["generation_tps"] == pytest.approx(
        row.result and row.result.output_throughput, rel=1e-3
    )
    assert served.left("lab-01") == ""


def test_a_poller_that_is_killed_costs_samples_and_no_measurement(served: Fleet) -> None:
    bench = served.begin(*LONG)
    bench.wait_for("requests")
    served.on("lab-01", "systemctl kill -s KILL 'fleetbench-poll-*'")
    done = bench.done()
    assert done.status == 0, done.err
    row, _ = measured(served)

    assert row.telemetry["server_requests"] == 60
    assert (row.verdict, row.result and row.result.completed) == ("valid", 60)
    assert served.left("lab-01") == ""


def test_a_poller_ends_by_itself_when_nobody_comes_back(served: Fleet) -> None:
    bench = served.begin(*LONG)
    bench.wait_for("requests")
    assert "fleetbench-poll-" in served.left("lab-01")
    bench.kill()
    polls = "systemctl list-units --plain --no-legend 'fleetbench-poll-*'"
    until(lambda: served.on("lab-01", polls) == "")


def test_a_card_that_is_held_back_says_so(fleet: Fleet) -> None:
    labs.gpus("lab-01", "4x H100 mhz=600 throttle=40", settings=fleet.settings)
    fleet.deploy("good")
    done = fleet.invoke(*LONG)
    assert done.status == 0, done.err
    row, _ = measured(fleet)

    assert row.telemetry["gpu_throttled_share"] == 1.0
    assert row.telemetry["gpu_throttle_reasons"] == "hardware thermal slowdown"
    assert (row.telemetry["gpu_sm_mhz_max_possible"], row.telemetry["gpu_sm_mhz_min"]) == (1980, 600)


def test_a_sweep_samples_all_cards_of_a_trial_and_leaves_nothing(fleet: Fleet) -> None:
    done = fleet.invoke("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "long")
    assert done.status == 0, done.err
    row, _ = measured(fleet)

    assert row.telemetry["server_requests"] == 60
    assert number(row, "gpu_power_w_mean") > 700, "two cards of 700 W"
    assert fleet.left("lab-01") == ""


def test_a_server_without_metrics_is_measured_and_the_rest_is_sampled(fleet: Fleet) -> None:
    fleet.deploy("mute")
    done = fleet.invoke(*LONG)
    assert done.status == 0, done.err
    row, _ = measured(fleet)

    assert "server_requests" not in row.telemetry
    assert "generation_tps" not in row.telemetry
    assert fleet.left("lab-01") == ""

"""Files of samples to figures: the window, rates, gauges, gaps, stalls, GPUs, processors, and garbage."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_run import EPOCH, GPU_HEAD, RAMP, clock, exposition, figures, gpu, metrics, packed, usage
from shared_material import read, shared

from fleetbench.telemetry import hardware, samples
from fleetbench.telemetry.exposition import snapshot
from fleetbench.telemetry.servers import counted
from fleetbench.telemetry.summary import AFTER, BEFORE, FILES, summary
from fleetbench.telemetry.window import window


def test_rates_and_gauges_are_those_of_the_clients_own_window() -> None:
    seen = figures()

    assert (seen["window_from"], seen["window_s"]) == ("client", 10.0)
    assert (seen["samples"], seen["missed_samples"]) == (11, 0)
    assert (seen["prompt_tps"], seen["generation_tps"]) == (100.0, 50.0)
    # 4 requests for 9 of 11 samples; 2 that wait for 4 of them.
    assert seen["running_mean"] == pytest.approx(36 / 11)
    assert (seen["running_max"], seen["waiting_max"]) == (4, 2)
    assert seen["waiting_mean"] == pytest.approx(8 / 11)
    assert seen["kv_usage_max"] == pytest.approx(0.95)
    # 500 tokens in 20 seconds that requests were there.
    assert (seen["request_generation_tps"], seen["request_prompt_tps"]) == (25.0, 50.0)
    assert (seen["server_requests"], seen["server_generation_tokens"], seen["finished_length"]) == (
        10,
        500,
        10,
    )
    assert seen["e2e_s_mean"] == 2.0


def test_a_window_between_two_samples_loses_no_token() -> None:
    seen = figures(start=9.6, duration=10.8)

    assert seen["generation_tps"] == pytest.approx(500 / 10.8)


def test_a_missed_scrape_is_a_gap_and_no_zero() -> None:
    ramp: dict[int, str | None] = {**RAMP, 12: None, 13: None, 14: None}
    seen = figures(ramp)

    assert (seen["samples"], seen["missed_samples"]) == (8, 2)
    assert (seen["generation_tps"], seen["running_max"]) == (50.0, 4)
    assert seen["running_mean"] == pytest.approx(24 / 8)


def test_without_the_clients_times_the_servers_counters_tell_the_end() -> None:
    files = {samples.METRICS: packed(metrics(dict(RAMP))), samples.HOST: packed([clock()])}
    seen = summary(files, 9.5)

    assert (seen["window_from"], seen["window_s"], seen["samples"]) == ("server", 9.5, 10)
    assert seen["generation_tps"] == pytest.approx(500 / 9.5, rel=1e-4)


def test_what_a_controller_asks_for_afterwards_is_not_the_clients() -> None:
    """One that comes back after its death wants a completion, while the poller still samples."""
    last = max(RAMP)
    asked = exposition(prompt=2002, generated=1004, done=18, running=0, waiting=0, kv=0.0)
    ramp: dict[int, str | None] = {**RAMP, last + 5: asked, last + 6: asked}
    files = {samples.METRICS: packed(metrics(ramp)), samples.HOST: packed([clock()])}

    assert summary(files, 9.5)["generation_tps"] == pytest.approx(500 / 9.5, rel=1e-4)


def test_start_times_of_another_clock_do_not_place_the_window() -> None:
    """The Rust client counts them from its own start."""
    relative = json.dumps({"start_times": [2.8e-05, 0.1]}).encode()
    ramp = samples.metric_samples(packed(metrics(dict(RAMP))))
    placed = window(relative, 10.0, samples.ClockPair(epoch_s=EPOCH, mono_s=5000.0), 0.0, ramp)

    assert placed is not None
    assert (placed.source, placed.end_s) == ("server", EPOCH + 20)


def test_a_client_host_with_another_clock_is_put_right() -> None:
    """The client's host is 3 s ahead of the server's: the offset, server minus client, is -3 s."""
    seen = figures(
        **{
            samples.CLIENT: packed(
                [clock(ahead_s=3.0), *(usage(3.0 + at, {"client": 0.9 * at}) for at in range(25))]
            ),
            samples.ABOUT: json.dumps({"clock_offset_ms": -3000.0}).encode(),
        }
    )
    assert (seen["window_from"], seen["generation_tps"], seen["samples"]) == ("client", 50.0, 11)
    assert seen["clock_offset_ms"] == -3000.0
    assert seen["client_cpu_cores_mean"] == pytest.approx(0.9)


def test_counters_around_the_measurement_are_exact_and_count_first() -> None:
    seen = figures(
        **{
            BEFORE: f"# fleetbench: attempt 1\n# at\n{exposition(done=7, queries=0, hits=0)}".encode(),
            AFTER: f"# fleetbench: attempt 1\n# at\n{exposition(done=18, queries=200, hits=50)}".encode(),
        }
    )
    assert (seen["server_requests"], seen["prefix_hit_share"]) == (11, 0.25)
    assert seen["generation_tps"] == 50.0


def test_readings_of_two_servers_have_no_difference() -> None:
    readings = {
        BEFORE: f"# fleetbench: attempt 1, invocation a\n{exposition(done=0)}".encode(),
        AFTER: f"# fleetbench: attempt 1, invocation b\n{exposition(done=99)}".encode(),
    }
    assert "server_requests" not in summary(readings, 10.0)


def test_a_reading_that_failed_is_not_a_reading_of_zero() -> None:
    unread = b"# fleetbench: attempt 1\n# at\n# not read: timed out\n"
    assert figures(**{BEFORE: unread, AFTER: unread})["server_requests"] == 10


def test_a_counter_that_began_anew_is_unknown() -> None:
    ramp: dict[int, str | None] = {
        **RAMP,
        **{tick: exposition(generated=3, prompt=2000) for tick in range(19, 25)},
    }
    seen = figures(ramp)

    assert "generation_tps" not in seen
    assert seen["prompt_tps"] == 100.0


def test_a_stall_is_the_longest_time_without_a_token_while_requests_run() -> None:
    still = exposition(prompt=1300, generated=650, running=4)
    ramp: dict[int, str | None] = {**RAMP, **dict.fromkeys(range(13, 19), still), 15: None}

    assert figures(ramp)["longest_stall_s"] == 5.0
    assert figures()["longest_stall_s"] == 0.0


def test_nobody_waits_is_no_stall() -> None:
    ramp: dict[int, str | None] = {
        **RAMP,
        **dict.fromkeys(range(13, 19), exposition(prompt=1300, generated=650, running=0)),
    }
    assert figures(ramp)["longest_stall_s"] == 0.0


def test_several_servers_count_together_and_a_tick_that_one_missed_is_a_gap() -> None:
    other = {
        tick: exposition(prompt=0, generated=0, running=1, waiting=0, kv=1.0) for tick in RAMP if tick != 12
    }
    both = [*metrics(dict(RAMP)), *metrics(dict(other), of=1)]
    seen = figures(**{samples.METRICS: packed(both)})

    assert (seen["running_max"], seen["samples"], seen["kv_usage_max"]) == (5, 10, 1.0)
    assert seen["generation_tps"] == 50.0


def test_gpus_of_a_set_draw_power_together_and_clocks_count_while_they_compute() -> None:
    lines = [GPU_HEAD]
    for at in range(5, 25):
        lines.append(gpu(at, 0, 90 if 10 <= at <= 20 else 0, mhz=1980 if 10 < at <= 20 else 345))
        lines.append(gpu(at, 1, 70, watts=400, mhz=1500 if at == 15 else 1980, celsius=71))
    seen = figures(**{samples.GPUS: packed(lines)})

    assert seen["gpu_util_mean"] == 80.0
    assert seen["gpu_memory_mib_max"] == 60_001
    assert seen["gpu_power_w_mean"] == 900.5
    assert seen["gpu_energy_j"] == pytest.approx(9005)
    assert (seen["gpu_sm_mhz_min"], seen["gpu_sm_mhz_max_possible"]) == (345, 1980)
    assert seen["gpu_temperature_c_max"] == 71
    assert (seen["gpu_throttled_share"], seen["gpu_power_capped_share"], seen["gpu_ecc"]) == (0, 0, 0)
    assert "gpu_throttle_reasons" not in seen


def test_throttling_has_reasons_and_a_power_cap_is_none() -> None:
    masks = {
        12: "0x0000000000000004",
        13: "0x0000000000000040",
        14: "0x0000000000000024",
        15: "0x0000000000000001",
    }
    lines = [GPU_HEAD, *(gpu(at, 0, 90, masks.get(at, "0x0")) for at in range(10, 20))]
    lines.append(gpu(20, 0, 90, ecc=2))
    seen = figures(**{samples.GPUS: packed(lines)})

    assert seen["gpu_throttled_share"] == pytest.approx(2 / 11)
    assert seen["gpu_power_capped_share"] == pytest.approx(2 / 11)
    assert seen["gpu_throttle_reasons"] == "software thermal slowdown, hardware thermal slowdown"
    assert seen["gpu_ecc"] == 2


def test_a_field_that_the_driver_does_not_have_is_left_out() -> None:
    lines = ["at,index,utilization.gpu,nosuch", "at,index,utilization.gpu,power.draw"]
    lines += [f"{EPOCH + at},0, 50, [N/A]" for at in range(10, 20)]
    seen = figures(**{samples.GPUS: packed(lines)})

    assert seen["gpu_util_mean"] == 50
    assert [key for key in seen if key.startswith("gpu_")] == ["gpu_util_mean"]


def test_a_real_nvidia_smi_of_an_h200_is_understood() -> None:
    """Its columns are those of `--format=csv`, with units; the poller asks without."""
    text = read(shared("captures", "gpu", "h200x2", "c-gpu-1hz.csv"))
    rows = [line.split(", ") for line in text.splitlines()[1:]]
    lines = ["at,index,utilization.gpu,memory.used,power.draw,clocks.current.sm,temperature.gpu"]
    for number, row in enumerate(rows[:40]):
        bare = [cell.split(" ")[0] for cell in row]
        lines.append(
            ",".join([str(EPOCH + number / 2), bare[1], bare[2], bare[4], bare[5], bare[6], bare[8]])
        )
    found = hardware.gpu_rows(packed(lines))

    assert len(found) == 40
    assert found[0] == {
        **{"at": EPOCH, "index": 0, "utilization.gpu": 0, "memory.used": 0, "power.draw": 78.08},
        **{"clocks.current.sm": 345, "temperature.gpu": 34},
    }


def test_processors_of_units_and_of_the_host() -> None:
    lines = [clock()]
    for at in range(25):
        groups = {"server": 2.0 * at, "client": 0.5 * at + (1.0 if at > 15 else 0), "poller": 0.002 * at}
        lines.append(usage(at, groups, busy=8.0 * at, all=16.0 * at, bmc_w=800.0 if at % 10 == 0 else 900.0))
    seen = figures(**{samples.HOST: packed(lines)})

    assert (seen["server_cpu_cores_mean"], seen["server_cpu_cores_max"]) == (2.0, 2.0)
    assert (seen["client_cpu_cores_mean"], seen["client_cpu_cores_max"]) == (0.6, 1.5)
    assert (seen["host_cpu_share_mean"], seen["poller_cpu_share"]) == (0.5, 0.002)
    assert seen["bmc_power_w_mean"] == pytest.approx((2 * 800 + 9 * 900) / 11)


def test_a_unit_that_was_not_there_for_a_while_has_the_rest() -> None:
    lines = [clock(), *(usage(at, {"client": at} if at >= 12 else {}) for at in range(25))]
    assert figures(**{samples.HOST: packed(lines)})["client_cpu_cores_mean"] == 1.0


def test_a_unit_that_ended_in_the_window_takes_nothing_back() -> None:
    lines = [clock(), *(usage(at, {"client": 50.0 + at if at < 18 else 40.0}) for at in range(25))]
    seen = figures(**{samples.HOST: packed(lines)})

    # Seven seconds at one core, then two at none; the second in which it ended tells nothing.
    assert seen["client_cpu_cores_mean"] == pytest.approx(7 / 9)
    assert seen["client_cpu_cores_max"] == 1.0


def test_a_file_without_an_end_is_read_as_far_as_it_goes() -> None:
    whole = packed(metrics(dict(RAMP)) * 50)
    text = samples.unpacked(whole[: len(whole) // 2])

    assert text.startswith('{"tick": 0')
    assert 0 < len(text) < len(gzip.decompress(whole))
    assert samples.unpacked(b"no gzip at all") == ""


def test_a_file_that_unfolds_to_any_size_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "LARGEST_FILE", 1000)
    assert len(samples.unpacked(gzip.compress(b"x" * 1_000_000))) <= 1001


def test_no_files_are_no_figures() -> None:
    assert summary({}, None) == {}
    assert summary({}, 10.0) == {}


TEXTS = st.one_of(
    st.text(max_size=200),
    st.dictionaries(
        st.sampled_from(["tick", "of", "at", "text", "gap", "cpu", "clock", "busy", "all", "every_s", "xid"]),
        st.one_of(st.integers(), st.floats(), st.text(max_size=20), st.none(), st.lists(st.integers())),
    ).map(json.dumps),
)


@given(st.dictionaries(st.sampled_from(FILES), st.lists(TEXTS, max_size=8)), st.floats(0, 100))
def test_garbage_in_any_file_is_never_an_error(files: dict[str, list[str]], duration: float) -> None:
    packing = {name: name.endswith(".gz") for name in FILES}
    content = {
        name: packed(lines) if packing[name] else "\n".join(lines).encode() for name, lines in files.items()
    }
    for value in summary(content, duration).values():
        assert isinstance(value, str) or abs(value) < 1e18


@given(st.binary(max_size=300))
def test_any_bytes_are_never_an_error(data: bytes) -> None:
    summary(dict.fromkeys(FILES, data), 5.0)


def test_counters_of_real_vllm_before_and_after_come_to_what_was_sent() -> None:
    """2,000 requests of 128 + 128 tokens on an H200 between the third and the fourth run."""
    before, after = (
        snapshot(read(shared("captures", "gpu", "h200", f"a-7b-{name}.metrics.txt.xz")))
        for name in ("3runs", "4runs")
    )
    grown = counted(before, after)

    assert (grown["requests"], grown["generation_tokens"], grown["preemptions"]) == (2000, 256_000, 0)
    assert grown["queue_s_count"] == grown["e2e_s_count"] == 2000


def test_a_real_vllm_that_was_polled_during_a_real_bench_agrees_with_its_client() -> None:
    """0.32.0 (CPU build), 64 at a time; its client said 400 requests and 6779.74 tok/s in 7.55 s."""
    text = shared("captures", "cpu", "metrics", "poll_v0.32.0_c64.tsv").read_text("utf-8")
    head, *rows = [line.split("\t") for line in text.splitlines()]
    entries = [
        {"tick": tick, "of": 0, "at": EPOCH + float(row[0]), "text": _lines(head[2:8], row[2:8])}
        for tick, row in enumerate(rows)
    ]
    seen = summary({samples.METRICS: packed(entries)}, 7.55)

    assert seen["generation_tps"] == pytest.approx(6779.74, rel=1e-3)
    assert (seen["server_requests"], seen["server_generation_tokens"]) == (400, 51_200)
    assert (seen["running_max"], seen["waiting_max"]) == (64, 0)
    assert seen["kv_usage_max"] == pytest.approx(0.0078, abs=1e-3)
    assert seen["window_from"] == "server"


def _lines(names: list[str], values: list[str]) -> str:
    labels = {"vllm:request_success_total": '{finished_reason="length"}'}
    pairs = zip(names, values, strict=True)
    return "\n".join(f"{name}{labels.get(name, '')} {value}" for name, value in pairs)

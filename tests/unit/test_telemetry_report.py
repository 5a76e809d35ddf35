"""Figures of samples in the report: every name is in the table, and the second source finds its own."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import report_rows
from sampled_run import GPU_HEAD, clock, figures, gpu, packed, usage

from fleetbench.model import Config
from fleetbench.report import telemetry
from fleetbench.report.columns import measurement_table
from fleetbench.report.csv_text import csv_text
from fleetbench.report.summary import summarise
from fleetbench.telemetry import figures as table
from fleetbench.telemetry import samples

# The figures that the other parts of this project read, by the contract between them.
CONTRACT = {
    *("window_s", "samples", "missed_samples", "prompt_tps", "generation_tps", "running_mean"),
    *("running_max", "waiting_mean", "waiting_max", "swapped_max", "preemptions", "kv_usage_mean"),
    *("kv_usage_max", "cpu_kv_usage_max", "prefix_hit_share", "server_requests"),
    *("server_prompt_tokens", "server_generation_tokens", "finished_stop", "finished_length"),
    *("finished_abort", "finished_error", "queue_s_mean", "prefill_s_mean", "decode_s_mean"),
    *("longest_stall_s", "gpu_util_mean", "gpu_memory_mib_max", "gpu_power_w_mean"),
    *("gpu_energy_j", "gpu_sm_mhz_mean", "gpu_sm_mhz_min", "gpu_sm_mhz_max_possible"),
    *("gpu_temperature_c_max", "gpu_throttled_share", "gpu_throttle_reasons", "gpu_xid"),
    *("gpu_ecc", "client_cpu_cores_mean", "client_cpu_cores_max", "server_cpu_cores_mean"),
    *("server_cpu_cores_max", "host_cpu_share_mean", "bmc_power_w_mean", "poller_cpu_share"),
    "clock_offset_ms",
}


def test_every_figure_has_a_row_in_the_table() -> None:
    groups = {"server": 1.0, "client": 1.0, "poller": 0.1}
    lines = [
        clock(),
        *(
            usage(at, {k: v * at for k, v in groups.items()}, busy=at, all=2 * at, bmc_w=9)
            for at in range(25)
        ),
    ]
    seen = figures(
        **{
            samples.GPUS: packed([GPU_HEAD, *(gpu(at, 0, 50, "0x8") for at in range(25))]),
            samples.HOST: packed(lines),
            samples.ABOUT: b'{"clock_offset_ms": 0.0, "xid": 1}',
        }
    )
    assert set(seen) <= set(table.figures())
    assert set(table.figures()) >= CONTRACT
    assert [name for name in table.figures() if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []


def test_the_second_source_finds_its_measures_under_its_names() -> None:
    sampled = {"prompt_tps": 46.6, "generation_tps": 676.1, "request_generation_tps": 72.5, "waiting_mean": 3}
    sampled |= {"request_prompt_tps": 5.0, "kv_usage_mean": 0.25, "running_mean": 9.5}
    row = replace(report_rows.measurement(1, 1, report_rows.result(100.0)), telemetry=sampled)
    assert row.result is not None
    row = replace(row, result=replace(row.result, failed=10, latencies={"mean_e2el_ms": 7561.0}))
    found = dict(zip(telemetry.columns(), telemetry.cells(row), strict=True))

    assert (found["prompt_tps"], found["gen_tps"], found["avg_latency_s"], found["errors"]) == (
        46.6,
        676.1,
        7.561,
        10,
    )
    assert (found["request_generation_level_tps"], found["request_prompt_level_tps"]) == (72.5, 5.0)
    assert (found["num_requests_running"], found["num_requests_waiting"]) == (9.5, 3)
    assert (found["gpu_cache_usage_perc"], found["cpu_cache_usage_perc"]) == (0.25, None)
    titles = {each.title for each in table.measures()}
    assert {"Prompt TPS", "Gen TPS", "Avg Latency (s)", "Request Generation Level TPS", "Errors"} <= titles


def test_what_was_not_sampled_is_empty_in_the_csv_and_no_zero() -> None:
    trial = report_rows.trial(1, Config())
    sampled = replace(
        report_rows.measurement(1, 1, report_rows.result(100.0)),
        telemetry={"generation_tps": 99.5, "preemptions": 0},
    )
    bare = report_rows.measurement(1, 2, report_rows.result(100.0))
    text = csv_text(measurement_table(summarise(report_rows.run(), [trial], [sampled, bare])))
    rows = list(csv.DictReader(io.StringIO(text)))

    assert [row["generation_tps"] for row in rows] == ["99.5", ""]
    assert [row["preemptions"] for row in rows] == ["0", ""]
    assert [row["gen_tps"] for row in rows] == ["99.5", ""]

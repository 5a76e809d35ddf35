"""Failure logs of the field, read where they lie: the right class or an abstention, never a wrong cause."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from shared_material import SHARED, names, read, shared

from fleetbench.failures import NOT_IN_WINDOW, NOTHING_FAILED, UNRECOGNISED, classify

# What the index says in prose, as a name of our table; None: it asks for an abstention or for no failure.
EXPECTED = {
    "B02": "disk-quota",
    "B04": "cuda-illegal-memory-access",
    "B05": "engine-died-while-serving",
    "B07": "gpu-out-of-memory",
    "B08": None,
    "B09": None,
    "B10": "no-attention-backend",
    "B14": "no-memory-for-kv-cache",
    "B15": "bad-command-line",
    "B18": "port-in-use",
    "B19": "systemd-203-exec",
    "B20": "no-memory-for-kv-cache",
    "B21": "weight-loading-failed",
    "B23": "gpu-memory-taken",
    "B26": "nccl-failed",
    "B31": "driver-too-old",
    "B33": "bfloat16-unsupported",
    "B34": "hf-not-authenticated",
    "B35": "hf-access-not-granted",
    "B36": "unknown-tool-call-parser",
    "B39": "rccl-failed",
    "B40": "gpu-memory-taken",
    "B42": "torch-abi-mismatch",
    "B44": "start-timeout",
    "B45": None,
    "B46": None,
    "B47": "stalled-scheduler",
    "B48": None,
    "B51": "flashinfer-version-mismatch",
    "B52": "glibc-too-old",
    "B53": "no-kernel-image",
    "B61": "disk-full",
    "B63": "no-chat-template",
    "B64": None,
    "B68": "venv-not-executable",
    "B71": "selinux-denied",
    "B72": "cache-not-writable",
    "B73": "tool-calling-not-enabled",
}
REASONS = {
    "B08": UNRECOGNISED,
    "B09": NOT_IN_WINDOW,
    "B45": NOTHING_FAILED,
    "B46": "an orderly stop",
    "B48": NOT_IN_WINDOW,
    "B64": NOT_IN_WINDOW,
}
STARTFAIL = {
    "auto_tool_without_parser": "tool-parser-not-named",
    "bad_arch": "architecture-unsupported",
    "bad_notok": None,
    "bad_noweights": "model-weights-missing",
    "bad_tool_parser": "unknown-tool-call-parser",
    "bad_trunc": "model-weights-damaged",
    "blocks_too_few": "kv-cache-too-small",
    "fp8_kv": "quantization-config-missing",
    "kv_too_big": "cpu-kv-cache-too-large",
    "max_model_len_too_big": "max-model-len-too-long",
    "max_num_batched_lt": "batched-tokens-too-few",
    "port_in_use": "port-in-use",
    "tp3_indivisible": "heads-not-divisible",
    "unknown_flag": "bad-command-line",
    "unknown_model_offline": "hf-offline-not-cached",
    "unknown_model_online_no_network": "hub-unreachable",
    "unknown_path": "model-path-missing",
    "v0110_no_ipex_dies_on_first_request": "python-module-missing",
}
OTHER_CAPTURES = {
    "captures/cpu/startfail/v0330_gpu_wheel_no_gpu_serve.stderr": "no-gpu-visible",
    "captures/cpu/kill/kill9_engine.log": "engine-died-while-serving",
    "captures/cpu/kill/kill9_worker.log": "process-died",
    "captures/cpu/parallel/tp2.log": "numa-nodes-too-few",
    "captures/cpu/parallel/pp2.log": "numa-nodes-too-few",
    "captures/cpu/parallel/pp2_bench_server.log": "engine-died-while-serving",
    "captures/gpu/h200/a-err-same-port.server.log": "port-in-use",
    "captures/gpu/h200/a-err-second-server.server.log": "gpu-memory-taken",
    "captures/gpu/h200x2/c-err-weights-oom.server.log": "gpu-out-of-memory",
    "captures/gpu/h200x2/d-err-kv-too-long.server.log": "kv-cache-too-small",
    "captures/cpu/client/rs_bad_flag.stderr": "bad-command-line",
    "captures/cpu/client/rs_conn_refused_ready.stderr": "bench-server-unreachable",
    "captures/cpu/client/rs_wrong_model.stderr": "bench-wrong-model",
    "captures/cpu/bench_v0.32.0/conn_refused.stdout": "bench-server-unreachable",
    "captures/cpu/bench_v0.32.0/killed9_midrun.stdout": "bench-server-went-away",
    "captures/cpu/bench_v0.32.0/too_long.stdout": "bench-bad-request",
    "captures/cpu/bench_v0.32.0/wrong_model.stdout": "bench-not-found",
    "captures/cpu/bench_v0.32.0/wrong_endpoint.stderr": "bench-wrong-endpoint",
    "captures/cpu/bench_v0.32.0/endpoint_type_flag.stderr": "bad-command-line",
    "captures/cpu/sweep/nopandas.stderr": "python-module-missing",
}
_NAMED_ABOVE = {*OTHER_CAPTURES, *(f"captures/cpu/parallel/{name}.log" for name in ("tp2eq",))}
HEALTHY = [
    name
    for pattern in (
        "captures/cpu/serve/*.log",
        "captures/cpu/parallel/*.log",
        "captures/cpu/kill/*term*.log",
        "captures/cpu/kill/int_api.log",
        "captures/gpu/*/*.server.log.xz",
        "captures/cpu/bench_versions/v0.1[03579].*.stdout",
        "captures/cpu/bench_versions/v0.[23]*.stdout",
    )
    for name in names(pattern)
    if name not in _NAMED_ABOVE
]


def _rows() -> list[dict[str, str]]:
    index = SHARED / "corpus" / "index.tsv"
    if not index.exists():
        return []
    rows = csv.DictReader(
        io.StringIO(index.read_text(encoding="utf-8")), delimiter="\t", quoting=csv.QUOTE_NONE
    )
    return [row for row in rows if row["kind"].startswith("fail-")]


def test_every_failure_of_the_corpus_has_an_expectation() -> None:
    shared("corpus", "index.tsv")
    assert {row["id"] for row in _rows()} == set(EXPECTED)


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row["id"])
def test_a_failure_of_the_corpus_gets_its_class_or_an_abstention(row: dict[str, str]) -> None:
    diagnosis = classify(read(shared("corpus", row["file"])))

    assert diagnosis.kind == EXPECTED[row["id"]], diagnosis
    assert diagnosis.next_step
    if diagnosis.failure is None:
        assert diagnosis.reason.startswith(REASONS[row["id"]])
    for evidence in re.findall(
        r'(?:evidence|line to show the user)="(.{8,200}?)(?:\.\.\.|"|\'|\()', row["expected"]
    ):
        assert _plain(evidence) in _plain(diagnosis.evidence)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", " ", text).strip()


@pytest.mark.parametrize("name", sorted(STARTFAIL))
def test_a_real_failed_start_gets_its_class(name: str) -> None:
    diagnosis = classify(read(shared("captures", "cpu", "startfail", f"{name}.log")))

    assert diagnosis.kind == STARTFAIL[name], diagnosis
    assert diagnosis.evidence


@pytest.mark.parametrize("name", sorted(OTHER_CAPTURES))
def test_a_captured_failure_gets_its_class(name: str) -> None:
    assert classify(read(shared(name))).kind == OTHER_CAPTURES[name]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_server_or_client_that_worked_has_no_failure(name: str) -> None:
    diagnosis = classify(read(shared(name)))

    assert diagnosis.failure is None
    assert not diagnosis.evidence


def test_a_warning_about_the_context_length_is_not_the_cause() -> None:
    path: Path = shared("captures", "gpu", "h200", "a-err-maxlen-kv.server.log")

    assert classify(read(path)).reason == NOTHING_FAILED


def test_a_start_that_a_signal_ended_is_no_failure() -> None:
    diagnosis = classify(read(shared("captures", "cpu", "kill", "group_term_at_18s.log")))

    assert diagnosis.reason == "an orderly stop by a signal, not a failure"


def test_four_ranks_of_one_failure_are_one_failure() -> None:
    diagnosis = classify(read(shared("corpus", "B04.txt")))

    assert diagnosis.processes == ("Worker_TP2_EP2", "Worker_TP0_EP0", "Worker_TP3_EP3")

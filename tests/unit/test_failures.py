"""The classifier: one root cause, or an abstention with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetbench.failure_table import failure_table
from fleetbench.failures import NOT_IN_WINDOW, NOTHING_FAILED, UNRECOGNISED, classify

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "failures"
KINDS = [signature.kind for signature in failure_table().signatures]
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
NO_KV = "ValueError: No available memory for the cache blocks."
UNKNOWN = "ValueError: the frobnicator is upside down"
WAITING = (
    "(E pid=1) INFO 03-02 10:01:00 [s.py:6] No available shared memory broadcast block found in 60 seconds.\n"
)
READY = "(APIServer pid=1) INFO:     Application startup complete."


def _parts(kind: str) -> list[str]:
    return (FIXTURES / f"{kind}.txt").read_text(encoding="utf-8").split("%%\n")


def test_every_class_has_a_fixture_and_every_fixture_a_class() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_found_in_its_fixture_with_cause_evidence_and_advice(kind: str) -> None:
    signature = failure_table().signature(kind)
    causes = []
    for part in _parts(kind):
        diagnosis = classify(part)
        assert diagnosis.kind == kind, part
        assert diagnosis.failure is not None
        assert len(diagnosis.failure.advice) > 10
        assert diagnosis.failure.evidence
        assert diagnosis.failure.retryable is signature.retryable
        assert diagnosis.line is not None
        causes.append(diagnosis.failure.cause)
    assert not signature.detail or set(causes) != {signature.cause}, "the detail is never used"


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_survives_noise_before_and_after_it(kind: str) -> None:
    before = "(APIServer pid=1) INFO 03-02 09:00:00 [a.py:1] hello CUDA out of memory, [Errno 98]\n" * 50
    after = (
        "/usr/lib/x.py:1: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects\n"
    )

    assert classify(before + _parts(kind)[0] + after).kind == kind


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "(EngineCore_DP0 pid=12) ",
        "(VllmWorker rank=1 pid=12) ",
        "\x1b[1;36m(EngineCore_DP0 pid=12)\x1b[0;0m ",
        "[1;36m(EngineCore_DP0 pid=12)[0;0m ",
        "(Worker_TP1 pid=12) ERROR 03-02 10:00:19 [multiproc_executor.py:900] ",
        "ERROR 03-02 10:00:19 [core.py:489] ",
        "Mar 02 07:11:09 gpu-a vllm[99]: (EngineCore pid=12) ",
        "Mar  2 07:11:09 gpu-a python3.12[99]: ",
        "2026-03-02T07:11:09+0100 gpu-a env[99]: ",
        "2026-03-02T07:11:09.123456789Z ",
        "2026-03-02T07:11:09.1Z stderr F (EngineCore pid=12) ",
        "vllm-1  | (EngineCore pid=12) ",
        "  Line 117: (Worker pid=12) ERROR 08-18 20:42:54 [multiproc_executor.py:901] ",
        "117:Mar 02 07:11:09 gpu-a vllm[99]: ",
        "117-(EngineCore pid=12) ",
        "[rank0]: ",
        "0: (EngineCore pid=12) ",
    ],
)
def test_prefixes_are_taken_off(prefix: str) -> None:
    diagnosis = classify(f"{prefix}{NO_KV}\n{prefix}{WRAPPER}\n")

    assert diagnosis.kind == "no-memory-for-kv-cache"
    assert diagnosis.evidence == NO_KV


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"ValueError: No available memory for the cache blocks.\\n","stream":"stderr","time":"x"}',
        '{"MESSAGE":"(EngineCore pid=1) ValueError: No available memory for the cache blocks.","_PID":"7"}',
    ],
)
def test_json_log_lines_are_unwrapped(line: str) -> None:
    assert classify(line).evidence == NO_KV


def test_the_root_cause_wins_over_the_last_line() -> None:
    log = f"{NO_KV}\n" + '(APIServer pid=1)   File "x", line 1, in f\n' * 400 + WRAPPER

    assert classify(log).kind == "no-memory-for-kv-cache"


def test_a_root_cause_wins_over_an_echo_that_stands_before_it() -> None:
    log = "(Worker_TP0 pid=1) RuntimeError: NCCL error: remote process exited\n(Worker_TP1 pid=2) " + NO_KV

    diagnosis = classify(log)

    assert diagnosis.kind == "no-memory-for-kv-cache"
    assert diagnosis.also == ("nccl-failed",)


def test_an_unknown_error_before_an_echo_is_quoted_instead_of_the_echo() -> None:
    diagnosis = classify(f"{UNKNOWN}\nRuntimeError: NCCL error: remote process exited\n{WRAPPER}")

    assert diagnosis.failure is None
    assert diagnosis.reason.startswith(UNRECOGNISED)
    assert diagnosis.evidence == UNKNOWN


def test_only_the_wrapper_is_an_abstention_that_asks_for_more() -> None:
    diagnosis = classify(
        "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore_DP1': 1}"
    )

    assert diagnosis.failure is None
    assert diagnosis.reason.startswith(NOT_IN_WINDOW)
    assert "EngineCore_DP1" in diagnosis.reason
    assert "stdout and stderr" in diagnosis.next_step


def test_a_pydantic_error_of_no_class_quotes_its_message() -> None:
    log = "pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, odd thing\n"

    assert classify(log).evidence == "Value error, odd thing"


def test_a_bare_assertion_is_quoted_with_its_place() -> None:
    log = '  File "/a/b/engine.py", line 7, in run\n    assert ok\n           ^^\nAssertionError\n'

    assert classify(log).evidence == "AssertionError at engine.py:7 in run: assert ok"


def test_source_lines_of_a_traceback_are_no_evidence() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/a/b.py", line 7, in f\n'
        '    raise ValueError("No available memory for the cache blocks.") if x else OSError("[Errno 98]")\n'
        f"{UNKNOWN}\n"
    )

    assert classify(log).evidence == UNKNOWN


@pytest.mark.parametrize(
    "log",
    [
        "(A pid=1) WARNING 03-02 10:00:19 [u.py:2] limit: `OSError: [Errno 24] Too many open files`",
        "WARNING 03-02 10:00:19 [m.py:2] User-specified max_model_len (4000) is greater than the derived",
        WAITING,
        "[W716 19:11:51.387418683 socket.cpp:764] [c10d] errno: 97 - Address family not supported",
        "(A pid=1) INFO 03-02 10:01:00 [logger.py:40] Received request: prompt: 'CUDA out of memory. Tried"
        " to allocate 1 GiB [Errno 98] Out of memory: Killed process 1 (vllm)'",
        "WARNING 03-02 10:00:19 [_custom_ops.py:20] Failed to import from vllm._C with"
        " ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')",
        "Successful requests:                     100\nFailed requests:                         0",
        "gpu-a kernel: Out of memory: Killed process 4 (firefox) total-vm:1kB",
        "  \n\n",
        "",
    ],
)
def test_what_looks_like_a_failure_and_is_none(log: str) -> None:
    diagnosis = classify(log)

    assert diagnosis.failure is None
    assert not diagnosis.evidence
    assert diagnosis.reason in (NOTHING_FAILED, "the text is empty")


def test_a_hang_that_ended_is_none() -> None:
    assert classify(WAITING * 5).kind == "workers-hang"
    assert (
        classify(
            WAITING * 5 + "(E pid=1) INFO 03-02 10:09:00 [g.py:1] Graph capturing finished in 9 secs"
        ).kind
        is None
    )


def test_an_error_before_the_server_became_ready_is_not_its_cause() -> None:
    retried = "ERROR 03-02 10:00:00 [r.py:1] Error retrieving file list: timed out, retrying 1 of 2\n"

    assert classify(retried + READY).reason == NOTHING_FAILED
    assert classify(f"{retried}{READY}\n{NO_KV}").kind == "no-memory-for-kv-cache"


def test_the_engine_dying_because_it_was_told_to_is_an_orderly_stop() -> None:
    stop = "(EngineCore pid=2) INFO 03-02 10:00:00 [core.py:1] EngineCore: trigger received signal=SIGTERM\n"
    dead = (
        "(APIServer pid=1) ERROR 03-02 10:00:00 [a.py:9] EngineDeadError: EngineCore encountered an issue.\n"
    )

    assert classify(f"{READY}\n{stop}{dead}").reason == "an orderly stop by a signal, not a failure"
    assert classify(f"{READY}\n{dead}{stop}").kind == "engine-died-while-serving"

"""Which start failed, and what systemd and the kernel add to the log."""

from __future__ import annotations

import pytest

from fleetbench.failures import NOT_IN_WINDOW, UNRECOGNISED, classify

WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
NO_KV = "ValueError: No available memory for the cache blocks."
UNKNOWN = "ValueError: the frobnicator is upside down"
READY = "(APIServer pid=1) INFO:     Application startup complete."
OOM_KILL = "Out of memory: Killed process 12 (VLLM::Worker_TP) total-vm:9kB, anon-rss:9kB"


def _journal(*messages: str) -> str:
    return "\n".join(f"Mar 02 07:11:09 gpu-a {message}" for message in messages)


def test_a_crash_loop_is_explained_by_the_start_that_says_why() -> None:
    log = _journal(
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[9]: (EngineCore pid=9) {NO_KV}",
        "systemd[1]: vllm-8001.service: Main process exited, code=exited, status=1/FAILURE",
        "systemd[1]: vllm-8001.service: Scheduled restart job, restart counter is at 3.",
        "systemd[1]: vllm-8001.service: Start request repeated too quickly.",
        "systemd[1]: vllm-8001.service: Failed with result 'exit-code'.",
    )
    diagnosis = classify(log)

    assert diagnosis.kind == "no-memory-for-kv-cache"
    assert diagnosis.restarts == 3


def test_the_last_start_is_explained_and_not_the_one_before() -> None:
    log = _journal(
        "systemd[1]: Started vllm-8001.service - vLLM.",
        "vllm[9]: (EngineCore pid=9) ImportError: libcudart.so.12: cannot open shared object file",
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[10]: (EngineCore pid=10) {NO_KV}",
    )

    assert classify(log).kind == "no-memory-for-kv-cache"


def test_an_unexplained_last_start_does_not_borrow_the_cause_of_another() -> None:
    log = _journal(
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[9]: (EngineCore pid=9) {NO_KV}",
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[10]: (APIServer pid=10) {WRAPPER}",
    )

    assert classify(log).reason.startswith(NOT_IN_WINDOW)


def test_a_last_start_that_is_ready_is_no_failure_but_the_earlier_one_is_named() -> None:
    log = _journal(
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[9]: (EngineCore pid=9) {NO_KV}",
        "systemd[1]: Started vllm-8001.service - vLLM.",
        f"vllm[10]: {READY}",
    )
    diagnosis = classify(log)

    assert diagnosis.failure is None
    assert "no-memory-for-kv-cache" in diagnosis.reason


@pytest.mark.parametrize(
    ("unit_result", "exit_code", "kind"),
    [
        ("exit-code", 203, "systemd-203-exec"),
        ("exit-code", 217, "systemd-217-user"),
        ("exit-code", 200, "systemd-200-chdir"),
        ("oom-kill", 9, "unit-memory-limit"),
        ("timeout", 9, "systemd-timeout"),
        ("signal", 9, "killed-by-signal"),
        ("core-dump", 11, "crashed-by-signal"),
        ("start-limit-hit", 1, "systemd-start-limit"),
        ("resources", None, "systemd-resources"),
        ("success", 0, None),
        ("exit-code", 1, None),
    ],
)
def test_what_systemd_says_counts_where_the_log_is_silent(
    unit_result: str, exit_code: int | None, kind: str | None
) -> None:
    assert classify("", unit_result=unit_result, exit_code=exit_code).kind == kind
    assert classify(NO_KV, unit_result=unit_result, exit_code=exit_code).kind == "no-memory-for-kv-cache"


def test_a_program_of_its_own_may_end_with_203() -> None:
    assert classify("", exit_code=203).kind is None


def test_a_bad_end_without_a_word_is_an_abstention() -> None:
    diagnosis = classify("INFO 03-02 10:00:00 [a.py:1] hello", unit_result="exit-code", exit_code=1)

    assert diagnosis.reason.startswith(NOT_IN_WINDOW)
    assert diagnosis.line is None


def test_the_kernel_explains_a_death_without_a_reason() -> None:
    log = "(EngineCore pid=1) ERROR 03-02 10:00:00 [m.py:1] Worker proc VllmWorker-0 died unexpectedly"

    assert classify(log, kernel_log=OOM_KILL).kind == "host-out-of-memory"
    assert classify(log, kernel_log=OOM_KILL).line is None


def test_the_kernel_does_not_outvote_a_server_that_names_its_cause() -> None:
    denied = 'avc:  denied  { read } for  pid=1 comm="x" name="y" scontext=a:b:init_t:s0 tcontext=a:b:c_t:s0'

    assert classify(NO_KV, kernel_log=OOM_KILL).kind == "no-memory-for-kv-cache"
    assert classify(UNKNOWN, kernel_log=denied).reason.startswith(UNRECOGNISED)
    assert classify("", unit_result="exit-code", exit_code=203, kernel_log=denied).kind == "selinux-denied"

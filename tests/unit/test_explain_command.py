"""`fleetbench explain`: its output and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetbench.cli import main

LOG = "(EngineCore pid=2) ValueError: No available memory for the cache blocks. Try increasing x\n"
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"


def _explain(*args: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["explain", *args], input=stdin)


def test_a_found_class_is_status_0_and_one_json_object() -> None:
    result = _explain("-", "--format", "json", stdin=LOG + WRAPPER)
    shown = json.loads(result.stdout)

    assert result.exit_code == 0
    assert shown["class"] == "no-memory-for-kv-cache"
    assert shown["evidence"].startswith("ValueError: No available memory")
    assert shown["advice"]
    assert shown["cause"]
    assert shown["retryable"] is False
    assert shown["reason"] is None
    assert (shown["line"], shown["processes"]) == (1, ["EngineCore"])


def test_an_abstention_is_status_1_with_null_and_a_reason() -> None:
    result = _explain("-", "--format", "json", stdin=WRAPPER)
    shown = json.loads(result.stdout)

    assert result.exit_code == 1
    assert shown["class"] is None
    assert shown["reason"].startswith("cause not in this window")
    assert shown["advice"]


@pytest.mark.parametrize("stdin", ["", "all is well\n"])
def test_nothing_that_failed_is_status_1(stdin: str) -> None:
    result = _explain("-", "--format", "json", stdin=stdin)

    assert result.exit_code == 1
    assert json.loads(result.stdout)["class"] is None


def test_the_table_names_class_evidence_and_advice(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG, encoding="utf-8")
    result = _explain(str(log))

    assert result.exit_code == 0
    names = [line.split("  ")[0].strip() for line in result.stdout.splitlines()]
    assert names == ["class", "cause", "evidence", "line", "advice", "retryable", "reported by"]


def test_the_kernel_log_is_read_beside_the_journal(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.log"
    kernel.write_text("Out of memory: Killed process 9 (VLLM::EngineCor) total-vm:1kB\n", encoding="utf-8")
    dead = "(A pid=1) ERROR 03-02 10:00:00 [a.py:9] EngineDeadError: EngineCore encountered an issue.\n"
    result = _explain("-", "--kernel-log", str(kernel), "--format", "json", stdin=dead)

    assert json.loads(result.stdout)["class"] == "host-out-of-memory"


def test_a_missing_file_is_said_in_three_lines_without_traceback(tmp_path: Path) -> None:
    result = _explain(str(tmp_path / "no\x1b[31msuch.log"))

    assert result.exit_code == 1
    assert "cannot be read" in result.stderr
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) <= 3


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    assert "cannot be read" in _explain(str(tmp_path)).stderr


def test_both_logs_from_standard_input_are_wrong_usage() -> None:
    assert _explain("-", "--kernel-log", "-", stdin=LOG).exit_code == 2


def test_bytes_that_are_no_utf8_and_utf16_are_read() -> None:
    assert _explain("-", stdin=b"\xff\x00\xfe" + LOG.encode()).exit_code == 0
    assert _explain("-", stdin=LOG.encode("utf-16")).exit_code == 0

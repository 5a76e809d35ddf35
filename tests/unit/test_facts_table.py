"""What `invoke hosts` shows of a host's facts."""

from __future__ import annotations

from dataclasses import replace

from facts_answers import BARE, NVIDIA, SERVING, Ended, facts_of

from fleetbench.facts.table import COLUMNS, overview, problems
from fleetbench.facts.values import Gpu, GpuProcess, HostFacts, Unit


def test_a_serving_host_is_one_row() -> None:
    (row,) = overview(facts_of(BARE, NVIDIA, SERVING))
    assert row.cells[:-1] == (
        "h100-01",
        "Rocky Linux 9.5 (Blue Onyx)",
        "8x NVIDIA H100 80GB HBM3",
        "570.172.08 / 12.8",
        "0.10.1.1",
        "1 active, 1 failed",
        "200 GiB",
    )
    assert len(row.cells) == len(COLUMNS)


def test_what_needs_a_look_is_said() -> None:
    (row,) = overview(facts_of(BARE, NVIDIA, SERVING))
    assert row.problems == (
        "GPU5: a change of the MIG mode waits for a reset",
        "vllm-8001.service: its file changed since systemd read it",
        "vllm-8001.service runs an older configuration than its file",
        "vllm-8001.service is changed by /etc/systemd/system/vllm-8001.service.d/override.conf",
        "vllm-8002.service failed (exit-code, status 1)",
        "/opt/vllm/venvs/vllm-0.11.0: not finished",
        "/opt/vllm/venvs/vllm-0.11.0: its Python is gone",
    )


def test_a_bare_host_shows_dashes_and_no_problem() -> None:
    (row,) = overview(facts_of(BARE))
    assert row.cells[2:6] == ("-", "-", "-", "-")
    assert row.problems == ()


def test_facts_that_could_not_be_read_are_question_marks() -> None:
    (row,) = overview(HostFacts(host="dark"))
    assert row.cells[:7] == ("dark", "?", "?", "?", "?", "?", "?")


def test_a_driver_that_fails_is_one_problem_not_two() -> None:
    ended = Ended("Failed to initialize NVML: Unknown Error\n", 255)
    facts = facts_of(
        BARE, dict.fromkeys(("nvidia_query", "nvidia_table", "nvidia_apps", "nvidia_topo"), ended)
    )
    (row,) = overview(facts)
    assert row.gpus == "?"
    assert [problem for problem in row.problems if "NVML" in problem] == list(row.problems)
    assert len(row.problems) == 1


def test_memory_held_by_strangers_or_by_nobody_visible_is_said() -> None:
    ours = GpuProcess(pid=1, name="VLLM", unit="vllm-8001.service")
    theirs = GpuProcess(pid=7, name="train.py", unit="")
    gpus = tuple(
        Gpu(index=index, name="L4", memory_mib=23034, used_mib=20000, processes=held)
        for index, held in enumerate([(ours,), (ours, theirs), ()])
    )
    assert problems(replace(facts_of(BARE), gpus=gpus)) == (
        "GPU1: held by train.py (pid 7, no unit)",
        "GPU2: 20000 MiB in use by no visible process",
    )


def test_a_crash_loop_is_not_called_active() -> None:
    unit = Unit(name="vllm-1.service", load="loaded", active="activating", sub="auto-restart", restarts=9)
    (row,) = overview(replace(facts_of(BARE), units={unit.name: unit}))
    assert row.units == "1 restarting"
    assert row.problems == ("vllm-1.service restarts again and again (9 times)",)

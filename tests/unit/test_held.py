"""What stands in the way of a start, whose it is, and what is worth another try."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST

from fleetbench.errors import NotReady
from fleetbench.facts.values import Gpu, GpuProcess, HostFacts, Listener, Missing
from fleetbench.failure_table import failure_table
from fleetbench.model import Failure, GpuSet
from fleetbench.service.held import (
    BASELINE_NOISE_MIB,
    GPU_HELD,
    IDLE_MIB,
    MEMORY_NOT_FREE,
    PORT_TAKEN,
    Held,
    obstacle,
)
from fleetbench.sweep.again import another_port, others_where_taken, passing
from fleetbench.sweep.holders import holders, intruders, orphans
from fleetbench.sweep.idle_memory import IdleMemory

BOTH = GpuSet((0, 1))
OURS = GpuProcess(pid=10, name="VLLM::EngineCore", used_mib=70_000, unit="vllm-sweep-8101.service")
PRODUCTION = GpuProcess(pid=11, name="VLLM::EngineCore", used_mib=70_000, unit="vllm-8001.service")
FOREIGN = GpuProcess(pid=12, name="python", used_mib=900)
PRETENDER = GpuProcess(pid=13, name="x", unit="evil-vllm-sweep-8101.service")


def facts_of(
    *used: int, processes: tuple[GpuProcess, ...] = (), listeners: tuple[Listener, ...] = ()
) -> HostFacts:
    """GPUs with that much memory in use; the processes are on the last one."""
    last = len(used) - 1
    return HostFacts(
        gpus=tuple(
            Gpu(index=index, name="H100", used_mib=mib, processes=processes if index == last else ())
            for index, mib in enumerate(used)
        ),
        listeners=listeners,
    )


@pytest.mark.parametrize(
    ("used", "baseline", "held"),
    [
        (4, {}, False),
        (IDLE_MIB, {}, False),
        (IDLE_MIB + 1, {}, True),
        (700, {0: 4, 1: 4}, True),  # below what any driver may hold, and far above what this one does
        (4 + BASELINE_NOISE_MIB, {0: 4, 1: 4}, False),
        (900, {0: 4, 1: 800}, False),
        (700, {0: 4}, False),  # never seen idle
    ],
)
def test_memory_has_to_come_back_to_what_the_gpu_holds_when_idle(
    used: int, baseline: dict[int, int], *, held: bool
) -> None:
    found = obstacle(facts_of(4, used), BOTH, baseline)

    assert (found is not None) is held
    if found is not None:
        assert found.kind == MEMORY_NOT_FREE
        assert f"GPU 1 still has {used} MiB in use" in found.sentence


def test_a_process_is_named_with_pid_program_and_unit() -> None:
    assert obstacle(facts_of(0, 900, processes=(FOREIGN,)), BOTH, {}) == Held(
        GPU_HELD, "GPU 1 is held by pid 12 (python, no unit, 900 MiB)"
    )
    assert obstacle(facts_of(0, 900, processes=(FOREIGN,)), GpuSet((0,)), {}) is None


def test_the_port_comes_first_and_its_owner_is_named() -> None:
    taken = facts_of(0, 0, listeners=(Listener(address="*", port=8101, pid=5, process="nc"),))

    assert obstacle(taken, BOTH, {}, 8101) == Held(PORT_TAKEN, "port 8101 is held by nc (pid 5)")
    assert obstacle(taken, BOTH, {}, 8102) is None


@pytest.mark.parametrize("kind", [PORT_TAKEN, GPU_HELD, MEMORY_NOT_FREE])
def test_each_obstacle_may_pass_and_says_what_to_do(kind: str) -> None:
    failure = Held(kind, "x").failure()

    assert failure.retryable
    assert failure.advice
    assert failure.evidence == "x"


def test_only_what_a_sweep_unit_started_is_ours_to_end() -> None:
    facts = facts_of(0, 0, processes=(OURS, PRODUCTION, FOREIGN, PRETENDER))

    assert [holder.pid for holder in orphans(facts, BOTH)] == [10]
    assert [holder.pid for holder in intruders(facts, BOTH, {"vllm-8001.service"})] == [12, 13]
    assert str(orphans(facts, BOTH)[0]) == (
        "pid 10 (VLLM::EngineCore, unit vllm-sweep-8101.service, 70000 MiB) on GPU 1"
    )


def test_gpus_that_cannot_be_seen_have_no_holders() -> None:
    assert holders(HostFacts(gpus=Missing("no driver")), BOTH) == ()


def test_the_baseline_is_the_least_that_was_seen_without_a_process() -> None:
    idle = IdleMemory()
    idle.note(facts_of(500, 70_000, processes=(PRODUCTION,)))
    idle.note(facts_of(4, 900))
    idle.note(facts_of(300, 3))

    assert idle.lowest == {0: 4, 1: 3}


def test_a_gpu_full_of_what_nobody_shows_is_not_idle() -> None:
    idle = IdleMemory()
    idle.note(facts_of(70_000))

    assert idle.lowest == {}


RETRIED = {
    "internal-port-taken": "port race inside vLLM",
    "gpu-memory-taken": "the previous process is still dying",
    "gpu-memory-changed": "the previous process went in the middle",
    "dp-coordinator-slow": "the coordinator is slow",
}


@pytest.mark.parametrize("kind", RETRIED)
def test_what_may_pass_is_marked_so_in_the_table(kind: str) -> None:
    (signature,) = [entry for entry in failure_table().signatures if entry.kind == kind]

    assert signature.retryable


@pytest.mark.parametrize(
    ("failure", "again"),
    [
        (Failure(kind="port-in-use", cause="c"), True),
        (Held(PORT_TAKEN, "x").failure(), True),
        (Held(MEMORY_NOT_FREE, "x").failure(), True),
        (Failure(kind="dp-coordinator-slow", cause="c", retryable=True), True),
        (Failure(kind="gpu-out-of-memory", cause="c"), False),
        (None, False),
    ],
)
def test_only_causes_that_may_pass_are_tried_again(failure: Failure | None, *, again: bool) -> None:
    error = NotReady("it did not start")
    error.failure = failure

    assert (passing(error) is not None) is again


def test_another_port_is_the_next_free_one_of_the_range_and_not_the_lost_one() -> None:
    taken = facts_of(0, listeners=tuple(Listener(address="*", port=port) for port in (8102, 8103)))

    assert another_port(replace(HOST, sweep_ports=(8101, 8105)), taken, 8101) == 8104
    assert another_port(replace(HOST, sweep_ports=(8101, 8105)), taken, 8105) == 8101
    assert another_port(replace(HOST, sweep_ports=(8101, 8103)), taken, 8101) is None
    assert another_port(replace(HOST, sweep_ports=(8101, 8105)), taken, 8101, others={8101, 8104}) == 8105


def test_of_several_ports_only_those_change_that_somebody_else_has() -> None:
    ours = Listener(address="127.0.0.1", port=8102, pid=3, unit="vllm-sweep-8102.service")
    theirs = [Listener(address="0.0.0.0", port=port, pid=4, unit="foreign.service") for port in (8103, 8104)]
    taken = facts_of(0, listeners=(ours, *theirs))
    host = replace(HOST, sweep_ports=(8101, 8106))
    assert others_where_taken(host, taken, (8101, 8102, 8103)) == (8101, 8102, 8105)
    assert others_where_taken(host, facts_of(0, listeners=(ours,)), (8101, 8102, 8103)) == (8101, 8102, 8103)
    full = replace(HOST, sweep_ports=(8101, 8104))
    assert others_where_taken(full, taken, (8101, 8102, 8103)) == (8101, 8102, 8103)

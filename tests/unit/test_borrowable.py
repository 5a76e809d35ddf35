"""What a sweep borrows, and what it refuses to: decided from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nouns import HOST, facts, gpu, unit

from fleetbench.errors import NotPossible, Occupied
from fleetbench.facts.values import GpuProcess, HostFacts, Listener, Unit
from fleetbench.model import GpuSet
from fleetbench.sweep.borrowable import port_of, refuse_strangers, refuse_unreturnable, to_borrow

BOTH = GpuSet((0, 1))
OURS = unit(8001, "0,1", spec="f00d", running_spec="f00d")
CHAT = Unit(name="vllm-chat@8005.service", load="loaded", active="active", sub="running")
CHAT_LISTENS = Listener(address="0.0.0.0", port=8005, pid=7, unit=CHAT.name)


def seen(*units: Unit, holders: tuple[str, ...] = (), listeners: tuple[Listener, ...] = ()) -> HostFacts:
    """Facts of a host with these units, and with processes of the named units on GPU 1."""
    processes = [GpuProcess(pid=9 + n, name="vllm", unit=name) for n, name in enumerate(holders)]
    gpus = (gpu(0), gpu(1, *processes), gpu(2), gpu(3))
    return facts(units={each.name: each for each in units}, gpus=gpus, listeners=listeners)


def borrowed(found: HostFacts, gpus: GpuSet = BOTH) -> list[str]:
    return [each.name for each in to_borrow(found, gpus)]


@pytest.mark.parametrize("active", ["active", "activating", "reloading"])
def test_what_runs_or_is_about_to_is_borrowed(active: str) -> None:
    assert borrowed(seen(replace(OURS, active=active))) == [OURS.name]


@pytest.mark.parametrize("active", ["inactive", "failed", "deactivating"])
def test_what_does_not_run_stays_as_it_is(active: str) -> None:
    assert borrowed(seen(replace(OURS, active=active))) == []


def test_services_on_other_gpus_and_a_sweeps_own_servers_are_not_borrowed() -> None:
    own = unit(8101, "0,1", name="vllm-sweep-8101.service")
    assert borrowed(seen(OURS, unit(8002, "2,3"), own)) == [OURS.name]
    assert borrowed(seen(OURS), GpuSet((2,))) == []


def test_a_balancer_has_no_gpu_and_is_left_where_it_is() -> None:
    front, behind = unit(8001, "", spec="f00d", servers=(8002,)), unit(8002, "0", spec="f00d")
    assert borrowed(seen(front, behind)) == [behind.name]
    assert borrowed(replace(seen(front, behind), gpus=()), GpuSet()) == [behind.name]


def test_a_mark_that_cannot_be_read_means_all_gpus() -> None:
    assert borrowed(seen(replace(OURS, gpus="0-"))) == [OURS.name]


def test_a_unit_that_is_not_ours_is_borrowed_when_it_is_on_the_gpus() -> None:
    assert borrowed(seen(CHAT, holders=(CHAT.name,))) == [CHAT.name]
    assert borrowed(seen(CHAT, listeners=(CHAT_LISTENS,))) == [], "an exporter holds no GPU"


def test_without_gpus_what_listens_is_borrowed() -> None:
    bare = replace(seen(CHAT, OURS, listeners=(CHAT_LISTENS,)), gpus=())
    assert borrowed(bare, GpuSet()) == [OURS.name, CHAT.name]
    assert borrowed(replace(bare, listeners=()), GpuSet()) == [OURS.name]


def test_the_port_of_a_unit_that_does_not_say_it_is_where_it_listens() -> None:
    second = replace(CHAT_LISTENS, port=9005)
    assert port_of(CHAT, seen(CHAT, listeners=(second, CHAT_LISTENS))) == 8005
    assert port_of(CHAT, seen(CHAT)) is None
    assert port_of(OURS, seen(OURS)) == 8001


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"load": "masked"}, "masked"),
        ({"need_reload": True}, "systemd has not read it"),
        ({"running_spec": "beef"}, "an older text"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(changed: dict[str, object], cause: str) -> None:
    odd = replace(OURS, **changed)  # type: ignore[arg-type]
    with pytest.raises(NotPossible, match="cannot be borrowed") as refused:
        refuse_unreturnable(HOST, [odd], seen(odd))
    assert cause in refused.value.cause
    assert refused.value.next_step


def test_a_server_that_nobody_can_ask_is_refused_and_one_that_listens_is_not() -> None:
    with pytest.raises(NotPossible, match="cannot be borrowed"):
        refuse_unreturnable(HOST, [CHAT], seen(CHAT))
    refuse_unreturnable(HOST, [CHAT, OURS], seen(CHAT, OURS, listeners=(CHAT_LISTENS,)))


def test_a_stranger_on_the_gpus_is_named() -> None:
    refuse_strangers(HOST, [OURS], seen(OURS, holders=(OURS.name, "vllm-sweep-8101.service")), BOTH)
    refuse_strangers(HOST, [OURS], seen(OURS, holders=("ollama.service",)), GpuSet((0, 2)))
    for holder in ("ollama.service", ""):
        with pytest.raises(Occupied) as refused:
            refuse_strangers(HOST, [OURS], seen(OURS, holders=(holder,)), BOTH)
        assert f"pid 9 (vllm, {f'unit {holder}' if holder else 'no unit'}) on GPU 1" in refused.value.cause

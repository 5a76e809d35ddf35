"""The way back of one unit: its text, its state, whether it starts at boot; and of a restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from nouns import facts, unit
from promoted_trials import file_of
from simulated_units import UnitsHost, failure, said, session_on

from fleetbench.errors import CommandFailed, Interrupted, NotUndone
from fleetbench.facts.values import Unit
from fleetbench.rollback.back import or_as_before, started_again
from fleetbench.rollback.stand import Before, Spot, Stand

PATH = "/etc/systemd/system/vllm-8001.service"


def ended(within: AbstractContextManager[None], work: Callable[[], Any]) -> BaseException:
    """Do the work within a way back, and return what it ends with."""
    try:
        with within:
            work()
    except BaseException as exc:
        return exc
    raise AssertionError("it ended well")


def stand(before: Before, name: str = "vllm-8001.service") -> Stand:
    return Stand(spots=(Spot(unit=name, unit_path=PATH, port=8001, before=before),))


def overwritten(host: UnitsHost, before: Before, exc: BaseException, *, write: bool = True) -> BaseException:
    """Write the file of a unit and fail."""

    def work() -> None:
        if write:
            host.files[PATH] = b"new"
        raise exc

    return ended(or_as_before(session_on(host), stand(before), said=lambda _: None), work)


def old(state: Unit) -> Before:
    return Before(text="[Unit]\nold\n", unit=state, mode=0o640, owner="root:vllm")


def test_a_unit_that_went_round_in_a_crash_loop_goes_round_again_and_nobody_waits_for_it() -> None:
    looping = unit(8001, "0,1", active="activating", sub="auto-restart", main_pid=0)
    host = UnitsHost(facts(units={looping.name: looping}))
    error = overwritten(host, old(looping), CommandFailed("x"))
    assert "systemctl start --no-block vllm-8001.service" in host.commands
    assert "is being started, as before" in str(error)
    assert (host.files[PATH], host.modes[PATH]) == (b"[Unit]\nold\n", (0o640, "root:vllm"))


def test_a_unit_that_was_stopped_and_disabled_stays_so() -> None:
    stopped = unit(8001, "0,1", active="inactive", sub="dead", main_pid=0, enabled="disabled")
    host = UnitsHost(facts(units={stopped.name: stopped}))
    host.units[stopped.name].enabled = True
    overwritten(host, old(stopped), CommandFailed("x"))
    assert host.state[stopped.name] == (b"[Unit]\nold\n", False, False)


def test_a_new_unit_is_gone_again_also_where_systemd_never_read_it() -> None:
    host = UnitsHost(facts())
    host.fails["bash -c"] = lambda: said("")
    assert "removed again" in str(overwritten(host, Before(), CommandFailed("x")))
    assert host.state == {}
    host.fails.clear()
    assert "nothing was changed" in str(overwritten(host, Before(), CommandFailed("x"), write=False))


def test_a_command_of_the_way_back_that_fails_is_not_taken_for_done() -> None:
    host = UnitsHost(facts())
    host.fails["rm -f"] = lambda: failure("Read-only file system", 1)
    error = overwritten(host, Before(), CommandFailed("x"))
    assert isinstance(error, NotUndone)
    assert "Read-only file system" in error.what
    assert f"systemctl disable --now vllm-8001.service; rm -f {PATH}" in error.next_step


@pytest.mark.parametrize("exc", [ValueError("gpus"), KeyboardInterrupt(), Interrupted("interrupted")])
def test_a_restart_leaves_no_service_stopped_whatever_it_ends_with(exc: BaseException) -> None:
    before = unit(8001, "0,1", invocation="old")
    host = UnitsHost(facts(units={before.name: before}).with_file(file_of(PATH, "[Unit]\n")))

    def work() -> None:
        host.units[before.name].invocation = ""
        raise exc

    ended(started_again(session_on(host), before.name, said=lambda _: None), work)
    assert host.units[before.name].invocation
    host.fails["systemctl start"] = lambda: failure("Job failed.", 1)
    error = ended(started_again(session_on(host), before.name, said=lambda _: None), work)
    assert isinstance(error, NotUndone)
    assert "could not be started again" in error.what
    assert "systemctl start vllm-8001.service" in error.next_step

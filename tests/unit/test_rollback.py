"""Proven, or as it was before: also when a step of the way back fails, whatever the work ended with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from nouns import HOST, facts, spec, unit
from promoted_trials import NGINX, found, installed, measured_trial, target
from simulated_units import UnitsHost, failure, session_on

from fleetbench import deploy
from fleetbench.apply import apply
from fleetbench.errors import (
    CommandFailed,
    ConnectionLost,
    FleetbenchError,
    Interrupted,
    LeaseLost,
    NotPossible,
    NotReached,
    NotUndone,
)
from fleetbench.facts.values import File, HostFacts, Missing
from fleetbench.model import Config
from fleetbench.promotion import install as installing
from fleetbench.promotion.intent import Intent, intent_of
from fleetbench.promotion.place import Asked
from fleetbench.rollback.stand import openings

PATH = "/etc/systemd/system/vllm-8001.service"
CONF = "/etc/fleetbench/vllm-8001.conf"


def raising(exc: BaseException) -> Callable[[], Any]:
    def instead() -> Any:
        raise exc

    return instead


def several() -> HostFacts:
    """Facts of a host where nginx on 8001 stands before 8002 and 8003, all of them running."""
    there = installed(target(found(measured_trial(Config(units=2)))))
    for name in ("vllm-8001.service", "vllm-8002.service", "vllm-8003.service"):
        there = there.with_unit(replace(there.units[name], invocation=f"old-{name}"))  # type: ignore[index]
    return there


class Promotion:
    """The three units of `several` become one server, on a host of its own."""

    def __init__(self, there: HostFacts | None = None, *, open_firewall: bool = False) -> None:
        self.facts = there or several()
        self.host = UnitsHost(self.facts)
        self.before = self.host.state
        self.intent: Intent = intent_of(
            target(there=self.facts, asked=Asked(port=8001)), self.facts, open_firewall=open_firewall
        )
        self.told: list[str] = []
        self.kept: dict[str, str] = {}
        self.session = session_on(self.host)

    def fail(
        self,
        monkeypatch: pytest.MonkeyPatch,
        exc: BaseException,
        *,
        when: str = "prove",
        work: Callable[[], None] = lambda: None,
    ) -> BaseException:
        """Promote, with an error at a place; return what it ends with."""

        def steps(wanted: Any) -> None:
            if when == "apply":
                work()
                raise exc
            apply(self.session, wanted)

        def keep(name: str, text: str) -> str:
            self.kept[name] = text
            return f"runs/left/{name}"

        means = installing.Means(
            session=self.session,
            apply=steps,
            read_facts=lambda _: replace(facts(), gpus=()),
            facts=self.facts,
            said=self.told.append,
            keep=keep,
        )
        monkeypatch.setattr(installing, "prove", lambda *_: raising(exc)())
        monkeypatch.setattr(installing, "_proven_again", lambda *_: None)
        with pytest.raises(BaseException) as ended:  # noqa: PT011  which one is the question
            installing.install(means, self.intent)
        return ended.value


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"files": {PATH: File(path=PATH, kind="link", target="/srv/units/a.service", mode=0o777)}}, "link"),
        (
            {"units": {"vllm-8001.service": unit(8001, "0,1", fragment="/usr/lib/systemd/system/x")}},
            "/usr/lib",
        ),
        ({"units": {"vllm-8001.service": unit(8001, "0,1")}}, "without /etc/systemd/system/vllm-8001"),
        ({"units": Missing("systemctl show: no answer within 10 s")}, "no answer within 10 s"),
        ({"missing": {"files": "stat: no answer within 10 s"}}, "stat: no answer"),
        ({"files": {PATH: File(path=PATH, sha256="", mode=0o644)}}, "cannot be read as text"),
    ],
)
def test_what_could_not_be_put_back_is_refused_while_nothing_has_happened(
    changed: dict[str, Any], says: str
) -> None:
    files = dict(NGINX.files) | dict(changed.get("files", {}))
    there = replace(NGINX, **changed | {"files": files})
    with pytest.raises(NotPossible) as promoted:
        intent_of(target(there=there, asked=Asked(port=8001)), there)
    assert says in str(promoted.value)
    with pytest.raises(NotPossible) as deployed:
        deploy.spot_of(HOST, spec(), there)
    assert says in str(deployed.value)


def test_a_configuration_that_could_not_be_put_back_is_refused_too() -> None:
    there = several().with_file(File(path=CONF, kind="link", target="/srv/nginx.conf", mode=0o777))
    with pytest.raises(NotPossible, match="no regular file"):
        intent_of(target(there=there, asked=Asked(port=8001)), there)


@pytest.mark.parametrize("left", ["enabled", "stopped too"])
def test_a_replaced_server_whose_stop_broke_off_starts_at_boot_again(
    monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    one = Promotion()

    def broke_off() -> None:
        kept = one.host.units["vllm-8002.service"]
        kept.enabled = False
        kept.invocation = "" if left == "stopped too" else kept.invocation

    lost = ConnectionLost("no answer", host=HOST.name)
    error = one.fail(monkeypatch, lost, when="apply", work=broke_off)
    assert one.host.state == one.before
    assert not isinstance(error, NotReached), "a host that was changed is no host that was not reached"
    assert "put back" in str(error) or "as before" in str(error)


def test_one_unit_that_cannot_be_started_keeps_no_other_from_coming_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Promotion()
    one.host.fails["systemctl start vllm-8002.service"] = lambda: failure("Job failed.", 1)
    error = one.fail(monkeypatch, CommandFailed("it does not serve", host=HOST.name))
    assert isinstance(error, NotUndone)
    after = dict(one.host.state)
    text, runs, enabled = after.pop("vllm-8002.service")
    assert (text, runs, enabled) == (one.before["vllm-8002.service"][0], False, True)
    assert after == {name: state for name, state in one.before.items() if name != "vllm-8002.service"}
    assert "it does not serve" in error.what
    assert "vllm-8003.service: the previous unit was put back and started" in error.what
    assert "vllm-8002.service could not be undone" in error.what
    assert "systemctl restart vllm-8002.service" in error.next_step
    assert any(line.startswith("NOT AS BEFORE: vllm-8002.service") for line in one.told)
    assert len(str(error).splitlines()) <= 3


def test_a_text_that_cannot_be_written_is_kept_and_the_rest_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Promotion()
    for path in ("/etc/systemd/system/vllm-8002.service", CONF):
        one.host.fails[f"put {path}"] = raising(CommandFailed("cannot write", cause="Read-only file system"))
    error = one.fail(monkeypatch, ValueError("x"))
    assert isinstance(error, NotUndone)
    assert set(one.kept) == {"vllm-8002.service", "vllm-8001.conf"}
    assert one.kept["vllm-8002.service"].encode() == one.before["vllm-8002.service"][0]
    assert "copy runs/left/vllm-8002.service of the controller to" in error.next_step
    assert one.host.state["vllm-8003.service"] == one.before["vllm-8003.service"]
    assert one.host.state["vllm-8001.service"] == one.before["vllm-8001.service"]


@pytest.mark.parametrize(
    "exc", [ValueError("not enough values to unpack"), KeyboardInterrupt(), SystemExit(3), RecursionError()]
)
@pytest.mark.parametrize("when", ["apply", "prove"])
def test_whatever_ends_the_work_everything_is_put_back(
    monkeypatch: pytest.MonkeyPatch, exc: BaseException, when: str
) -> None:
    one = Promotion()
    error = one.fail(monkeypatch, exc, when=when)
    assert one.host.state == one.before
    assert one.host.files[CONF] == several().files[CONF].text.encode()  # type: ignore[union-attr]
    if isinstance(exc, Exception):
        assert isinstance(error, FleetbenchError)
        assert type(exc).__name__ in error.what
        assert error.__cause__ is exc, "--debug shows where it came from"
    else:
        assert error is exc
    assert any("as before" in line or "put back" in line for line in one.told)


def test_a_host_that_stays_away_has_failed_and_each_unit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Promotion()
    gone = ConnectionLost("no route to host", host=HOST.name)

    def away() -> None:
        one.host.fails[""] = raising(gone)

    error = one.fail(monkeypatch, gone, when="apply", work=away)
    assert isinstance(error, NotUndone)
    assert all(f"vllm-{port}.service could not be undone" in error.what for port in (8001, 8002, 8003))


def test_ctrl_c_on_a_host_that_cannot_be_put_back_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Promotion()
    one.host.fails["systemctl start vllm-8003.service"] = lambda: failure("Job failed.", 1)
    assert isinstance(one.fail(monkeypatch, KeyboardInterrupt()), NotUndone)
    one = Promotion()
    assert isinstance(one.fail(monkeypatch, Interrupted("interrupted")), Interrupted)


def test_what_somebody_else_holds_by_now_is_not_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Promotion()
    one.session.still_ours = raising(LeaseLost("taken", host=HOST.name))
    assert isinstance(one.fail(monkeypatch, CommandFailed("x"), when="apply"), LeaseLost)
    one = Promotion()
    one.session.still_ours = raising(ValueError("a bug"))
    assert not isinstance(one.fail(monkeypatch, CommandFailed("x")), LeaseLost)
    assert one.host.state == one.before


def test_a_port_is_closed_again_where_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = replace(several(), firewalld="running")
    one = Promotion(there, open_firewall=True)
    error = one.fail(monkeypatch, CommandFailed("it does not serve"))
    assert "8001/tcp" in str([step.summary for step in one.intent.steps])
    assert one.host.ports == set()
    assert "port 8001/tcp is closed again (permanent)" in str(error)
    one = Promotion(there, open_firewall=True)
    one.host.ports = {(True, "8001/tcp")}  # for the next boot somebody has opened it before
    one.fail(monkeypatch, CommandFailed("it does not serve"))
    assert one.host.ports == {(True, "8001/tcp")}
    assert openings(one.session, ()) == ()

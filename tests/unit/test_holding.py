"""Where services are changed, the host's lease is held: from before its facts are read until all is over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leased_host import ALICE, FREE, LeasedHost
from nouns import HOST
from promoted_trials import NGINX, found, running

from fleetbench.audit import operator
from fleetbench.errors import Exit, FleetbenchError, LeaseLost, NotPossible, NotReached, NotReady
from fleetbench.facts.values import HostFacts
from fleetbench.model import Config
from fleetbench.promotion import install
from fleetbench.promotion.place import Asked
from fleetbench.results.controllers import this_controller
from fleetbench.service import lifecycle
from fleetbench.transport.durable import DurableSession
from fleetbench.verbs import holding, promoting, services, unit_files
from fleetbench.verbs.common import Options

UNIT = "/etc/systemd/system/vllm-8001.service"
HOSTS = '[defaults]\nbuild = "cuda"\n[builds.cuda]\nversion = "0.19.1"\n[hosts.h100-01]\n'
MODELS = '[models.coder]\nrepo = "Qwen/Qwen3-Coder-30B-A3B-Instruct"\n'


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LeasedHost:
    """A host that all sessions of the verbs lead to, with the facts of an idle one."""
    known = LeasedHost(HOST)

    def session_to(host: Any, *, stop: Any = None, **_: Any) -> DurableSession:
        return DurableSession(HOST, known.open, patience_s=0, stop=stop)

    for module in (holding, promoting, services):
        monkeypatch.setattr(module, "session_to", session_to)
    look_at(monkeypatch, lambda *_: NGINX)
    monkeypatch.setattr(promoting, "open_store", lambda **_: contextlib.nullcontext())
    monkeypatch.setattr(promoting, "chosen", lambda *_: found())
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    (tmp_path / "hosts.toml").write_text(HOSTS)
    (tmp_path / "models.toml").write_text(MODELS)
    return known


def look_at(monkeypatch: pytest.MonkeyPatch, facts_of: Callable[..., HostFacts]) -> None:
    for module in (promoting, services):
        monkeypatch.setattr(module, "facts_of", facts_of)


def open_to(there: LeasedHost) -> DurableSession:
    return DurableSession(HOST, there.open, patience_s=0, stop=threading.Event())


def invoked(name: str, place: Path, *, check: bool = False) -> Exit:
    options = Options(hosts=HOST.name, inventory=str(place), check=check, parallel=1, form="json")
    if name == "promote":
        wanted, asked = promoting.Wanted(run="latest"), Asked()
        return promoting.promote(options, wanted, asked=asked, anyway=False, open_firewall=False, timeout_s=1)
    if name == "deploy":
        return services.deploy_service(
            options,
            model="coder",
            port=8001,
            gpus="0,1",
            config=Config(tp=2),
            bind="127.0.0.1",
            served_name="",
            open_firewall=False,
            timeout_s=1,
        )
    if name == "restart":
        return services.restart(options, port=8001, timeout_s=1)
    return services.remove(options, port=8001)


def test_a_promotion_holds_the_lease_from_before_the_facts_until_the_proof_is_over(
    there: LeasedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    def facts_of(*_: object) -> HostFacts:
        seen.append(there.holder[2])
        return NGINX

    def installed(*_: object) -> float:
        seen.append(there.holder[2])
        return 1.0

    look_at(monkeypatch, facts_of)
    monkeypatch.setattr(promoting, "install", installed)
    assert invoked("promote", tmp_path) is Exit.OK
    looked_without = ["", ""]  # what is refused, or needs no change, leaves no trace
    assert seen == [*looked_without, *[f"promote {found().run.id}/1"] * 3]
    assert there.holder == FREE
    assert there.actions == ["show", "show", "take", "release"]


@pytest.mark.parametrize("error", [NotPossible("no"), ValueError("nobody thought of it")])
def test_a_promotion_that_fails_gives_the_lease_back(
    error: Exception, there: LeasedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object) -> float:
        assert there.holder != FREE
        raise error

    monkeypatch.setattr(promoting, "install", fails)
    assert invoked("promote", tmp_path) is Exit.FAILED
    assert there.holder == FREE


def test_a_look_takes_no_lease_and_is_refused_where_somebody_works(
    there: LeasedHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoked("promote", tmp_path, check=True) is Exit.CHANGES_PENDING
    assert set(there.actions) == {"show"}
    there.holder = ALICE
    assert invoked("promote", tmp_path, check=True) is Exit.FAILED
    assert "locked by alice@elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["promote", "deploy", "restart", "remove"])
def test_each_verb_is_refused_with_the_name_of_who_works_there_and_holds_the_lease_itself(
    name: str,
    there: LeasedHost,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = NGINX
    if name in ("restart", "remove"):
        facts = running(NGINX, "vllm-8001.service", UNIT, "[Service]\n", "0" * 12, 8001, "0,1")
    look_at(monkeypatch, lambda *_: facts)
    there.holder = ALICE
    assert invoked(name, tmp_path) is Exit.FAILED
    said = capsys.readouterr().err
    assert "is locked by alice@elsewhere since now (sweep tiny)" in said
    assert f"invoke unlock --hosts {HOST.name}" in said
    assert there.holder == ALICE
    there.holder, held = FREE, []

    def facts_of(*_: object) -> HostFacts:
        held.append(there.holder[2])
        if there.holder == FREE:
            return facts
        raise FleetbenchError("so far")

    look_at(monkeypatch, facts_of)
    assert invoked(name, tmp_path) is Exit.FAILED
    assert "so far" in capsys.readouterr().err
    assert held[-1].split()[:1] == [name]
    assert there.holder == FREE


def test_the_lease_is_renewed_while_a_server_loads(
    there: LeasedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LEASE_S", 0.2)
    with holding.holding(open_to(there), "promote x/1"):
        give_up = time.monotonic() + 10
        while there.actions.count("renew") < 3 and time.monotonic() < give_up:
            time.sleep(0.02)
    assert there.actions.count("renew") >= 3
    assert there.actions[-1] == "release"


def held_until(there: LeasedHost, then: Callable[[DurableSession], None]) -> None:
    session = open_to(there)
    with holding.holding(session, "promote x/1"):
        session.still_ours()
        then(session)


def test_a_lost_lease_ends_the_wait_and_what_another_holds_is_left_to_him(
    there: LeasedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LEASE_S", 0.2)

    def waits(session: DurableSession) -> None:
        there.holder, give_up = ALICE, time.monotonic() + 10
        while time.monotonic() < give_up:
            session.read(("true",))
            time.sleep(0.02)

    with pytest.raises(LeaseLost) as lost:
        held_until(there, waits)
    assert "sweep tiny" in lost.value.cause
    assert "left as it is" in lost.value.what
    assert "invoke status" in lost.value.next_step
    assert there.holder == ALICE


@pytest.mark.parametrize("name", ["promote", "deploy"])
def test_nothing_is_put_back_where_somebody_else_works_by_now(
    name: str,
    there: LeasedHost,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wait_ready(*_: object, **__: object) -> None:
        there.holder = ALICE
        there.commands.clear()
        raise NotReady("it does not come up")

    monkeypatch.setattr(lifecycle, "start", lambda *_, **__: "a")
    monkeypatch.setattr(lifecycle, "wait_ready", wait_ready)
    monkeypatch.setattr(install, "start_all", lambda *_: None)
    monkeypatch.setattr(unit_files, "apply", lambda *_, **__: None)
    assert invoked(name, tmp_path) is Exit.FAILED
    said = capsys.readouterr().err
    assert "the lease of this host was lost; what was changed there is left as it is" in said
    assert there.commands == []
    assert there.holder == ALICE


def test_the_lease_of_a_killed_change_is_taken_over_by_its_operator_and_by_nobody_else(
    there: LeasedHost, tmp_path: Path
) -> None:
    here, _, _ = this_controller().split(":")
    dead = f"{here}:999999999:1"
    there.holder, there.operator = (holding.CHANGE, dead, "promote x/1"), operator()
    assert invoked("promote", tmp_path, check=True) is Exit.CHANGES_PENDING
    with holding.holding(open_to(there), "deploy vllm-8001"):
        assert there.holder == (holding.CHANGE, this_controller(), "deploy vllm-8001")
    alive = (holding.CHANGE, f"{here}:1:", "promote x/1")
    elsewhere = (holding.CHANGE, "elsewhere:999999999:1", "promote x/1")
    for holder, who in ((alive, operator()), (elsewhere, operator()), ((*alive[:1], dead, ""), "bob@x")):
        there.holder, there.operator = holder, who
        with pytest.raises(NotPossible, match="is locked by"), holding.holding(open_to(there), "deploy"):
            pass
        assert invoked("promote", tmp_path, check=True) is Exit.FAILED
        assert there.holder == holder


def test_a_host_that_went_away_keeps_its_error(there: LeasedHost) -> None:
    def goes_away(session: DurableSession) -> None:
        there.away = NotReached("gone")
        session.still_ours()
        raise there.away

    with pytest.raises(NotReached, match="gone"):
        held_until(there, goes_away)

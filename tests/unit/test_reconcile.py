"""One host from facts to proof: checked, changed, or refused before anything was touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from provision_hosts import LAB_HOST, LOCK, lab, rocky

from fleetbench import reconcile
from fleetbench.apply import Patience
from fleetbench.errors import NotConverged, NotPossible, UsageError
from fleetbench.facts.values import HostFacts
from fleetbench.fleet import Status
from fleetbench.lock import LockFile
from fleetbench.operations.credentials import Secret
from fleetbench.provision import Inputs, plan
from fleetbench.resolution import resolution
from fleetbench.transport.fake import FakeSession

QUICK = Patience(poll_s=0.001)
TOKEN = Secret(b"hf_neverShowThis")


@pytest.fixture
def locks(tmp_path: Path) -> LockFile:
    """The lab host's lock, made by hand."""
    (tmp_path / resolution(LAB_HOST, lab()).file_name).write_text(LOCK.text, "utf-8")
    return LockFile(tmp_path)


def done() -> HostFacts:
    """The facts of a lab host that was provisioned."""
    given = Inputs(lock=LOCK, resolution=resolution(LAB_HOST, lab()), hf_token=TOKEN)
    return plan(LAB_HOST, lab(), given).facts


def probed(monkeypatch: pytest.MonkeyPatch, *answers: HostFacts) -> None:
    left = list(answers)
    monkeypatch.setattr(reconcile.probe, "read", lambda *_, **__: left.pop(0) if len(left) > 1 else left[0])


def unit_answer(line: str) -> str:
    """Every unit ends well at once: first not there, then exited."""
    return "LoadState=loaded\nActiveState=active\nSubState=exited\nInvocationID=1\nDescription=x\n\n"


def session() -> FakeSession:
    return FakeSession(LAB_HOST, [("journalctl", unit_answer)])


def provisioned(host_session: FakeSession, locks: LockFile, **options: object) -> reconcile.HostResult:
    call: Callable[..., reconcile.HostResult] = reconcile.provision_host
    return call(
        lambda: host_session, LAB_HOST, locks=locks, hf_token=TOKEN, send_uv=False, patience=QUICK, **options
    )


def test_check_says_what_would_change_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, locks: LockFile
) -> None:
    probed(monkeypatch, lab())
    host_session = session()
    result = provisioned(host_session, locks, check=True)
    assert result.status is Status.WOULD_CHANGE
    assert host_session.commands == []
    assert host_session.files == {}
    assert "* add system user vllm  (not there)" in result.diff
    assert "+vllm==0.19.1" in result.diff
    assert "neverShow" not in result.diff


def test_a_host_is_changed_and_proved_and_then_there_is_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, locks: LockFile
) -> None:
    probed(monkeypatch, lab(), done())
    result = provisioned(session(), locks)
    assert result.status is Status.CHANGED
    assert result.steps
    again = session()
    assert provisioned(again, locks).status is Status.OK
    assert again.commands == []


def test_a_host_that_is_not_as_planned_afterwards_is_no_success(
    monkeypatch: pytest.MonkeyPatch, locks: LockFile
) -> None:
    probed(monkeypatch, lab())
    with pytest.raises(NotConverged) as caught:
        provisioned(session(), locks)
    assert "add system user vllm: not there" in caught.value.cause


def test_a_host_that_cannot_work_is_refused_before_a_lock_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    probed(monkeypatch, rocky(disks=lab().disks, root=False))
    host_session = session()
    with pytest.raises(NotPossible, match="no root rights"):
        provisioned(host_session, LockFile(tmp_path / "none"))
    assert host_session.commands == []
    assert not (tmp_path / "none").exists()


def test_the_connection_is_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch, locks: LockFile) -> None:
    probed(monkeypatch, lab(root=False))
    host_session = session()
    closed: list[bool] = []
    monkeypatch.setattr(host_session, "close", lambda: closed.append(True))
    with pytest.raises(NotPossible):
        provisioned(host_session, locks)
    assert closed == [True]


def test_the_token_comes_from_the_environment_or_the_file_that_hf_writes(tmp_path: Path) -> None:
    assert reconcile.hf_token({}, tmp_path) is None
    path = tmp_path / ".cache" / "huggingface" / "token"
    path.parent.mkdir(parents=True)
    path.write_text("hf_fromFile\n", "utf-8")
    assert reconcile.hf_token({}, tmp_path) == b"hf_fromFile"
    assert reconcile.hf_token({"HF_TOKEN": "hf_fromEnv"}, tmp_path) == b"hf_fromEnv"
    assert repr(reconcile.hf_token({}, tmp_path)) == "Secret(***)"


def test_a_token_with_a_line_break_in_it_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        reconcile.hf_token({"HF_TOKEN": "hf_abc\ndef"}, tmp_path)
    assert "abc" not in str(caught.value)

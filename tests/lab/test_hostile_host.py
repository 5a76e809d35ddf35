"""Other users of a host, and a service user who is not ours any more: what they see, and where they get."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lab_under_test import LabUnderTest

from fleetbench.apply import apply
from fleetbench.bench import client as clients
from fleetbench.bench.client import Client, State
from fleetbench.errors import CommandFailed
from fleetbench.facts import probe
from fleetbench.lab import lab as labs
from fleetbench.model import Build, Host
from fleetbench.operations import accounts, files
from fleetbench.provision import directories, probe_wants
from fleetbench.steps import fold
from fleetbench.sweep.lease import Hold
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.open import durable, open_session

# Opens everything that appears in /tmp as soon as it appears, and prints what is in it two seconds later.
SPY = """
import os, time
opened, end = {}, time.time() + 6
while time.time() < end:
    for name in os.listdir('/tmp'):
        path = '/tmp/' + name
        if name not in opened and name.startswith('.fleetbench'):
            try:
                opened[name] = os.open(path, os.O_RDONLY)
            except OSError:
                opened[name] = -1
print(len(opened), [os.read(one, 100) for one in opened.values() if one > 0 and not os.path.isdir(one)])
"""


@pytest.fixture(scope="module")
def host(lab: LabUnderTest) -> Host:
    """A host with the service user and the directories that `provision` makes."""
    host = Host(name="lab-01", build=Build(name="cpu", version="0.32.0"), ssh_config=str(lab.ssh_config))
    session = open_session(host)
    wants = probe_wants(host)
    facts = probe.read(session, paths=wants.paths, accounts=wants.accounts)
    user = accounts.exists(accounts.ServiceUser(name=host.user, home=host.prefix))
    steps = fold(facts, (user, files.directories(directories(host)))).steps
    apply(session, steps).close()
    return host


@pytest.fixture
def session(host: Host) -> Iterator[DurableSession]:
    session = durable(host)
    yield session
    session.close()


def client(name: str, *command: str) -> Client:
    return Client(
        unit=f"fleetbench-bench-{name}",
        directory=f"/opt/vllm/runs/fleetbench-bench-{name}",
        user="vllm",
        command=command or ("true",),
        environment={},
        credential="",
        limit_s=30,
        python="/usr/bin/python3",
    )


def test_nobody_on_the_host_reads_a_secret_on_its_way(lab: LabUnderTest, session: DurableSession) -> None:
    spied: list[subprocess.CompletedProcess[str]] = []
    argv = ("setpriv", "--reuid=65534", "--clear-groups", "python3", "-c", SPY)
    spy = threading.Thread(target=lambda: spied.append(labs.enter("lab-01", argv, settings=lab.settings)))
    spy.start()
    time.sleep(1)
    for _ in range(5):
        session.put(b"hf_rootOnlyToken", "/etc/spied", mode=0o600)
    spy.join()
    count, _, seen = spied[0].stdout.partition(" ")
    assert int(count) >= 5, "the spy saw the files pass, or this test proves nothing"
    assert seen.strip() == "[]"


def test_the_service_user_cannot_put_links_where_root_works(session: DurableSession) -> None:
    for command in ("ln -s /etc /opt/vllm/runs/x", "mv /opt/vllm/cache /opt/vllm/c", "touch /opt/vllm/x"):
        assert not session.run(("sh", "-c", command), as_user="vllm").ok, command


@pytest.mark.parametrize("place", ["/opt/vllm", "/opt/vllm/runs"])
def test_a_client_is_not_started_below_a_directory_of_the_service_users(
    session: DurableSession, place: str
) -> None:
    session.read(("chown", "vllm", place))
    try:
        with pytest.raises(CommandFailed) as caught:
            clients.start(session, client("refused"))
    finally:
        session.read(("chown", "root", place))
    assert f"{place} belongs to vllm, not to root" in caught.value.cause
    assert "invoke provision" in caught.value.next_step


def test_what_a_client_leaves_is_read_with_its_own_rights(session: DurableSession) -> None:
    session.put(b"hf_rootOnlyToken\n", "/etc/spied", mode=0o600)
    links = "rm -f stderr stdout; ln -s /etc/spied stderr; mkfifo stdout; ln -s /dev/zero result.json"
    made = client("links", "bash", "-c", links)
    assert clients.start(session, made) is State.STARTED
    began = time.monotonic()
    assert clients.wait(session, made, said=lambda _: None) is State.FINISHED
    left = clients.fetch(session, made)
    assert (dict(left.content), left.exit_status) == ({}, 0)
    assert time.monotonic() - began < 20
    clients.clear(session, made)


def test_a_host_that_prints_without_end_does_not_fill_the_controllers_memory(session: DurableSession) -> None:
    with pytest.raises(CommandFailed, match="printed more than 64 MiB"):
        session.run(("yes",), timeout_s=60)
    assert session.run(("true",)).ok


def test_a_client_gets_a_directory_of_its_own_in_tmp(session: DurableSession) -> None:
    """torch runs what lies in /tmp/torchinductor_vllm, and any user of the host may have put it there."""
    session.read(("install", "-d", "-m", "0777", "/tmp/torchinductor_vllm"))
    made = replace(client("tmp"), command=("ls", "-A", "/tmp"))
    clients.start(session, made)
    assert clients.wait(session, made, said=lambda _: None) is State.FINISHED
    assert b"torchinductor" not in clients.fetch(session, made).content["stdout"]
    clients.clear(session, made)


def test_nobody_else_can_hold_the_lock_of_a_lease(lab: LabUnderTest, session: DurableSession) -> None:
    """Production would not be given back: restore.sh waits for this lock, then gives up."""
    hold = Hold("run-1", "test", seconds=60)
    hold.take(session)
    argv = ("setpriv", "--reuid=65534", "--clear-groups", "flock", "-n", "/run/fleetbench/.lock", "true")
    held = labs.enter("lab-01", argv, settings=lab.settings)
    hold.release(session)
    assert held.returncode != 0
    assert "Permission denied" in held.stderr

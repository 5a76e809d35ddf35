"""Connections to real sshds: keys, quoting, files, cuts, freezes, rights, jumps."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from invoked import until
from standin_host import Fleet

from fleetbench.errors import CommandFailed, ConnectionLost, HostKeyRefused, NotReached
from fleetbench.lab import cgroups
from fleetbench.lab import lab as labs
from fleetbench.model import Host
from fleetbench.transport.base import Timeouts, bash
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.open import durable, open_session

QUICK = Timeouts(connect_s=2, channel_s=2, command_s=3, keepalive_s=2)


@contextlib.contextmanager
def frozen(fleet: Fleet, name: str) -> Iterator[None]:
    """A host that hangs: its kernel answers TCP, none of its processes runs."""
    switch = cgroups.directories(fleet.settings, name)[0] / "cgroup.freeze"
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text("0")


def with_config(fleet: Fleet, name: str, tmp_path: Path, more: str = "", **changed: str) -> Host:
    """A host under an ssh_config of its own: the lab's, with lines replaced and others put in front."""
    text = (fleet.inventory / "lab" / "ssh_config").read_text("utf-8")
    for key, value in changed.items():
        text = "\n".join(
            f"  {key} {value}" if line.strip().startswith(f"{key} ") else line for line in text.splitlines()
        )
    config = tmp_path / "ssh_config"
    config.write_text(more + text + "\n", "utf-8")
    return replace(fleet.host(name), ssh_config=str(config))


def test_an_unknown_host_key_is_refused_with_the_command_that_adds_it(fleet: Fleet, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    shutil.copytree(fleet.inventory, inventory)
    known = inventory / "lab" / "known_hosts"
    known.write_text("", "utf-8")
    config = inventory / "lab" / "ssh_config"
    config.write_text(config.read_text("utf-8").replace(str(fleet.inventory), str(inventory)), "utf-8")
    hosts = inventory / "lab" / "hosts.toml"
    hosts.write_text(hosts.read_text("utf-8").replace(str(fleet.inventory), str(inventory)), "utf-8")
    done = fleet.invoke("status", "--hosts", "lab-01", FLEETBENCH_INVENTORY=str(inventory))
    assert done.status == 3
    (error,) = done.errors
    key = fleet.on("lab-01", "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    assert key.startswith("SHA256:")
    assert key in error
    command = error.splitlines()[-1].removeprefix("  next:  ")
    assert command == f"ssh-keyscan -H -p 22 {fleet.settings.address(1)} >> {known}"
    assert len(error.splitlines()) == 3
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert fleet.invoke("status", "--hosts", "lab-01", FLEETBENCH_INVENTORY=str(inventory)).status == 0


def test_a_changed_host_key_is_refused_and_not_waited_for(fleet: Fleet) -> None:
    old = fleet.on("lab-02", "cat /etc/ssh/ssh_host_ed25519_key")
    labs.host_key("lab-02", settings=fleet.settings)
    try:
        started = time.monotonic()
        with pytest.raises(HostKeyRefused) as caught:
            durable(fleet.host("lab-02"), patience_s=60).read(("true",))
        assert time.monotonic() - started < 20
        assert "HAS CHANGED" in str(caught.value)
        assert "ssh-keygen -R" in caught.value.next_step
    finally:
        script = "cat > /etc/ssh/ssh_host_ed25519_key && systemctl restart ssh.service"
        fleet.enter("lab-02", script, stdin=old + "\n")


def test_eight_mebibytes_come_back_whole_and_fast(fleet: Fleet) -> None:
    session = open_session(fleet.host("lab-01"))
    script = "seq -w 0 1999999 | head -c 8388608; seq -w 0 99999 >&2"
    done = session.run(bash(script), timeout_s=60)
    session.close()
    assert len(done.stdout) == 8 * 2**20
    assert done.stdout == "".join(f"{number:07}\n" for number in range(2**20))
    assert done.stderr.splitlines() == [f"{number:05}" for number in range(100_000)]
    assert done.seconds < 30


def test_arguments_arrive_as_they_are(fleet: Fleet) -> None:
    hostile = [
        "; touch /tmp/x",
        "$(touch /tmp/x)",
        "`id`",
        "it's",
        '"',
        "a\nb",
        "%n %% \\",
        "",
        "*",
        "~",
        "-n",
        "é",
    ]
    session = open_session(fleet.host("lab-01"))
    done = session.run(("printf", "<%s>\\0", *hostile))
    as_user = session.run(("printf", "<%s>\\0", *hostile), as_user="vllm")
    session.close()
    expected = "".join(f"<{word}>\0" for word in hostile)
    assert (done.stdout, as_user.stdout) == (expected, expected)
    assert fleet.on("lab-01", "ls /tmp/x") == ""


def test_files_of_any_bytes_come_and_go_with_mode_and_owner(fleet: Fleet) -> None:
    content = bytes(range(256)) * 4096
    path = '/root/it\'s a; $HOME "file"'
    session = open_session(fleet.host("lab-01"))
    session.put(content, path, mode=0o640, owner="vllm:root")
    assert session.get(path) == content
    session.put(b"", path, mode=0o600)
    assert session.get(path) == b""
    assert session.run(("stat", "-c", "%a %U:%G", path)).stdout.strip() == "600 root:root"
    with pytest.raises(CommandFailed, match="No such file"):
        session.get("/root/none")
    with pytest.raises(CommandFailed):
        session.put(b"x", "/no/such/directory/file")
    with pytest.raises(CommandFailed):
        session.get("/etc/shadow", as_user="vllm")
    assert session.run(bash("ls -A /tmp | grep fleetbench")).stdout == ""
    session.run(("rm", path))
    session.close()


def test_a_reader_sees_the_old_file_or_the_new_one_and_never_half(fleet: Fleet) -> None:
    session = open_session(fleet.host("lab-01"))
    session.put(b"0" * 500_000, "/root/whole")
    reader = (
        "import collections\nseen = collections.Counter()\n"
        "while not __import__('os').path.exists('/root/enough'):\n"
        "    text = open('/root/whole').read()\n"
        "    seen[(len(text), len(set(text)))] += 1\nprint(sorted(seen))"
    )
    result: list[str] = []
    thread = threading.Thread(target=lambda: result.append(fleet.on("lab-01", f'python3 -c "{reader}"')))
    thread.start()
    for digit in b"123456":
        session.put(bytes([digit]) * 500_000, "/root/whole")
    session.put(b"", "/root/enough")
    thread.join()
    session.run(("rm", "/root/whole", "/root/enough"))
    session.close()
    assert result == ["[(500000, 1)]"]


def test_a_secret_is_never_in_the_hosts_process_list(fleet: Fleet) -> None:
    session = open_session(fleet.host("lab-01"))
    watch = (
        "while ! test -e /root/enough; do for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do "
        "tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -a 'hf_[S]ecret'; done; echo looked"
    )
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(fleet.on("lab-01", watch)))
    thread.start()
    for _ in range(5):
        session.put(b"hf_Secret" + b"x" * 200_000, "/root/token", mode=0o600)
    session.run(("touch", "/root/enough"))
    thread.join()
    session.run(("rm", "/root/token", "/root/enough"))
    session.close()
    assert seen == ["looked"]


def test_a_command_that_outlives_its_limit_is_a_lost_connection(fleet: Fleet) -> None:
    session = open_session(fleet.host("lab-01"))
    started = time.monotonic()
    with pytest.raises(ConnectionLost, match="no answer to sleep within 1 s"):
        session.run(("sleep", "30"), timeout_s=1)
    assert time.monotonic() - started < 10
    session.close()


def test_reading_goes_on_after_the_network_was_down_for_five_seconds(fleet: Fleet) -> None:
    said: list[str] = []
    host = fleet.host("lab-01")
    session = DurableSession(host, lambda: open_session(host, QUICK), said=said.append)
    boot = session.read(("cat", "/proc/sys/kernel/random/boot_id")).stdout
    labs.net("lab-01", "down", settings=fleet.settings)
    mend = threading.Timer(5, lambda: labs.net("lab-01", "up", settings=fleet.settings))
    mend.start()
    started = time.monotonic()
    assert session.read(("cat", "/proc/sys/kernel/random/boot_id"), timeout_s=2).stdout == boot
    assert 2 < time.monotonic() - started < 40
    mend.join()
    session.close()
    assert "not reachable" in said[0]
    assert said[-1] == "reachable again"


def test_a_frozen_host_ends_every_call_within_its_limits(fleet: Fleet) -> None:
    session = open_session(fleet.host("lab-02"), QUICK)
    assert session.run(("true",)).ok
    with frozen(fleet, "lab-02"):
        started = time.monotonic()
        with pytest.raises(ConnectionLost):
            session.run(("true",))
        assert time.monotonic() - started < 15
        session.close()
        started = time.monotonic()
        with pytest.raises(NotReached):
            open_session(fleet.host("lab-02"), QUICK)
        assert time.monotonic() - started < 40
    until(lambda: durable(fleet.host("lab-02")).read(("true",)).ok)


def test_a_host_that_is_off_is_named_at_once(fleet: Fleet) -> None:
    labs.kill("lab-02", settings=fleet.settings)
    started = time.monotonic()
    done = fleet.invoke("status", "--hosts", "@lab", "--format", "json")
    assert time.monotonic() - started < 40
    assert done.status == 3
    assert done.errors[0].startswith("error: lab-02: cannot connect")


def test_a_login_that_is_not_root_works_with_sudo_and_is_explained_without(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.on(
        "lab-01",
        "useradd -m ops; cp -r /root/.ssh /home/ops/; chown -R ops /home/ops/.ssh;"
        "echo 'ops ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/ops",
    )
    host = with_config(fleet, "lab-01", tmp_path, User="ops")
    session = open_session(host)
    assert session.run(("id", "-un")).stdout == "root\n"
    assert session.run(("id", "-un"), as_user="vllm").stdout == "vllm\n"
    session.put(b"by ops", "/etc/by-ops", mode=0o600)
    assert session.get("/etc/by-ops") == b"by ops"
    assert session.run(("stat", "-c", "%a %U", "/etc/by-ops")).stdout == "600 root\n"
    session.run(("rm", "/etc/by-ops", "/etc/sudoers.d/ops"))
    with pytest.raises(CommandFailed) as caught:
        session.run(("id", "-un"))
    session.close()
    fleet.on("lab-01", "userdel -r ops")
    text = str(caught.value)
    assert text.startswith("lab-01: user ops may not become root without a password")
    assert "cause: sudo: a password is required" in text
    assert "NOPASSWD" in caught.value.next_step
    assert len(text.splitlines()) == 3


def test_a_host_behind_another_one_is_reached_through_it(fleet: Fleet, tmp_path: Path) -> None:
    host = with_config(fleet, "lab-02", tmp_path, "Host lab-02\n  ProxyJump lab-01\n")
    session = open_session(host)
    assert session.run(("hostname",)).stdout == "lab-02\n"
    client = session.run(bash("echo $SSH_CONNECTION")).stdout.split()[0]
    session.close()
    assert client == fleet.settings.address(1)
    fleet.on("lab-01", "systemctl stop ssh.service")
    try:
        with pytest.raises(NotReached) as caught:
            open_session(host, QUICK)
    finally:
        fleet.on("lab-01", "systemctl start ssh.service")
    assert str(caught.value).startswith("lab-02: cannot connect")


def test_a_forwarded_port_leads_to_the_host_each_connection_for_itself(fleet: Fleet) -> None:
    fleet.on("lab-01", "systemd-run --unit=foreign python3 -m http.server 9009 --bind 127.0.0.1 -d /etc")
    until(lambda: ":9009 " in fleet.on("lab-01", "ss -Htln"))
    session = open_session(fleet.host("lab-01"))
    with session.forward(9008) as nothing_there, session.forward(9009) as port:
        with pytest.raises(OSError):  # noqa: PT011  refused, reset or closed: all that matters is that it ends
            urllib.request.urlopen(f"http://127.0.0.1:{nothing_there}/", timeout=10)
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/hostname", timeout=10) as answer:
                assert answer.read() == b"lab-01\n"
    assert session.run(("true",)).ok
    session.close()

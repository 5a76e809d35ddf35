"""Facts that are not GPUs, from the probe's sections; and the frame itself."""

from __future__ import annotations

import hashlib

import pytest
from facts_answers import BARE, NVIDIA, SERVING, TOKEN, Ended, facts_of, framed

from fleetbench.errors import CommandFailed
from fleetbench.facts.probe import command, parse, read
from fleetbench.facts.sections import split
from fleetbench.facts.values import Account, Disk, File, Listener, Missing, Os, Python, Unit, Venv
from fleetbench.model import Build, Host
from fleetbench.transport.base import CommandResult
from fleetbench.transport.fake import FakeSession

HOST = Host(name="h100-01", build=Build(name="cuda", version="0.10.1.1"))


def test_the_system_is_described_from_os_release_kernel_and_libc() -> None:
    system = facts_of(BARE).os
    assert isinstance(system, Os)
    assert (system.id, system.version, system.glibc, system.package_manager) == (
        "rocky",
        "9.5",
        "2.34",
        "dnf",
    )
    assert system.name == "Rocky Linux 9.5 (Blue Onyx)"
    assert system.family == ("rocky", "rhel", "centos", "fedora")
    assert (system.hostname, system.architecture) == ("h100-01", "x86_64")
    assert system.boot_id == "0b7a44a2-6d1f-4a9e-8a51-5f6d0e3c2b19"


def test_the_machine_is_counted() -> None:
    facts = facts_of(BARE)
    assert (facts.root, facts.cpus, facts.numa_nodes, facts.memory_mib) == (True, 192, 2, 1032015)
    assert (facts.selinux, facts.clock_utc) == ("Enforcing", 1772525695.25)
    assert (facts.time_sync, facts.time_offset_ms) == ("yes", -0.412345)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("NTPSynchronized=no\n", "no"),
        ("NTPSynchronized=yes\n", "yes"),
        ("Leap status     : Not synchronised\n", "no"),
    ],
)
def test_a_clock_that_nobody_keeps_is_said(text: str, state: str) -> None:
    assert facts_of(BARE, {"time": text}).time_sync == state


def test_a_host_without_time_service_is_unknown_not_missing() -> None:
    facts = facts_of(BARE, {"time": Ended("", 127, "neither chronyc nor timedatectl is there\n")})
    assert (facts.time_sync, dict(facts.missing)) == ("", {})


def test_interpreters_that_answer_are_listed_and_broken_ones_left_out() -> None:
    assert facts_of(BARE).pythons == (
        Python(name="python3", version="3.9.21", path="/usr/bin/python3.9", venv=True, headers=False),
        Python(name="python3.9", version="3.9.21", path="/usr/bin/python3.9", venv=True, headers=False),
        Python(name="python3.12", version="3.12.8", path="/usr/bin/python3.12", venv=True, headers=True),
    )


def test_tools_packages_and_accounts_are_named() -> None:
    facts = facts_of(BARE)
    assert facts.tools == {
        "uv": "/usr/local/bin/uv",
        "dnf": "/usr/bin/dnf",
        "nvidia-smi": "/usr/bin/nvidia-smi",
    }
    assert facts.tool_versions == {"uv": "0.9.7"}
    assert facts.packages == {"python3.12": "3.12.8-1.el9", "python3.12-devel": "3.12.8-1.el9"}
    account = Account(name="vllm", uid=987, home="/opt/vllm", shell="/sbin/nologin")  # noqa: S604  a login shell
    assert facts.accounts == {"vllm": account}


def test_a_debian_package_that_was_removed_is_not_installed() -> None:
    rows = "nginx\t1.22\tconfig-files\ncurl\t7.88\tinstalled\npython3.12\t\tnot-installed\n"
    assert facts_of(BARE, {"packages": rows}).packages == {"curl": "7.88"}


def test_a_unit_carries_state_file_and_running_process() -> None:
    units = facts_of(BARE, SERVING).units
    assert not isinstance(units, Missing)
    assert set(units) == {"vllm-8001.service", "vllm-8002.service", "fleetbench-bench-r17.service"}
    assert units["vllm-8001.service"] == Unit(
        name="vllm-8001.service",
        load="loaded",
        active="active",
        sub="running",
        result="success",
        main_pid=40100,
        exit_code=0,
        restarts=2,
        invocation="8f0b2d1c5a7e4960b3f1a2c4d5e6f708",
        fragment="/etc/systemd/system/vllm-8001.service",
        enabled="enabled",
        need_reload=True,
        spec="3fa1c09b77de",
        running_spec="91bb02c4ee10",
        gpus="0,1",
        port=8001,
        description="vLLM Qwen/Qwen3-32B on port 8001",
        drop_ins=("/etc/systemd/system/vllm-8001.service.d/override.conf",),
    )
    failed = units["vllm-8002.service"]
    assert (failed.active, failed.result, failed.exit_code, failed.restarts) == ("failed", "exit-code", 1, 4)
    assert (failed.spec, failed.running_spec, failed.enabled) == ("aa00bb11cc22", "", "disabled")


def test_marks_of_a_promoted_unit_and_of_a_balancer_are_read_and_hostile_ones_are_harmless() -> None:
    path = "/etc/systemd/system/vllm-8001.service"
    rows = (
        f"file\t{path}\tPROMOTED\trun-1/3 1,234 tok/s at c=64\n"
        f"file\t{path}\tSERVERS\t8002,x,8003,,-1\n"
        f"file\t{path}\tOTHER\tsecret\n"
    )
    units = facts_of(BARE, SERVING, {"marks": rows}).units
    assert not isinstance(units, Missing)
    found = units["vllm-8001.service"]
    assert (found.promoted, found.servers) == ("run-1/3 1,234 tok/s at c=64", (8002, 8003))
    assert "secret" not in str(found)


def test_without_systemd_units_are_missing_and_the_rest_is_there() -> None:
    ended = Ended("", 1, "System has not been booted with systemd as init system (PID 1). Can't operate.\n")
    facts = facts_of(BARE, {"units": ended})
    assert isinstance(facts.units, Missing)
    assert "not been booted with systemd" in facts.units.reason
    assert isinstance(facts.os, Os)


def test_venvs_are_known_by_their_packages_and_stamp() -> None:
    venvs = facts_of(BARE, SERVING).venvs
    assert not isinstance(venvs, Missing)
    whole = venvs["/opt/vllm/venvs/vllm-0.10.1.1"]
    assert whole == Venv(
        path="/opt/vllm/venvs/vllm-0.10.1.1",
        python="3.12.8",
        packages={
            "vllm": "0.10.1.1",
            "torch": "2.7.1+cu128",
            "flashinfer-python": "0.2.12",
            "huggingface-hub": "0.34.4",
        },
        complete=True,
        lock="5c1e9a2b7d40",
    )
    half = venvs["/opt/vllm/venvs/vllm-0.11.0"]
    assert (half.vllm, half.complete, half.python, half.lock) == ("0.11.0", False, "", "")


def test_listeners_are_tied_to_units_and_a_forged_process_name_does_not_help() -> None:
    listeners = facts_of(BARE, NVIDIA, SERVING).listeners
    assert listeners == (
        Listener(address="0.0.0.0", port=22, pid=812, process="sshd", unit="sshd.service"),
        Listener(address="[::]", port=22, pid=812, process="sshd", unit="sshd.service"),
        Listener(address="127.0.0.53%lo", port=53, pid=777, process='a",pid=1,fd=3)', unit=""),
        Listener(address="0.0.0.0", port=8001, pid=40100, process="vllm", unit="vllm-8001.service"),
        Listener(address="*", port=9100, pid=None, process="", unit=""),
    )


def test_the_firewall_shows_the_ports_of_its_default_zone() -> None:
    facts = facts_of(BARE, SERVING)
    assert (facts.firewalld, facts.firewall_ports) == ("running", ("8001/tcp", "8101-8110/tcp"))


def test_a_stopped_firewall_is_no_failure_and_a_hanging_one_is() -> None:
    stopped = facts_of(BARE, {"firewall": Ended("", 252, "FirewallD is not running\n")})
    assert (stopped.firewalld, dict(stopped.missing)) == ("not running", {})
    hanging = facts_of(BARE, {"firewall": Ended("", 124)})
    assert (hanging.firewalld, hanging.missing["firewalld"]) == (
        "",
        "firewall-cmd: no answer in time; it hangs",
    )


def test_free_disk_space_is_that_of_the_nearest_parent() -> None:
    assert facts_of(BARE).disks == (
        Disk(path="/opt/vllm", free_mib=204800, total_mib=512000),
        Disk(path="/", free_mib=10000, total_mib=71680),
        Disk(path="/data/models/new", free_mib=3515625, total_mib=3906250),
    )


def files_section(content: str, digest: str) -> dict[str, str]:
    path = "/etc/systemd/system/vllm-8001.service"
    return {
        "files": (
            f"file\tregular file\t644\troot:root\t{path}\n"
            f"text\t1\t{path}\n"
            "file\tsymbolic link\t777\troot:root\t/opt/vllm/venv-vllm\n"
            "target\t/opt/vllm/venv-vllm\tvenvs/vllm-0.10.1.1\n"
            "file\tdirectory\t2750\tvllm:vllm\t/opt/vllm\n"
            f"{digest}  {path}\n"
        ),
        "text-1": content,
    }


def test_files_come_with_hash_mode_owner_target_and_exact_text() -> None:
    content = "[Unit]\nDescription=x\n"
    digest = hashlib.sha256(content.encode()).hexdigest()
    files = facts_of(BARE, files_section(content, digest)).files
    assert files["/etc/systemd/system/vllm-8001.service"] == File(
        path="/etc/systemd/system/vllm-8001.service",
        sha256=digest,
        mode=0o644,
        owner="root:root",
        text=content,
    )
    assert files["/opt/vllm/venv-vllm"].target == "venvs/vllm-0.10.1.1"
    assert (files["/opt/vllm/venv-vllm"].kind, files["/opt/vllm"].kind) == ("link", "directory")
    assert (files["/opt/vllm"].mode, files["/opt/vllm"].owner) == (0o2750, "vllm:vllm")


def test_a_text_without_its_last_newline_is_given_back_without_it() -> None:
    digest = hashlib.sha256(b"[Unit]").hexdigest()
    files = facts_of(BARE, files_section("[Unit]\n", digest)).files
    assert files["/etc/systemd/system/vllm-8001.service"].text == "[Unit]"


def test_a_text_that_does_not_have_its_hash_is_not_kept() -> None:
    digest = hashlib.sha256(b"something else").hexdigest()
    files = facts_of(BARE, files_section("[Unit]\n", digest)).files
    assert files["/etc/systemd/system/vllm-8001.service"].text is None


def test_host_text_cannot_forge_a_section_even_when_it_knows_the_token() -> None:
    forged = f"\n{TOKEN}.units.rc\n 0\n{TOKEN}.machine.out\n uid\t0\n"
    facts = facts_of(BARE, {"machine": "uid\t1000\n", "listeners": forged, "accounts": forged})
    assert facts.root is False
    assert facts.listeners == ()


def test_words_before_and_after_the_frame_are_ignored() -> None:
    text = "Welcome to h100-01\n last login: never\n" + framed(dict(BARE)) + "bye\n"
    assert parse(text, host="h100-01", token=TOKEN) == facts_of(BARE)


def test_another_runs_token_opens_nothing() -> None:
    facts = parse(framed(dict(BARE)), host="h100-01", token="f" * 32)
    assert isinstance(facts.os, Missing)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.5, 0.75, 0.99])
def test_an_answer_that_was_cut_off_is_partly_facts_and_partly_missing(share: float) -> None:
    text = framed(dict(sorted((BARE | NVIDIA | SERVING).items())))
    facts = parse(text[: int(len(text) * share)], host="h100-01", token=TOKEN)
    assert facts.missing, "something has to be missing"
    assert "cut off" in " ".join(facts.missing.values())


def test_a_complete_answer_says_that_it_is_complete() -> None:
    assert split(framed({"os": "x"}), TOKEN).complete
    assert not split(framed({"os": "x"}, end=False), TOKEN).complete


def test_reading_facts_takes_one_round_trip() -> None:
    def answer(line: str) -> str:
        token = line.split(" fleetbench ")[1].split(maxsplit=1)[0]
        return framed(dict(BARE)).replace(TOKEN, token)

    session = FakeSession(HOST, [("fleetbench", answer)])
    facts = read(session, paths=("/etc/a b",), packages=("python3.12",))
    assert session.round_trips == 1
    assert facts.host == "h100-01"
    assert isinstance(facts.os, Os)
    assert "'file:/etc/a b' package:python3.12" in session.commands[0]


def test_a_probe_that_could_not_start_says_why() -> None:
    result = CommandResult(command="", exit_status=127, stdout="", stderr="bash: not found\n")
    facts = read(FakeSession(HOST, [("fleetbench", result)]))
    assert isinstance(facts.units, Missing)
    assert facts.units.reason == "the probe did not start: bash: not found"


def test_an_unreachable_host_stays_an_error() -> None:
    session = FakeSession(HOST, [("fleetbench", CommandFailed("gone"))])
    with pytest.raises(CommandFailed):
        read(session)


def test_the_probe_fits_into_one_argument() -> None:
    argv = command(prefix="/opt/vllm", user="vllm", token=TOKEN)
    assert argv[:2] == ("bash", "-c")
    assert len(argv[2].encode()) < 60_000, "quoting by ssh and sudo adds to it; Linux allows 131072 bytes"

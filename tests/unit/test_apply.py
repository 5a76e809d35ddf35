"""Steps are run in order, long ones as units that outlive the connection; a failure names its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from provision_hosts import LAB_HOST

from fleetbench import transient
from fleetbench.apply import Patience, apply
from fleetbench.audit import AuditLog, masked
from fleetbench.errors import CommandFailed, ConnectionLost, FleetbenchError
from fleetbench.install_output import cause
from fleetbench.operations.credentials import Secret
from fleetbench.steps import PutFile, Run, Step
from fleetbench.transport.base import CommandResult
from fleetbench.transport.fake import Answer, FakeSession

QUICK = Patience(poll_s=0.001, lost_s=0.2, first_retry_s=0.001, longest_retry_s=0.01)
INSTALL = Run(
    argv=("bash", "install.sh", "$HOME", "a b"), unit="fleetbench-install-x", user="vllm", timeout_s=60
)


def step(action: Run | PutFile, summary: str = "do it") -> Step:
    return Step(summary=summary, reason="not there", action=action)


def look(
    active: str, sub: str, *lines: str, result: str = "success", status: int = 0, of: Run = INSTALL
) -> str:
    """What one look at a unit answers."""
    head = {
        "LoadState": "not-found" if active == "inactive" else "loaded",
        "ActiveState": active,
        "SubState": sub,
        "Result": result,
        "ExecMainStatus": str(status),
        "InvocationID": "" if active == "inactive" else "0123abcd",
        "Description": f"fleetbench: do it [{transient.mark(of)}]",
    }
    text = "".join(f"{name}={value}\n" for name, value in head.items())
    journal = "".join(f"{line}\n" for line in (*lines, "-- cursor: s=1;i=2"))
    return text if active == "inactive" else f"{text}\n{journal}"


def in_turn(*answers: Answer) -> Callable[[str], Answer]:
    """Answer each time with the next; the last one stays."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def polled(*answers: Answer) -> FakeSession:
    return FakeSession(LAB_HOST, [("journalctl", in_turn(*answers))])


def test_quick_steps_run_in_order_and_files_carry_mode_and_owner() -> None:
    session = FakeSession(LAB_HOST)
    told: list[str] = []
    steps = [
        step(Run(argv=("install", "-d", "/opt/x")), "directory /opt/x"),
        step(PutFile(path="/opt/x/f", content=b"text", mode=0o600, owner="vllm:vllm"), "write /opt/x/f"),
    ]
    apply(session, steps, progress=told.append)
    assert session.commands == ["install -d /opt/x"]
    assert session.files["/opt/x/f"] == b"text"
    assert session.modes["/opt/x/f"] == (0o600, "vllm:vllm")
    assert told == ["[1/2] directory /opt/x", "[2/2] write /opt/x/f"]


def test_nothing_runs_after_a_step_that_failed() -> None:
    broken = CommandResult(command="", exit_status=9, stdout="", stderr="useradd: group vllm exists\n")
    session = FakeSession(LAB_HOST, [("useradd", broken)])
    with pytest.raises(CommandFailed) as caught:
        apply(session, [step(Run(argv=("useradd", "vllm"))), step(Run(argv=("reboot",)))])
    assert "group vllm exists" in str(caught.value)
    assert session.commands == ["useradd vllm"]


def test_a_long_step_becomes_a_unit_with_limits_and_its_lines_are_told_once() -> None:
    session = polled(
        look("inactive", "dead"),
        look("active", "running", "Resolved 3 packages"),
        look("active", "running", "Resolved 3 packages"),
        look("active", "running", "Downloading torch"),
        look("active", "exited", "done"),
    )
    told: list[str] = []
    apply(session, [step(INSTALL)], progress=told.append, patience=QUICK)
    (started,) = [line for line in session.commands if "exec systemd-run" in line]
    for part in (
        "--unit=fleetbench-install-x",
        "--property=RemainAfterExit=yes",
        "--property=LimitNOFILE=1048576",
        "--property=RuntimeMaxSec=60",
        "--uid=vllm",
        "'$$HOME' 'a b'",
    ):
        assert part in started
    assert told == ["[1/1] do it", "Resolved 3 packages", "Downloading torch"]
    assert "systemctl stop" in session.commands[-1]


def test_what_our_own_script_says_is_told_though_it_was_over_between_two_looks() -> None:
    quick = ("fleetbench: making /opt/vllm/venvs/x with uv", "Using CPython 3.12", "fleetbench: checking")
    session = polled(
        look("inactive", "dead"),
        look("active", "running", "fleetbench: fetching"),
        look("active", "exited", *quick, "Installed 3 packages"),
    )
    told: list[str] = []
    apply(session, [step(INSTALL)], progress=told.append, patience=QUICK)
    assert told == [
        "[1/1] do it",
        "fleetbench: fetching",
        "fleetbench: making /opt/vllm/venvs/x with uv",
        "fleetbench: checking",
    ]


def test_a_unit_that_runs_already_is_followed_and_not_started_again() -> None:
    session = polled(look("active", "running", "half way"), look("active", "exited"))
    told: list[str] = []
    apply(session, [step(INSTALL)], progress=told.append, patience=QUICK)
    assert not [line for line in session.commands if "exec systemd-run" in line]
    assert "fleetbench-install-x runs already: following it" in told


def test_a_running_unit_of_that_name_with_other_arguments_is_left_alone() -> None:
    other = Run(argv=("bash", "install.sh", "another"), unit=INSTALL.unit)
    session = polled(look("active", "running", of=other))
    with pytest.raises(CommandFailed, match="runs with other arguments"):
        apply(session, [step(INSTALL)], patience=QUICK)
    assert not [line for line in session.commands if "systemd-run" in line or "systemctl stop" in line]


def test_a_lost_connection_is_made_again_and_the_unit_found_again() -> None:
    first = polled(
        look("inactive", "dead"), look("active", "running"), ConnectionLost("broke", cause="Broken pipe")
    )
    second = polled(look("active", "exited", "done"))
    tries = []

    def reconnect() -> FakeSession:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionLost("still away")
        return second

    told: list[str] = []
    open_at_the_end = apply(first, [step(INSTALL)], reconnect=reconnect, progress=told.append, patience=QUICK)
    assert open_at_the_end is second
    assert len(tries) == 3
    assert not [line for line in second.commands if "exec systemd-run" in line]
    assert any("goes on, connecting again" in line for line in told)
    assert any(line.startswith("connected again") for line in told)


def test_a_start_whose_answer_was_lost_is_not_done_twice() -> None:
    session = FakeSession(
        LAB_HOST,
        [
            ("exec systemd-run", ConnectionLost("broke")),
            ("journalctl", in_turn(look("inactive", "dead"), look("active", "exited"))),
        ],
    )
    apply(session, [step(INSTALL)], patience=QUICK)
    assert len([line for line in session.commands if "exec systemd-run" in line]) == 1


def test_a_host_that_stays_away_is_given_up_with_the_way_to_go_on() -> None:
    session = polled(look("inactive", "dead"), look("active", "running"), ConnectionLost("away"))
    with pytest.raises(ConnectionLost) as caught:
        apply(session, [step(INSTALL)], patience=QUICK)
    assert "may still run" in str(caught.value)
    assert "it finds the unit by its name" in caught.value.next_step


def test_a_failed_install_quotes_the_decisive_line_and_not_the_last() -> None:
    session = polled(
        look("inactive", "dead"),
        look("active", "running", "error: No space left on device (os error 28)", "cleaning up"),
        look("failed", "failed", "fleetbench-install-x.service: Failed with result 'exit-code'.", status=2),
    )
    with pytest.raises(CommandFailed) as caught:
        apply(session, [step(INSTALL, "install vllm")], patience=QUICK)
    assert caught.value.what == "install vllm: did not work"
    assert "No space left on device" in caught.value.cause
    assert "free some room" in caught.value.next_step
    assert len(str(caught.value).splitlines()) == 3


def test_a_unit_that_vanished_is_never_taken_for_success() -> None:
    session = polled(look("inactive", "dead"), look("active", "running"), look("inactive", "dead"))
    with pytest.raises(CommandFailed, match="is gone"):
        apply(session, [step(INSTALL)], patience=QUICK)


def test_a_unit_that_ran_into_its_limit_says_so() -> None:
    session = polled(
        look("inactive", "dead"), look("failed", "failed", "Downloading torch", result="timeout")
    )
    with pytest.raises(CommandFailed, match="took longer than 60 s") as caught:
        apply(session, [step(INSTALL)], patience=QUICK)
    assert "Downloading torch" in caught.value.cause


def test_a_units_environment_goes_through_a_root_only_file() -> None:
    secret = Run(argv=("true",), unit="fleetbench-x", env=(("https_proxy", 'http://u:p"$w@h'), ("A", "b c")))
    session = polled(look("inactive", "dead", of=secret), look("active", "exited", of=secret))
    apply(session, [step(secret)], patience=QUICK)
    path = "/run/fleetbench/environment/fleetbench-x"
    assert session.files[path] == b'https_proxy="http://u:p\\"\\$w@h"\nA="b c"\n'
    assert session.modes[path] == (0o600, "root:root")
    assert not [line for line in session.commands if "u:p" in line]
    assert path in session.commands[-1], "removed at the end"


@pytest.mark.parametrize(("name", "value"), [("A B", "x"), ("A", "x\nB=y"), ("", "x"), ("A", "\0")])
def test_an_environment_that_would_smuggle_in_another_line_is_refused(name: str, value: str) -> None:
    with pytest.raises(CommandFailed, match="cannot be passed on"):
        transient.environment_file(((name, value),))


def test_every_step_has_its_line_in_the_audit_also_the_one_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "audit.jsonl"
    broken = CommandResult(command="", exit_status=1, stdout="", stderr="denied for hf_aBcdefGhijkl\n")
    session = FakeSession(LAB_HOST, [("false", broken)])
    steps = [
        step(
            PutFile(path="/etc/secret", content=Secret(b"hf_aBcdefGhijkl"), mode=0o600, secret=True),
            "write it",
        ),
        step(Run(argv=("false", "http://user:password@proxy/", "hf_aBcdefGhijkl")), "try it"),
    ]
    with pytest.raises(CommandFailed):
        apply(session, steps, audit=AuditLog(path))
    text = path.read_text("utf-8")
    first, second = map(json.loads, text.splitlines())
    assert (first["host"], first["step"], first["status"]) == ("lab-01", "write it", "ok")
    assert first["command"] == "put /etc/secret 0600 root:root"
    assert (second["status"], second["plan"]) == ("failed", first["plan"])
    assert second["cause"] == "denied for ***"
    assert "abcdefghijkl" not in text
    assert "password" not in text


def test_an_audit_that_cannot_be_written_stops_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file", "utf-8")
    session = FakeSession(LAB_HOST)
    with pytest.raises(FleetbenchError, match="cannot write the audit"):
        apply(session, [step(Run(argv=("true",)))], audit=AuditLog(tmp_path / "runs" / "audit.jsonl"))
    assert session.commands == []


def test_a_script_is_cut_to_its_first_line_in_the_audit() -> None:
    assert (
        masked(("bash", "-c", "\nset -eu\nrm -rf /x\n", "fleetbench", "a"))
        == "bash -c set -eu … fleetbench a"
    )


@pytest.mark.parametrize(
    ("lines", "decisive"),
    [
        (["ERROR: No matching distribution found for vllm==9", "ERROR: exit"], "No matching distribution"),
        (["Error: Unable to find a match: python3.12"], "Unable to find a match"),
        (["E: Unable to locate package python3.12"], "Unable to locate"),
        (["  × No solution found when resolving dependencies:", "  ╰─▶ Because x"], "No solution found"),
        (["error: Failed to fetch: `https://x/`", "  Caused by: dns error"], "dns error"),
        (["ImportError: libnuma.so.1: cannot open shared object file", "Traceback …"], "libnuma.so.1"),
        (
            ["something unheard of", "Main process exited, code=exited, status=1/FAILURE"],
            "something unheard of",
        ),
        ([], ""),
    ],
)
def test_the_decisive_line_is_found_in_the_output_of_dnf_apt_pip_and_uv(
    lines: list[str], decisive: str
) -> None:
    found = cause(lines, "fleetbench-install-x")
    assert decisive in found.line
    assert found.advice
    assert "UNIT" not in found.advice

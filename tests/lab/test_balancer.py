"""Several servers of a trial behind nginx on a real host: measured through it, watched, gone afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from invoked import Running, until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, RunState, TrialRow, Verdict

SWEEP = ("sweep", "--model", "good", "--hosts", "lab-01", "--sweep")
FRONT, FIRST, SECOND = (f"vllm-sweep-{port}.service" for port in (8101, 8102, 8103))


@pytest.fixture(scope="module")
def with_nginx(booted_fleet: Fleet) -> Fleet:
    """The hosts after `dnf install nginx`, as provision does it."""
    for name in booted_fleet.names:
        done = booted_fleet.enter(name, "dnf -y -q install nginx")
        assert done.returncode == 0, done.stderr
    return booted_fleet


@pytest.fixture
def served(with_nginx: Fleet) -> Iterator[Fleet]:
    """Production on two of the first host's four GPUs: each test has to leave it serving."""
    if with_nginx.model_on("lab-01") != "standin/other":
        with_nginx.deploy("other", gpus="0,1")
    yield with_nginx
    with_nginx.clean(keep_services=True)


def check_nothing_left(fleet: Fleet) -> None:
    """Production serves as before, and no server, balancer, file or client is left."""
    check_no_server_left(fleet)
    assert fleet.left("lab-01") == ""


def check_no_server_left(fleet: Fleet) -> None:
    """Production serves as before, and no process, unit or port of a sweep is left."""
    until(lambda: fleet.serves("lab-01"))
    assert fleet.model_on("lab-01") == "standin/other"
    assert fleet.on("lab-01", "ls -d /run/systemd/system/vllm-* /run/vllm-* /run/fleetbench/vllm-*") == ""
    assert fleet.on("lab-01", "pgrep -a nginx; pgrep -af 'vllm serve' | grep -v 8001") == ""
    assert fleet.on("lab-01", "ss -Htln 'sport >= :8101 and sport <= :8199'") == ""


def only_trial(fleet: Fleet) -> TrialRow:
    with fleet.store() as store:
        (trial,) = store.trials(store.run("latest").id)
    return trial


def completions(fleet: Fleet, unit: str) -> int:
    """How many a server was asked for in its last life, as it said when it was stopped."""
    said = fleet.on("lab-01", f"journalctl -u {unit} -o cat --no-pager | grep 'was asked for' | tail -n 1")
    return int(re.findall(r"\d+", said)[0])


def middle_of(fleet: Fleet) -> Running:
    """A sweep of two servers in the middle of its repeat."""
    sweep = fleet.begin(*SWEEP, "units")
    sweep.wait_for("reaches all 2 servers")
    sweep.wait_for("/80 requests")
    return sweep


def test_without_nginx_a_sweep_with_units_is_refused_before_anything_is_touched(booted_fleet: Fleet) -> None:
    assert booted_fleet.on("lab-01", "command -v nginx") == ""
    before = booted_fleet.listing("lab-01")
    done = booted_fleet.invoke(*SWEEP, "units")
    assert done.status == 1
    (error,) = done.errors
    assert "needs nginx" in error
    assert "invoke provision --hosts lab-01" in error
    assert booted_fleet.listing("lab-01") == before
    with booted_fleet.store() as store:
        assert store.runs() == ()


def test_check_shows_the_gpu_set_and_the_port_of_each_server(served: Fleet) -> None:
    before = served.listing("lab-01")
    done = served.invoke(*SWEEP, "units-and-more", "--check", "--format", "csv")
    assert done.status == 2, done.err
    rows = [line.split(",") for line in done.out.splitlines()]
    assert rows[0][:4] == ["trial", "host", "gpus", "port"]
    assert '1,lab-01,"0,1",8101,' in done.out
    assert "2,lab-01,0 + 1,8101 → 8102 8103," in done.out
    assert '3,lab-01,"0,1 + 2,3",8101 → 8102 8103,' in done.out
    assert served.listing("lab-01") == before


def test_two_servers_are_measured_through_nginx_and_both_get_half(served: Fleet) -> None:
    done = served.invoke(*SWEEP, "units")
    assert done.status == 0, done.err
    check_nothing_left(served)
    trial = only_trial(served)
    assert (trial.state, trial.port, trial.member_ports) == (TrialState.MEASURED, 8101, (8102, 8103))
    assert trial.unit_name == FRONT
    assert [(each["unit"], each["gpus"]) for each in trial.effective["members"]] == [
        (FIRST, [0]),
        (SECOND, [1]),
    ]
    with served.store() as store:
        measured = [row for row in store.measurements(trial.run_id) if row.kind is MeasurementKind.MEASURE]
        kept = {path.name for path in (store.directory(trial.run_id) / "trial-01").iterdir()}
    assert [row.verdict for row in measured] == [Verdict.VALID]
    for unit in (FRONT, FIRST, SECOND):
        assert {unit, unit.replace(".service", ".journal")} <= kept
    assert "vllm-sweep-8101.conf" in kept
    shares = [completions(served, unit) for unit in (FIRST, SECOND)]
    assert sum(shares) >= 82
    assert min(shares) >= 30
    assert served.on("lab-01", "systemctl is-active nginx; systemctl is-enabled nginx").split() == [
        "inactive",
        "disabled",
    ]


def test_one_server_and_several_follow_each_other_on_the_same_ports(served: Fleet) -> None:
    done = served.invoke(*SWEEP, "units-and-more")
    assert done.status == 0, done.err
    check_nothing_left(served)
    with served.store() as store:
        trials = store.trials(store.run("latest").id)
    assert [trial.state.value for trial in trials] == ["measured", "measured", "measured", "failed"]
    assert trials[3].failure is not None
    assert "needs 8 GPUs, got 4" in trials[3].failure.cause


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("second-exits", "server 2 of 2 (GPU 1, port 8103): "),
        ("second-dies", "server 2 of 2 (GPU 1, port 8103): "),
    ],
)
def test_a_server_that_dies_fails_the_trial_and_its_cause_is_named(
    served: Fleet, model: str, words: str
) -> None:
    done = served.invoke("sweep", "--model", model, "--hosts", "lab-01", "--sweep", "units")
    assert done.status == 0, done.err
    check_nothing_left(served)
    trial = only_trial(served)
    assert trial.state is TrialState.FAILED
    assert trial.failure is not None
    assert trial.failure.cause.startswith(words)
    assert trial.failure.kind == "gpu-out-of-memory"
    assert "CUDA out of memory" in trial.failure.evidence
    with served.store() as store:
        place = store.directory(trial.run_id) / "trial-01"
        rows = store.measurements(trial.run_id)
    assert "CUDA out of memory" in (place / "vllm-sweep-8103.journal").read_text("utf-8")
    assert Verdict.VALID not in {row.verdict for row in rows}


def test_a_balancer_that_dies_fails_the_trial_under_its_own_name(served: Fleet) -> None:
    sweep = middle_of(served)
    served.on("lab-01", f"systemctl kill -s KILL {FRONT}")
    done = sweep.done()
    assert done.status == 0, done.err
    check_nothing_left(served)
    failure = only_trial(served).failure
    assert failure is not None
    assert failure.cause.startswith("the balancer on port 8101: ")


def test_after_a_kill_in_the_middle_all_servers_and_the_balancer_are_found_again(served: Fleet) -> None:
    sweep = middle_of(served)
    pids = f"systemctl show {FRONT} {FIRST} {SECOND} -P MainPID"
    before = served.on("lab-01", pids)
    sweep.kill()
    again = served.begin(*SWEEP, "units")
    again.wait_for("its servers still run")
    assert served.on("lab-01", pids) == before
    done = again.done()
    assert done.status == 0, done.err
    check_nothing_left(served)
    with served.store() as store:
        run = store.run("latest")
        rows = store.measurements(run.id)
    assert run.state is RunState.DONE
    assert [(row.kind, row.attempt) for row in rows] == [
        (MeasurementKind.WARMUP, 1),
        (MeasurementKind.MEASURE, 1),
    ]
    assert rows[1].verdict is Verdict.VALID


def test_a_kill_and_an_end_of_the_lease_leave_nothing_of_several_servers(served: Fleet) -> None:
    middle_of(served).kill()
    done = served.invoke("unlock", "--hosts", "lab-01", "--yes")
    assert done.status == 0, done.err
    check_no_server_left(served)
    again = served.invoke(*SWEEP, "units")
    assert again.status == 0, again.err
    check_nothing_left(served)
    assert only_trial(served).state is TrialState.MEASURED


def test_after_a_reboot_in_the_middle_several_servers_are_started_again(served: Fleet) -> None:
    sweep = middle_of(served)
    labs.reboot("lab-01", hard=True, settings=served.settings)
    done = sweep.done()
    assert done.status == 0, done.err
    check_nothing_left(served)
    assert only_trial(served).state is TrialState.MEASURED


def test_servers_of_another_trial_that_a_killed_controller_left_are_ended_first(served: Fleet) -> None:
    served.on(
        "lab-01",
        "systemd-run --unit=vllm-sweep-8110 -E CUDA_VISIBLE_DEVICES=0 -E FLEETBENCH_GPUS=0 -q"
        " /opt/vllm/venv-vllm/bin/vllm serve stray --port 8110",
    )
    done = served.invoke(*SWEEP, "units")
    assert done.status == 0, done.err
    assert "stopping vllm-sweep-8110.service" in done.err
    check_nothing_left(served)
    assert only_trial(served).state is TrialState.MEASURED


def test_a_port_that_is_taken_meanwhile_is_replaced_by_the_next_one(served: Fleet) -> None:
    sweep = middle_of(served)
    sweep.interrupt()
    (error,) = sweep.done().errors
    served.on("lab-01", "systemd-run -q --unit=foreign /usr/bin/python3 -m http.server --bind 127.0.0.1 8103")
    until(lambda: "8103" in served.on("lab-01", "ss -Htln 'sport = :8103'"))
    done = served.invoke(*error.splitlines()[-1].partition("invoke ")[2].split())
    assert done.status == 0, done.err
    assert "port 8103 is held by foreign.service" in done.err
    trial = only_trial(served)
    assert (trial.state, trial.port, trial.member_ports) == (TrialState.MEASURED, 8101, (8102, 8104))
    served.on("lab-01", "systemctl stop foreign")
    check_nothing_left(served)


def test_a_server_that_stands_still_fails_the_trial_while_the_other_one_works(served: Fleet) -> None:
    done = served.invoke("sweep", "--model", "second-stalls", "--hosts", "lab-01", "--sweep", "units")
    assert done.status == 0, done.err
    check_nothing_left(served)
    failure = only_trial(served).failure
    assert failure is not None
    assert failure.cause.startswith("server 2 of 2 (GPU 1, port 8103): ")
    assert failure.kind == "server-hangs"


def test_trials_of_several_servers_run_side_by_side_behind_balancers_of_their_own(served: Fleet) -> None:
    done = served.invoke(
        *("sweep", "--model", "calm", "--hosts", "lab-01", "--sweep", "packed-units", "--pack"),
        timeout_s=400,
    )
    assert done.status == 0, done.err
    assert "trials on 2 GPUs go on side by side" in done.err
    check_nothing_left(served)
    with served.store() as store:
        trials = store.trials(store.run("latest").id)
    assert {trial.state for trial in trials} == {TrialState.MEASURED}
    assert any(trial.packed_with for trial in trials)
    ports = {(str(trial.gpus), trial.port, *trial.member_ports) for trial in trials}
    assert {gpus for gpus, *_ in ports} == {"0,1", "2,3"}
    first, second = (set(numbers) for _, *numbers in ports)
    assert not first & second

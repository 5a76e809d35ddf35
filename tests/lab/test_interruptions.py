"""One sweep, and everything that can come in between: in the end every trial has exactly one outcome.

Several storms meet one sweep where they do not hide each other; booting, deploying and the sweep itself cost
more than they do.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from invoked import ROOT, Running, until
from standin_host import Fleet, fleet_of
from weather import (
    BRISK,
    HOST,
    SLOW,
    SWEEP,
    UNIT,
    Voyage,
    check_weathered,
    cut_for,
    lease_of,
    pid_of,
    restart_sshd,
    shift_clock,
    state_of,
    stranger,
    stranger_leaves,
)

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import RunState, Verdict

LOADING = " s: loading"
DAY_S = 86_400
QUESTION = "Give production back and stop now? [Y/n]"
PHASES = (
    "borrowing the GPUs",
    "trial 1: tp=1",  # draining
    LOADING,
    "ready after",
    "warm-up: started",
    "repeat 1: started",
    "repeat 2: started",
    "trial 1 measure 2",  # the evidence is fetched, the server stopped
    "trial 2: tp=2",
    "giving back: starting",
)
# A controller with another host name, as on another machine.
ELSEWHERE = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One host with the stand-in, for this file."""
    with fleet_of(1, tmp_path_factory.mktemp("fleet"), "tw") as fleet:
        yield fleet


@pytest.fixture
def served(harbour: Fleet) -> Iterator[Fleet]:
    """Production on two of the host's four GPUs: each test has to leave it serving."""
    if harbour.model_on(HOST) != "standin/other":
        harbour.deploy("other", gpus="0,1")
    harbour.clean(keep_services=True)
    yield harbour
    harbour.clean(keep_services=True)


def test_a_controller_that_is_killed_in_each_phase_loses_nothing_and_measures_nothing_twice(
    served: Fleet,
) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served, SLOW)
    ready: list[float | None] = []
    for phase in PHASES:
        voyage.wait_for(phase)
        voyage.kill()
        if phase in ("ready after", "giving back: starting"):
            ready.append(voyage.ready_s(1))
        voyage.resume()
    assert ready[0] is not None
    assert ready[0] == ready[1], "a server that is found running keeps what its start took"
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)
    starts = [line for line in served.bench_starts(HOST) if not line.endswith(" 1")]
    assert len(starts) == 4, "a client is found again, not started again"


def test_weather_that_passes_needs_no_resume(served: Fleet) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served)
    voyage.wait_for("repeat 1: started")
    cut_for(served, 6)()
    voyage.wait_for("repeat 2: started")
    restart_sshd(served)
    voyage.wait_for("trial 2: tp=2")
    shift_clock(served, "+40d")
    voyage.wait_for("repeat 1: started")
    served.on(HOST, "pkill -SEGV -f '^[^ ]*python.* bench serve'")
    voyage.wait_for("the client crashed, signal 11 ended it; measuring again")
    shift_clock(served, "")
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_a_second_operator_is_refused_and_told_who_is_there(served: Fleet) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served)
    voyage.wait_for("repeat 1: started")
    bob = {"FLEETBENCH_RUNS": str(served.place / "bob"), "SUDO_USER": "bob"}
    others = (
        ("sweep", "--model", "good", "--hosts", HOST, "--sweep", "one"),
        ("deploy", "--hosts", HOST, "--model", "good", "--port", "8002", "--gpus", "3"),
        ("provision", "--hosts", HOST),
        ("restart", "--hosts", HOST, "--port", "8001"),
        ("bench", "--hosts", HOST, "--port", "8101"),
    )
    running = [served.begin(*words, **bob) for words in others]
    for words, other in zip(others, running, strict=True):
        refused = other.done()
        assert refused.status == 1, f"{words}: {refused.err}"
        assert "is locked by alice@" in refused.err, f"{words}: {refused.err}"
        assert "sweep steady" in refused.err
    same = served.invoke("sweep", "--resume", voyage.run)
    assert same.status == 1
    assert f"run {voyage.run} belongs to alice@" in same.errors[0]
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_a_stranger_on_a_gpu_is_named_and_not_held_against_any_configuration(served: Fleet) -> None:
    before, pid = state_of(served), pid_of(served)
    holder = stranger(served)
    voyage = Voyage.begin(served)
    refused = voyage.ended()
    assert refused.status == 1
    assert f"pid {holder} (python train.py, unit foreign.service, 9000 MiB) on GPU 0" in refused.err
    assert pid_of(served) == pid, "production was not touched"
    stranger_leaves(served)
    voyage.resume()
    voyage.wait_for("repeat 2: started")
    holder = stranger(served)
    stopped = voyage.ended()
    assert stopped.status == 1
    assert f"somebody else was on its GPUs when it ended: pid {holder}" in stopped.err
    assert f"GPU 0 is held by pid {holder}" in stopped.err
    assert "1 measured" in stopped.out
    assert served.serves(HOST)
    stranger_leaves(served)
    voyage.resume()
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before, verdicts={(1, 2): Verdict.SUSPECT})


def test_a_reboot_while_a_server_loads_and_a_server_that_is_killed(served: Fleet) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served)
    voyage.wait_for(LOADING)
    labs.reboot(HOST, hard=True, settings=served.settings)
    voyage.wait_for("trial 1 is begun once more")
    voyage.wait_for("trial 2: tp=2")
    voyage.wait_for("repeat 1: started")
    served.on(HOST, "kill -9 $(systemctl show vllm-sweep-8101 -P MainPID)")
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before, trials={2: TrialState.FAILED})
    with served.store() as store:
        (_, killed) = store.trials(voyage.run)
    assert killed.failure is not None
    assert "signal" in killed.failure.cause or "killed" in killed.failure.cause, killed.failure


def test_a_full_disk_on_the_host_is_named_and_its_repeat_measured_later(served: Fleet) -> None:
    before = state_of(served)
    served.on(HOST, "mkdir -p /opt/vllm/runs && mount -t tmpfs -o size=1m,mode=755 tmpfs /opt/vllm/runs")
    try:
        voyage = Voyage.begin(served)
        voyage.wait_for("repeat 1: started")
        served.on(HOST, "head -c 2000000 /dev/zero > /opt/vllm/runs/filler; true")
        full = voyage.ended()
        assert full.status == 1
        assert "the client cannot write its results" in full.err
        assert "No space left on device" in full.err
        assert served.serves(HOST)
        voyage.resume()
        still = voyage.ended()
        assert still.status == 1
        assert "No space left on device" in still.err
        assert served.serves(HOST)
    finally:
        served.on(HOST, "umount -l /opt/vllm/runs; rm -rf /opt/vllm/runs")
    voyage.resume()
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_a_full_disk_of_the_controller_does_not_keep_production_down(served: Fleet) -> None:
    before = state_of(served)
    served.runs.mkdir(parents=True, exist_ok=True)
    mounted = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(served.runs)]
    subprocess.run(mounted, check=True)
    filler = served.runs / "filler"
    try:
        voyage = Voyage.begin(served)
        voyage.wait_for("repeat 1: started")
        with contextlib.suppress(OSError):
            filler.write_bytes(b"0" * 4_000_000)
        full = voyage.ended()
        assert full.status == 1
        assert "full" in full.err or "No space left" in full.err, full.err
        assert served.serves(HOST)
        assert lease_of(served) == "", "nobody has to wait for a lease to run out"
        filler.unlink()
        voyage.resume()
        done = voyage.ended()
        assert done.status == 0, done.err
        check_weathered(served, before)
    finally:
        subprocess.run(["umount", "-l", str(served.runs)], check=True)


def test_a_network_cut_longer_than_patience_gives_production_back_and_can_be_resumed(served: Fleet) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served, BRISK)
    voyage.wait_for("repeat 1: started")
    labs.net(HOST, "down", settings=served.settings)
    done = voyage.ended()
    assert done.status == 3, done.err
    assert f"NOT GIVEN BACK: {UNIT}; the host does not answer since" in done.err
    assert f"when it is back: invoke sweep --resume {voyage.run}" in done.err
    until(lambda: served.serves(HOST), 120)  # by itself, nobody can reach it
    labs.net(HOST, "up", settings=served.settings)
    voyage.resume()
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_a_controller_that_slept_through_the_end_of_its_loan_does_not_fight_production(
    served: Fleet,
) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served, BRISK)
    voyage.wait_for("repeat 1: started")
    voyage.now.pause()
    until(lambda: served.serves(HOST), 120)
    pid = pid_of(served)
    voyage.now.wake()
    lost = voyage.ended()
    assert lost.status == 1
    assert "the lease of this host was lost, production was given back there" in lost.err
    assert "the lease was not renewed in time" in lost.err
    assert pid_of(served) == pid
    voyage.resume()
    voyage.wait_for("repeat 1: started")
    unlocked = served.invoke("unlock", "--hosts", HOST, "--yes", SUDO_USER="bob")
    assert unlocked.status == 0, unlocked.err
    lost = voyage.ended()
    assert lost.status == 1
    assert "unlocked by bob@" in lost.err
    with served.store() as store:
        assert TrialState.FAILED not in {row.state for row in store.trials(voyage.run)}
    until(lambda: served.serves(HOST))
    voyage.resume()
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_another_machine_with_the_store_waits_for_a_controller_that_lives_and_takes_over_from_a_dead_one(
    served: Fleet,
) -> None:
    before = state_of(served)
    voyage = Voyage.begin(served, BRISK)
    voyage.wait_for("repeat 1: started")
    copied = served.place / "copied"
    shutil.copytree(served.runs, copied)
    argv = [*ELSEWHERE, *served.command("sweep", "--resume", voyage.run)]
    bob = served.variables() | {"SUDO_USER": "bob"}
    refused = Running(argv, bob | {"FLEETBENCH_RUNS": str(copied)}, served.place).done()
    assert refused.status == 1
    assert f"run {voyage.run} belongs to alice@" in refused.errors[0]
    shutil.rmtree(copied)
    voyage.kill()
    until(lambda: served.serves(HOST), 120)  # its lease has run out
    done = Running(argv, bob, served.place).done(240)
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_a_controller_whose_clock_jumps_goes_on_as_if_nothing_was(served: Fleet) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make a clock that jumps")
    before = state_of(served)
    library, clock = served.place / "clock.so", served.place / "clock"
    source = ROOT / "tests" / "standin" / "clock.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    clock.write_text("0", "utf-8")
    faked = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(clock)}
    voyage = Voyage.begin(served, **faked)
    voyage.wait_for("repeat 1: started")
    clock.write_text(f"{-3 * DAY_S}", "utf-8")
    voyage.wait_for("repeat 2: started")
    voyage.kill()
    clock.write_text(f"{400 * DAY_S}", "utf-8")
    voyage.resume(**faked)
    done = voyage.ended()
    assert done.status == 0, done.err
    check_weathered(served, before)


def test_ctrl_c_on_a_terminal_asks_once_and_never_leaves_production_down_in_a_hurry(served: Fleet) -> None:
    before = state_of(served)
    asked = served.at_terminal(*SWEEP)
    asked.wait_for("repeat 1: started")
    asked.press("^C")
    asked.wait_for(QUESTION)
    asked.wait_for("measure 1:", after=QUESTION)  # the measurement goes on meanwhile
    asked.press("n\r")
    asked.wait_for("going on")
    asked.wait_for("repeat 2: started")
    asked.press("^C")
    asked.wait_for("giving production back", after="going on")  # nobody answers
    assert asked.done() == 130
    with served.store() as store:
        run = store.run("latest")
    assert run.state is RunState.INTERRUPTED
    assert f"invoke sweep --resume {run.id}" in asked.shown
    assert served.serves(HOST)
    assert lease_of(served) == ""
    assert "vllm-sweep" not in served.left(HOST)

    hurried = served.at_terminal("sweep", "--resume", run.id, TERM="xterm-256color")
    hurried.wait_for("ready after")  # with the live table
    for awaited in (QUESTION, "giving production back", f"still to come: {HOST}: {UNIT}"):
        hurried.press("^C")
        hurried.wait_for(awaited)
    assert hurried.done() == 130
    assert served.serves(HOST)

    at_once = served.at_terminal("sweep", "--resume", run.id)
    at_once.wait_for("repeat 2: started")
    for awaited in (QUESTION, "giving production back", "still to come", "ended before all was given back"):
        at_once.press("^C")
        at_once.wait_for(awaited)
    assert at_once.done() == 130
    assert f"next:  invoke sweep --resume {run.id}" in at_once.shown

    closed = served.at_terminal("sweep", "--resume", run.id)
    closed.wait_for("repeat 2: started")
    closed.close()
    closed.done()
    assert served.serves(HOST)
    assert lease_of(served) == ""
    assert "vllm-sweep" not in served.left(HOST)

    done = served.invoke("sweep", "--resume", run.id, timeout_s=240)
    assert done.status == 0, done.err
    check_weathered(served, before)

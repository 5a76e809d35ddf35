"""What a sweep has to survive, and how a host and a store look when it has."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from invoked import Done, Running, until
from standin_host import Fleet

from fleetbench.lab import lab as labs
from fleetbench.model import TrialState
from fleetbench.results.rows import MeasurementKind, RunState, Verdict

HOST = "lab-01"
SWEEP = ("sweep", "--model", "steady", "--hosts", HOST, "--sweep", "storm")
SLOW = (*SWEEP[:-1], "storm-slow")
BRISK = (*SWEEP[:-1], "storm-brisk")  # a short lease, little patience
UNIT = "vllm-8001.service"

# What of production may not change, and everything that a sweep could leave. No pids and no times.
_STATE = r"""
units=$(cd /etc/systemd/system; ls -d vllm-*.service)
systemctl show $units -p Id -p LoadState -p ActiveState -p SubState -p UnitFileState -p NeedDaemonReload
(cd /etc/systemd/system; ls -l vllm-* multi-user.target.wants | sed 's/.*[0-9] //'; sha256sum vllm-*.service)
echo "## left"
find /run/systemd/system /run/systemd/transient ! -name 'session-*' -printf '%y %p\n' | sort
ls /run/fleetbench 2> /dev/null
ls /opt/vllm/runs 2> /dev/null
systemctl list-units --all --plain --no-legend 'fleetbench-*' 'vllm-sweep-*' | cut -d' ' -f1
for pid in $(pgrep -u vllm); do cat /proc/$pid/cgroup; done 2> /dev/null |
  grep -o 'vllm-[^/]*\|fleetbench[^/]*' | sort -u
exit 0
"""


def state_of(fleet: Fleet) -> str:
    """The host as a sweep must leave it: units, files, the service user's processes, what lies in /run."""
    return fleet.on(HOST, _STATE)


def lease_of(fleet: Fleet) -> str:
    """What is written in the host's lease; empty when nobody has it."""
    return fleet.on(HOST, "cat /run/fleetbench/lease 2> /dev/null")


def pid_of(fleet: Fleet, unit: str = UNIT) -> str:
    """The main process of a unit, as its own host numbers it."""
    return fleet.on(HOST, f"systemctl show {unit} -P MainPID")


@dataclass
class Voyage:
    """One sweep on its way: and the `invoke` that works on it now."""

    fleet: Fleet
    now: Running

    @classmethod
    def begin(cls, fleet: Fleet, words: Sequence[str] = SWEEP, **env: str) -> Voyage:
        """Start the sweep, as Alice."""
        return cls(fleet, fleet.begin(*words, SUDO_USER="alice", **env))

    def ready_s(self, number: int) -> float | None:
        """Seconds that the server of a trial took to be ready, as stored."""
        with self.fleet.store() as store:
            return next(row.ready_s for row in store.trials(self.run) if row.number == number)

    @property
    def run(self) -> str:
        """The id of its run."""
        with self.fleet.store() as store:
            return store.run("latest").id

    def wait_for(self, text: str) -> None:
        """Wait until the controller says something, after all that it has said when this is called."""
        before = len(self.now.err)
        until(
            lambda: text in self.now.err[before:],
            150,
            lambda: f"{text!r} was not said, but:\n{self.now.err}",
            alive=lambda: self.now.running,
        )

    def resume(self, **env: str) -> None:
        """Let another controller go on."""
        self.now = self.fleet.begin("sweep", "--resume", self.run, SUDO_USER="alice", **env)

    def ended(self, timeout_s: float = 240) -> Done:
        """How the present controller ended."""
        return self.now.done(timeout_s)

    def kill(self) -> None:
        """SIGKILL the controller."""
        self.now.kill()


def check_weathered(
    fleet: Fleet,
    before: str,
    *,
    trials: Mapping[int, TrialState] | None = None,
    verdicts: Mapping[tuple[int, int], Verdict] | None = None,
    note: str = "",
) -> None:
    """One outcome for each trial, each repeat measured once and valid, and the host as it was before.

    `trials` and `verdicts` (by trial and repeat) are what is expected instead of `measured` and `valid`.
    """
    trials, verdicts = trials or {}, verdicts or {}
    with fleet.store() as store:
        (run,) = store.runs()
        rows, measured, loans = store.trials(run.id), store.measurements(run.id), store.loans(run.id)
    assert (run.state, run.note) == (RunState.DONE, note)
    assert {row.number: row.state for row in rows} == {
        row.number: trials.get(row.number, TrialState.MEASURED) for row in rows
    }
    complete = {row.number for row in rows if row.state is TrialState.MEASURED}
    repeats = [row for row in measured if row.kind is MeasurementKind.MEASURE and row.trial in complete]
    assert [(row.trial, row.repeat) for row in repeats] == [(n, r) for n in sorted(complete) for r in (1, 2)]
    for row in repeats:
        expected = verdicts.get((row.trial, row.repeat), Verdict.VALID)
        assert row.verdict is expected, f"{row.trial}.{row.repeat}: {row.verdict}: {row.reasons}"
    ends = Counter(int(line.split()[1]) for line in fleet.bench_ends(HOST))
    seeds = Counter(row.seed for row in repeats)
    assert {seed: ends[seed] for seed in seeds} == dict(seeds), "each repeat came to its end once"
    assert all(loan.returned_at and loan.proof for loan in loans), loans
    until(lambda: fleet.serves(HOST))
    until(lambda: state_of(fleet) == before, 30, lambda: f"before:\n{before}\nnow:\n{state_of(fleet)}")
    assert lease_of(fleet) == ""


def cut_for(fleet: Fleet, seconds: float) -> Callable[[], None]:
    """Cut the host's network for some seconds; returns what waits until it is back."""
    labs.net(HOST, "down", settings=fleet.settings)
    mend = threading.Timer(seconds, lambda: labs.net(HOST, "up", settings=fleet.settings))
    mend.start()
    return mend.join


def stranger(fleet: Fleet, gpu: int = 0) -> str:
    """Let a process of nobody's hold memory of a GPU; returns its pid as the host sees it."""
    fleet.on(
        HOST,
        "systemd-run --quiet --unit=foreign bash -c 'mkdir -p /run/fake-gpu-apps;"
        f' echo "{gpu} 9000 python train.py" > /run/fake-gpu-apps/$$$$; exec sleep 600\'',
    )
    until(lambda: "train.py" in fleet.on(HOST, "cat /run/fake-gpu-apps/*"))
    return pid_of(fleet, "foreign")


def stranger_leaves(fleet: Fleet) -> None:
    """End that process."""
    fleet.on(HOST, "systemctl stop foreign; rm -rf /run/fake-gpu-apps")


def restart_sshd(fleet: Fleet) -> None:
    """Restart sshd, and end every session that there is."""
    fleet.on(
        HOST,
        "systemctl restart ssh; loginctl list-sessions --no-legend | awk '{print $1}' |"
        " xargs -r loginctl terminate-session",
    )


def shift_clock(fleet: Fleet, offset: str) -> None:
    """Let every command that comes over SSH see another time; an empty offset puts it right again.

    Hosts of the lab share the machine's clock, and a container may not set it. What systemd, journald and
    the service itself see is therefore the real time.
    """
    faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    line = f"SetEnv LD_PRELOAD={faketime} FAKETIME={offset}" if offset else ""
    fleet.on(HOST, f"echo '{line}' > /etc/ssh/sshd_config.d/clock.conf; systemctl reload ssh")
    restart_sshd(fleet)

"""Sampling beside a measurement: units by its name, what they are asked for, what is fetched and removed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

from nouns import HOST, gpu
from report_rows import measurement
from sampled_run import clock, packed, usage

from fleetbench.facts.values import Gpu
from fleetbench.results.rows import MeasurementRow
from fleetbench.sweep import sampling
from fleetbench.sweep.sampling import Sampled
from fleetbench.telemetry import samples
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

OTHER = replace(HOST, name="client-01", prefix="/srv/vllm", user="bench")
ROW: MeasurementRow = replace(measurement(1, 1, None), unit_name="fleetbench-bench-RUN-t1-l0-r1-again-0a1b")
FAILED = CommandResult(command="", exit_status=73, stdout="", stderr="mkdir: No space left on device\n")


def of(fake: FakeSession, client: FakeSession | None = None, gpus: tuple[Gpu, ...] = ()) -> Sampled:
    session = DurableSession(fake.host, lambda: fake)
    beside = DurableSession(client.host, lambda: client) if client else session
    return Sampled(
        host=fake.host,
        session=session,
        client=client.host if client else fake.host,
        client_session=beside,
        endpoints=(("127.0.0.1", 8101), ("127.0.0.1", 8102)),
        units=("vllm-sweep-8101.service", "vllm-sweep-8102.service"),
        client_units=("fleetbench-preload-RUN-h100-01.service",),
        gpus=gpus,
        limit_s=7200,
    )


def started(fake: FakeSession) -> tuple[list[str], dict[str, object]]:
    """What the start script was given, and its configuration."""
    words = shlex.split(fake.commands[-1])[4:]
    return words, json.loads(words[5])


def test_it_begins_under_the_measurements_name_and_samples_all_of_the_trial() -> None:
    fake = FakeSession(HOST)
    assert sampling.begin(of(fake, gpus=(gpu(2), gpu(3))), ROW) == ""

    words, config = started(fake)
    assert words[:3] == [
        "fleetbench-poll-RUN-t1-l0-r1-again-0a1b",
        "/opt/vllm/runs/fleetbench-poll-RUN-t1-l0-r1-again-0a1b",
        "vllm",
    ]
    assert (words[3], words[4]) == ("8100", f"{HOST.venv}/bin/python")
    assert config["endpoints"] == [["127.0.0.1", 8101], ["127.0.0.1", 8102]]
    assert config["units"] == {
        "server": ["vllm-sweep-8101.service", "vllm-sweep-8102.service"],
        "poller": ["fleetbench-poll-RUN-t1-l0-r1-again-0a1b.service"],
        "client": [f"{ROW.unit_name}.service", "fleetbench-preload-RUN-h100-01.service"],
    }
    assert config["ends"] == f"/opt/vllm/runs/{ROW.unit_name}/out/exit_status"
    assert config["nvidia"] == ["nvidia-smi", "-i", "2,3", "--format=csv,noheader,nounits", "--loop-ms=1000"]
    assert "vllm:num_requests_running" in str(config["metrics"])
    # Every file of the program travels, and each is shorter than Linux lets one argument be.
    assert [words[6::2][place].endswith(".py") for place in range(6)] == [True] * 6
    assert max(map(len, words)) < 100_000


def test_amd_gpus_are_read_from_their_drivers_files() -> None:
    fake = FakeSession(HOST)
    card = replace(gpu(0), vendor="amd", bus_id="0000:0C:00.0")
    sampling.begin(of(fake, gpus=(card,)), ROW)
    _, config = started(fake)

    assert (config["nvidia"], config["amd"]) == ([], {"0": "0000:0C:00.0"})


def test_a_client_on_another_host_is_watched_there() -> None:
    server, client = FakeSession(HOST), FakeSession(OTHER)
    sampling.begin(of(server, client), ROW)
    words, config = started(client)

    assert words[1] == "/srv/vllm/runs/fleetbench-usage-RUN-t1-l0-r1-again-0a1b"
    assert (config["user"], config["endpoints"], config["nvidia"]) == ("bench", [], [])
    assert list(config["units"]) == ["client"]  # type: ignore[call-overload]
    assert "client" not in started(server)[1]["units"]  # type: ignore[operator]
    assert started(server)[1]["ends"] == ""


def test_a_host_that_cannot_be_sampled_is_said_and_no_error() -> None:
    fake = FakeSession(HOST, [("Begin to sample", FAILED)])
    assert sampling.begin(of(fake), ROW) == "cannot sample: mkdir: No space left on device"


def test_what_was_sampled_is_fetched_and_stays_until_it_is_forgotten() -> None:
    fake = FakeSession(HOST, [("End sampling; what was", "xid=2\n")])
    place = "/opt/vllm/runs/fleetbench-poll-RUN-t1-l0-r1-again-0a1b"
    fake.files = {
        f"{place}/{samples.METRICS}": packed(["{}"]),
        f"{place}/{samples.HOST}": packed([clock()]),
        f"{place}/{samples.GPUS}": packed([]),  # no GPU said anything
    }
    sampled = of(fake, gpus=(gpu(1),))
    fetched = sampling.end(sampled, ROW)

    assert sorted(fetched) == [samples.HOST, samples.METRICS, samples.ABOUT]
    about = samples.about(fetched[samples.ABOUT])
    assert (about["xid"], about["clock_offset_ms"], about["gpus"]) == (2, 0.0, [1])
    assert "problem" not in about
    assert not any("rm -rf" in line and "Take" in line for line in fake.commands)
    sampling.forget(sampled, ROW)
    assert fake.commands[-1].endswith("/opt/vllm/runs fleetbench-poll-RUN-t1-l0-r1-again-0a1b")


def test_clocks_of_two_hosts_are_compared() -> None:
    server = FakeSession(HOST, [("date", "1800000005.000000000\n")])
    client = FakeSession(OTHER, [("date", "1800000002.500000000\n")])
    client.files = {
        "/srv/vllm/runs/fleetbench-usage-RUN-t1-l0-r1-again-0a1b/host-samples.jsonl.gz": packed(
            [clock(), usage(1, {"client": 1.0})]
        )
    }
    content = sampling.end(of(server, client), ROW)
    offset = samples.about(content[samples.ABOUT])["clock_offset_ms"]

    assert isinstance(offset, float)
    assert round(offset / 100) == 25
    assert samples.CLIENT in content


def test_leftovers_are_ended_by_the_runs_name_and_on_a_clients_host_by_the_trial() -> None:
    fake = FakeSession(HOST)
    session = DurableSession(HOST, lambda: fake)
    sampling.forget_all(session, HOST, "RUN")
    sampling.forget_clients(session, HOST, "RUN", {12, 3})
    sampling.forget_clients(session, HOST, "RUN", ())

    assert [line.partition(" fleetbench /opt")[2] for line in fake.commands] == [
        "/vllm/runs fleetbench-poll-RUN-",
        "/vllm/runs fleetbench-usage-RUN-t3- fleetbench-usage-RUN-t12-",
    ]


def test_samples_of_a_client_that_finished_unseen_stay_for_a_resumed_run(tmp_path: Path) -> None:
    """The script itself, with a systemctl that does nothing."""
    (tmp_path / "systemctl").write_text("#!/bin/sh\n")
    (tmp_path / "systemctl").chmod(0o755)
    runs = tmp_path / "runs"
    for name in ("bench-RUN-t1-l0-r1", "poll-RUN-t1-l0-r1", "poll-RUN-t1-l0-r2", "usage-RUN-t1-l0-r1"):
        (runs / f"fleetbench-{name}" / "out").mkdir(parents=True)
    (runs / "fleetbench-bench-RUN-t1-l0-r1" / "out" / "exit_status").write_text("0\n")

    def forget(*names: str) -> list[str]:
        text = (Path(str(sampling.__file__)).parent / "poll_forget.sh").read_text("utf-8")
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-c", text, "fleetbench", str(runs), *names], check=True, env=env)
        return sorted(path.name.removeprefix("fleetbench-") for path in runs.iterdir())

    kept = ["bench-RUN-t1-l0-r1", "poll-RUN-t1-l0-r1", "usage-RUN-t1-l0-r1"]
    assert forget("fleetbench-poll-RUN-", "fleetbench-usage-RUN-t1-") == kept
    assert forget("fleetbench-poll-RUN-t1-l0-r1") == ["bench-RUN-t1-l0-r1", "usage-RUN-t1-l0-r1"]
    (runs / "fleetbench-bench-RUN-t1-l0-r1" / "out" / "exit_status").unlink()
    assert forget("fleetbench-usage-RUN-t1-") == ["bench-RUN-t1-l0-r1"]

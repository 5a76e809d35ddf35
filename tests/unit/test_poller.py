"""The poller as its own process: what it writes of servers and GPUs that answer, refuse, and are gone."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetbench.sweep import on_server
from fleetbench.telemetry import hardware, samples

ANSWER = """# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0"} 3.0
vllm:prompt_tokens_total{engine="0"} 17.0
vllm:prompt_tokens_created{engine="0"} 1.7e9
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 5.0
"""
SMI = """#!/bin/sh
for word in "$@"; do case $word in --query-gpu=*nosuch*)
  printf 'Field "nosuch" is not a valid field to query.\\n\\n'; exit 2;; esac; done
echo "$@" > "$(dirname "$0")/asked"
while :; do echo '0, 93'; echo '1, 94'; echo 'warning: infoROM is corrupted'; sleep 0.05; done
"""


class Poller:
    """A poller in a directory of its own; `until` waits for what it has written so far."""

    def __init__(self, directory: Path, **config: object) -> None:
        self.directory = directory
        given: dict[str, object] = {"every_s": 0.05, "most_bytes": 1 << 20, "user": "", "ends": ""}
        given |= {"endpoints": [], "metrics": [], "nvidia": [], "gpu_fields": [], "amd": {}, "units": {}}
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(given | config))
        argv = (sys.executable, "-B", "-E", "-s", "-S", "-m", "on_server", str(directory))
        place = Path(str(on_server.__file__)).parents[1]
        self.process = subprocess.Popen(argv, cwd=place, stderr=subprocess.PIPE, text=True)

    def end(self) -> str:
        self.process.terminate()
        _, said = self.process.communicate(timeout=30)
        return said

    def lines(self, name: str) -> list[str]:
        return samples.unpacked((self.directory / name).read_bytes()).splitlines()

    def entries(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(name)]


def until(true: Callable[[], object]) -> None:
    give_up = time.monotonic() + 30
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and nobody else takes meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that answers /metrics as `script` says, by the number of the question; its `asked` counts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.asked += 1
            status, text = found.script(found.asked)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    found: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    found.asked, found.script = 0, lambda _: (200, ANSWER)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()


def test_it_keeps_the_wanted_lines_of_each_answer(tmp_path: Path, server: Any) -> None:
    wanted = ["vllm:num_requests_running", "vllm:prompt_tokens_total"]
    place = ["127.0.0.1", server.server_port]
    poller = Poller(tmp_path / "p", endpoints=[place, place], metrics=wanted)
    until(lambda: server.asked >= 10)
    assert poller.end() == ""

    entries = poller.entries(samples.METRICS)
    assert {entry["of"] for entry in entries} == {0, 1}
    assert {entry["text"] for entry in entries} == {
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:prompt_tokens_total{engine="0"} 17.0'
    }
    mine = [entry["tick"] for entry in entries if entry["of"] == 0]
    assert mine == sorted(set(mine))
    found = samples.metric_samples((tmp_path / "p" / samples.METRICS).read_bytes())
    assert found[0].seen.values == {"running": 6, "prompt_tokens": 34}
    clock, usages = samples.host_samples((tmp_path / "p" / samples.HOST).read_bytes())
    assert clock is not None
    assert usages
    assert all(usage.all_s for usage in usages)


def test_what_is_not_answered_is_a_gap(tmp_path: Path, server: Any) -> None:
    server.script = lambda number: (503, "loading") if number <= 3 else (200, ANSWER)
    with closed_port() as closed:
        places = [["127.0.0.1", server.server_port], ["127.0.0.1", closed]]
        poller = Poller(tmp_path / "p", endpoints=places, metrics=["vllm:prompt_tokens_total"])
        until(lambda: server.asked >= 8)
        assert poller.end() == ""

    entries = poller.entries(samples.METRICS)
    mine = [entry for entry in entries if entry["of"] == 0]
    assert [entry.get("gap") for entry in mine[:4]] == ["status 503"] * 3 + [None]
    assert all("refused" in entry["gap"] for entry in entries if entry["of"] == 1)
    # Of both together there is nothing, and no zero.
    assert samples.metric_samples((tmp_path / "p" / samples.METRICS).read_bytes()) == ()


def test_an_answer_without_an_end_is_given_up(tmp_path: Path, server: Any) -> None:
    server.script = lambda _: (200, "x" * (9 * 1024 * 1024))
    poller = Poller(tmp_path / "p", endpoints=[["127.0.0.1", server.server_port]], metrics=["vllm:x"])
    until(lambda: server.asked >= 3)
    poller.end()

    assert {entry.get("gap") for entry in poller.entries(samples.METRICS)} == {"the answer does not end"}


def test_one_nvidia_smi_stays_and_a_field_that_it_refuses_is_left_out(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o755)
    fields = ["index", "nosuch", "utilization.gpu"]
    poller = Poller(tmp_path / "p", nvidia=[str(smi), "-i", "0,1"], gpu_fields=fields)
    until((tmp_path / "asked").exists)
    time.sleep(0.3)
    assert poller.end() == ""

    assert (tmp_path / "asked").read_text() == "-i 0,1 --query-gpu=index,utilization.gpu\n"
    lines = poller.lines(samples.GPUS)
    assert lines[0] == "at,index,nosuch,utilization.gpu"
    assert "at,index,utilization.gpu" in lines
    assert "# warning: infoROM is corrupted" in lines
    rows = hardware.gpu_rows((tmp_path / "p" / samples.GPUS).read_bytes())
    assert {(row["index"], row["utilization.gpu"]) for row in rows} == {(0, 93), (1, 94)}


def test_no_nvidia_smi_is_said_and_nothing_else(tmp_path: Path) -> None:
    poller = Poller(tmp_path / "p", nvidia=[str(tmp_path / "none")], gpu_fields=["index"])
    until((tmp_path / "p" / samples.HOST).exists)
    time.sleep(0.3)
    assert poller.end() == ""

    assert "No such file" in poller.lines(samples.GPUS)[1]
    assert hardware.gpu_rows((tmp_path / "p" / samples.GPUS).read_bytes()) == ()


def test_it_ends_by_itself_when_the_client_has_ended(tmp_path: Path) -> None:
    (tmp_path / "exit_status").write_text("0\n")
    poller = Poller(tmp_path / "p", ends=str(tmp_path / "exit_status"))
    assert poller.process.wait(timeout=30) == 0

    assert len(poller.entries(samples.HOST)) > 3
    poller.end()


def test_a_full_file_ends_and_the_poller_goes_on(tmp_path: Path, server: Any) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / samples.METRICS).symlink_to(full)
    server.script = lambda number: (200, f"vllm:x {os.urandom(4000).hex()}{number}\n")
    place = ["127.0.0.1", server.server_port]
    poller = Poller(tmp_path / "p", endpoints=[place], metrics=["vllm:x"])
    until(lambda: server.asked >= 10)

    assert poller.end() == ""
    assert poller.process.returncode == 0

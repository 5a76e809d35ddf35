"""One measurement, its client's host played by a table: which client is started, what row and files say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nouns import BUILD, HOST

from fleetbench.bench.measure import Server, Task, measure
from fleetbench.bench.prepare import Preload, Programs, dismiss, environment, prepare
from fleetbench.bench_program import SWITCH
from fleetbench.errors import NotPossible
from fleetbench.model import Config, GpuSet, Trial, Workload
from fleetbench.results import manifest
from fleetbench.results.rows import MeasurementKind, MeasurementRow, RunKind, Verdict
from fleetbench.results.store import Store, open_store
from fleetbench.transport.base import CommandResult
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

CLIENT = replace(HOST, build=replace(BUILD, version="0.33.0"))
SERVER = Server(
    host=CLIENT, address="127.0.0.1", port=8101, model="/m", served_name="", unit="vllm-sweep-8101.service"
)
WORKLOAD = Workload(num_prompts=4000, max_concurrency=400)
HELP = "      --dataset-name <NAME>\n          x [possible values: random]\n" + "".join(
    f"      --{name} <X>\n"
    for name in (
        *("backend", "host", "port", "model", "random-input-len", "random-output-len", "random-range-ratio"),
        *("num-prompts", "seed", "ignore-eos", "temperature", "max-concurrency", "request-rate"),
        *(
            "ready-check-timeout-sec",
            "percentile-metrics",
            "metric-percentiles",
            "save-result",
            "save-detailed",
        ),
        *("result-dir", "result-filename"),
    )
)
RUST_PATH = f"{CLIENT.venv}/lib/python3.12/site-packages/vllm/vllm-rs"


class ClientHost:
    """A host whose clients end at once: `statuses` by the word for the program, 0 with a report."""

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.started: list[list[str]] = []
        rules = [
            ("Start a bench client once", self.start),
            ("Where a bench client stands", "exit_status=0\n\n"),
            ("Have a bench client imported", "started\n"),
            ("Print where the Rust client", f"{RUST_PATH}\n{HELP}"),
        ]
        self.fake = FakeSession(CLIENT, rules)  # type: ignore[arg-type]
        self.session = DurableSession(CLIENT, lambda: self.fake)

    def start(self, line: str) -> str:
        arguments = shlex.split(line)[4:]
        out = f"{arguments[1]}/out"
        python, preloaded, program, *command = arguments[7 + int(arguments[6]) :]
        assert python == f"{CLIENT.venv}/bin/python"
        self.started.append([arguments[0], preloaded, program, *command])
        status = self.statuses.get(program, 0)
        word = f"{program}, preloaded" if preloaded else program
        self.fake.files |= {
            f"{out}/exit_status": f"{status}\n".encode(),
            f"{out}/stderr": b"Error: no tokenizer.json\n",
            f"{out}/stdout": b"",
            f"{out}/program.json": json.dumps({"program": word, "not_preloaded": ""}).encode(),
        }
        if status == 0:
            self.fake.files[f"{out}/result.json"] = json.dumps(REPORT).encode()
        return "started\n"

    @property
    def programs(self) -> list[str]:
        """The word for each client that was started."""
        return [words[2] for words in self.started]


FAILED = CommandResult(command="", exit_status=73, stdout="", stderr="mkdir: No space left on device\n")
REPORT = {
    **{
        "backend": "vllm",
        "model_id": "/m",
        "date": "20261130-101112",
        "num_prompts": 4000,
        "request_rate": "inf",
    },
    **{
        "max_concurrency": 400,
        "duration": 10.0,
        "completed": 4000,
        "failed": 0,
        "total_input_tokens": 512_000,
    },
    **{"total_output_tokens": 512_000, "request_throughput": 400.0, "output_throughput": 51_200.0},
    **{"total_token_throughput": 102_400.0, "mean_ttft_ms": 9.0, "median_ttft_ms": 9.0, "p99_ttft_ms": 9.0},
    **{f"{part}_{name}_ms": 7.0 for name in ("tpot", "itl") for part in ("mean", "median", "p99")},
    **{f"{part}_e2el_ms": 9.0 + 127 * 7 for part in ("mean", "median", "p99")},
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(runs_directory=tmp_path) as found:
        run = found.create_run(kind=RunKind.SWEEP, model="m", repo="/m", hosts=[CLIENT.name])
        trial = Trial(
            number=1,
            host=CLIENT.name,
            gpus=GpuSet((0,)),
            port=8101,
            config=Config(),
            workloads=(WORKLOAD,),
            repeats=2,
        )
        found.add_trials(run.id, [trial])
        yield found


def measured(
    store: Store,
    host: ClientHost,
    programs: Programs,
    *,
    workload: Workload = WORKLOAD,
    repeat: int = 1,
    kind: MeasurementKind = MeasurementKind.MEASURE,
    said: list[str] | None = None,
) -> MeasurementRow:
    task = Task(
        run_id=store.run("latest").id,
        trial=1,
        workload_index=0,
        workload=workload,
        repeat=repeat,
        kind=kind,
        seed=repeat if kind is MeasurementKind.MEASURE else 0,
        limit_s=60,
    )
    words = [] if said is None else said
    return measure(store, task, SERVER, CLIENT, host.session, programs=programs, said=words.append)


def prepared(host: ClientHost, *workloads: Workload, said: list[str] | None = None) -> Programs:
    preload = Preload("20261130-101112-m-1234", CLIENT.name, CLIENT)
    words = [] if said is None else said
    return prepare(host.session, preload, workloads, credential="", limit_s=60, idle_s=9, said=words.append)


def kept(store: Store, row: MeasurementRow) -> dict[str, object]:
    found = json.loads((store.directory(row.run_id) / row.directory / "client.json").read_text())
    assert isinstance(found, dict)
    return found


def test_the_rust_client_measures_where_it_is_and_nothing_is_imported_for_it(store: Store) -> None:
    host, said = ClientHost(), list[str]()
    programs = prepared(host, WORKLOAD, said=said)
    assert programs.preloaded == ""
    assert not any("Have a bench client imported" in line for line in host.fake.commands)
    assert said == ["the rust client measures"]
    row = measured(store, host, programs)
    assert (row.client_program, row.client_version, row.verdict) == ("rust", "0.33.0", Verdict.VALID)
    assert host.started[0][3:6] == [RUST_PATH, "bench", "serve"]
    assert not any("client's own" in reason for reason in row.reasons)


def test_the_python_client_is_imported_ahead_and_its_row_says_what_that_means(store: Store) -> None:
    host = ClientHost()
    programs = prepared(host, replace(WORKLOAD, client_program="python"))
    assert programs.preloaded.startswith("/run/fleetbench-preload-")
    assert len(f"{programs.preloaded}/socket") < 108
    row = measured(store, host, programs, workload=replace(WORKLOAD, client_program="python"))
    assert (row.client_program, row.client_version) == ("python, preloaded", "0.33.0")
    assert "TTFT is partly the Python client's own: 400 streams, more than 200" in row.reasons
    assert row.verdict is Verdict.VALID
    assert kept(store, row)["program"] == "python, preloaded"


def test_a_rust_client_that_comes_to_nothing_is_replaced_for_the_workload(store: Store) -> None:
    host, said = ClientHost(rust=1), list[str]()
    programs = prepared(host, WORKLOAD)
    row = measured(store, host, programs, kind=MeasurementKind.WARMUP, said=said)
    assert (row.client_program, row.attempt, row.exit_status) == ("python", 2, 0)
    assert any("the Rust client came to nothing" in line for line in said)
    for repeat in (1, 2):
        assert measured(store, host, programs, repeat=repeat).client_program == "python"
    assert host.programs == ["rust", "python", "python", "python"]
    assert kept(store, row)["not_rust"] == "the Rust client came to nothing"


def test_what_an_earlier_attempt_left_never_stands_for_the_later_one(store: Store) -> None:
    host = ClientHost(rust=1)
    row = measured(store, host, prepared(host, WORKLOAD))
    directory = store.directory(row.run_id) / row.directory
    assert (row.attempt, kept(store, row)["attempt"]) == (2, 2)
    earlier = json.loads((directory / "attempt-1" / "client.json").read_text())
    assert (earlier["program"], earlier["attempt"]) == ("rust", 1)
    assert (directory / "attempt-1" / "stderr").is_file()
    assert not (directory / "attempt-1" / "result.json").exists()
    known = manifest.read(store.directory(row.run_id))
    assert known is not None
    assert f"{row.directory}/attempt-1/client.json" in known.files


def test_a_rust_client_that_was_asked_for_is_not_replaced(store: Store) -> None:
    host = ClientHost(rust=1)
    wanted = replace(WORKLOAD, client_program="rust")
    row = measured(store, host, prepared(host, wanted), workload=wanted)
    assert (row.client_program, row.verdict, host.programs) == ("rust", Verdict.INVALID, ["rust"])


def test_a_python_client_that_comes_to_nothing_is_not_replaced(store: Store) -> None:
    host = ClientHost(python=1)
    row = measured(store, host, Programs())
    assert (row.client_program, row.verdict, host.programs) == ("python", Verdict.INVALID, ["python"])


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"program": "perl"}', b'{"program": {}}', b"[" * 100_000]
)
def test_what_a_service_user_writes_in_place_of_the_program_is_no_program(store: Store, text: bytes) -> None:
    host = ClientHost()
    begin = host.start

    def start(line: str) -> str:
        begin(line)
        host.fake.files[next(name for name in host.fake.files if name.endswith("program.json"))] = text
        return "started\n"

    host.fake.rules[0] = ("Start a bench client once", start)
    row = measured(store, host, Programs())
    assert (row.client_program, row.client_version, row.verdict) == ("", "", Verdict.VALID)


def test_a_workload_that_the_rust_client_cannot_send_is_refused_before_a_server_starts() -> None:
    wanted = Workload(client_program="rust", extra_args=("--top-k", "5"))
    with pytest.raises(NotPossible, match="the Rust client cannot measure"):
        prepared(ClientHost(), wanted)


def test_one_workload_for_each_client_has_both_ready() -> None:
    said: list[str] = []
    programs = prepared(ClientHost(), WORKLOAD, Workload(extra_args=("--top-k", "5")), said=said)
    assert programs.rust is not None
    assert programs.preloaded
    assert said == ["the rust client measures", "the python client measures: the Rust client lacks --top-k"]


def test_a_host_that_cannot_preload_measures_all_the_same(store: Store) -> None:
    host, said = ClientHost(), list[str]()
    host.fake.rules = [rule for rule in host.fake.rules if "Have a bench client" not in rule[0]]
    host.fake.rules.insert(0, ("Have a bench client imported", FAILED))
    programs = prepared(host, replace(WORKLOAD, client_program="python"), said=said)
    assert programs == Programs()
    assert said == ["the bench client is not imported ahead: mkdir: No space left on device"]


def test_the_preloaded_client_is_ended_and_its_directory_removed() -> None:
    host = ClientHost()
    dismiss(host.session, Preload("run", "h100-01", CLIENT))
    (line,) = host.fake.commands
    assert line.endswith("fleetbench-preload-run-h100-01 /opt/vllm/runs/fleetbench-preload-run-h100-01")
    assert "systemctl stop" in line


def test_what_is_kept_of_an_environment_has_no_secrets(store: Store) -> None:
    secrets = {
        "HF_TOKEN": "hf_abcdefgh12345678",
        "MY_PASSWORD": "two words",
        "HTTPS_PROXY": "http://u:p@proxy:1",
    }
    client = replace(CLIENT, env={**secrets, "NCCL_DEBUG": "INFO", SWITCH: "1"})
    assert SWITCH not in environment(client)
    host = ClientHost()
    task_row = measure(
        store,
        Task(
            run_id=store.run("latest").id,
            trial=1,
            workload_index=0,
            workload=WORKLOAD,
            repeat=1,
            kind=MeasurementKind.MEASURE,
            seed=7,
            limit_s=60,
        ),
        SERVER,
        client,
        host.session,
    )
    shown = kept(store, task_row)["environment"]
    assert isinstance(shown, dict)
    assert (shown["HF_TOKEN"], shown["MY_PASSWORD"], shown["HTTPS_PROXY"]) == (
        "***",
        "***",
        "http://***@proxy:1",
    )
    assert shown["NCCL_DEBUG"] == "INFO"

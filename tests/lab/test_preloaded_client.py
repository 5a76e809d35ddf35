"""The bench client that is imported once, on real hosts with real units: what it may not leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from invoked import until
from standin_host import STANDIN, VERSION, Fleet

from fleetbench.results.rows import MeasurementRow, Verdict

VLLM = f"/opt/vllm/venvs/vllm-{VERSION}/bin/vllm"
RUST = f"/opt/vllm/venvs/vllm-{VERSION}/lib/python3.9/site-packages/vllm/vllm-rs"
# As the real one: a program that is no Python, with the same options.
RUST_CLIENT = r"""#!/bin/sh
if [ "$3" = --help ]; then
  printf '      --dataset-name <NAME>\n          [possible values: random, sharegpt]\n'
  for option in backend host port model random-input-len random-output-len random-range-ratio num-prompts \
    seed ignore-eos temperature max-concurrency request-rate ready-check-timeout-sec percentile-metrics \
    metric-percentiles save-result save-detailed result-dir result-filename; do
    printf '      --%s <VALUE>\n' "$option"
  done
else
  exec /usr/bin/python3 /opt/vllm/standin "$@"
fi
"""
BENCH = ("bench", "--hosts", "lab-01", "--input-len", "8", "--output-len", "8", "--concurrency", "1")
SHORT = (*BENCH, "--num-prompts", "10", "--repeats", "2", "--no-warmup")
LONG = (*BENCH, "--num-prompts", "200", "--repeats", "1", "--no-warmup")
UNITS = "systemctl list-units --plain --no-legend 'fleetbench-preload-*' | cut -d' ' -f1"
CLIENTS = "pgrep -u vllm -f '[b]ench serve|[p]reloaded.py'; true"


@pytest.fixture
def served(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A service on port 8001 of the first host, and the stand-in as it was afterwards."""
    if booted_fleet.model_on("lab-01") != "standin/good":
        booted_fleet.deploy("good")
    yield booted_fleet
    for name in booted_fleet.names:
        install(booted_fleet, name, STANDIN.read_text("utf-8"))
    booted_fleet.clean(keep_services=True)


def install(fleet: Fleet, host: str, text: str, path: str = VLLM) -> None:
    """Put a command in the place of `vllm`."""
    done = fleet.enter(host, 'cat > "$1"', path, stdin=text)
    assert done.returncode == 0, done.stderr


def rows_of(fleet: Fleet) -> tuple[MeasurementRow, ...]:
    with fleet.store() as store:
        return store.measurements(store.run("latest").id)


def check_clean(fleet: Fleet) -> None:
    for name in fleet.names:
        assert fleet.left(name) == ""
        assert fleet.on(name, "ls -d /run/fleetbench-preload-* 2>/dev/null; true") == ""
        assert fleet.on(name, CLIENTS) == ""


def test_all_repeats_are_measured_by_one_import_and_nothing_is_left(served: Fleet) -> None:
    done = served.invoke(*SHORT, "--client", "lab-02")
    assert done.status == 0, done.err
    rows = rows_of(served)
    assert [(row.client_program, row.client_version, row.verdict) for row in rows] == [
        ("python, preloaded", VERSION, Verdict.VALID)
    ] * 2
    assert len(served.bench_starts("lab-02")) == 2
    shown = served.shown("runs", "show", "latest")
    assert {row["client_program"] for row in shown["measurements"]} == {"python, preloaded"}
    assert f"python {VERSION}, preloaded" in served.fleetbench("runs", "show", "latest")
    check_clean(served)


def test_a_client_that_cannot_be_imported_measures_as_ever(served: Fleet) -> None:
    install(served, "lab-01", STANDIN.read_text("utf-8"), "/opt/vllm/standin")
    install(served, "lab-01", '#!/bin/sh\nexec python3 /opt/vllm/standin "$@"\n')
    done = served.invoke(*SHORT)
    assert done.status == 0, done.err
    assert [(row.client_program, row.verdict) for row in rows_of(served)] == [("python", Verdict.VALID)] * 2
    check_clean(served)


def test_the_rust_client_measures_where_the_venv_has_it(served: Fleet) -> None:
    served.on("lab-01", f"mkdir -p {RUST.rpartition('/')[0]}; chmod 0755 {RUST.rpartition('/')[0]}")
    install(served, "lab-01", STANDIN.read_text("utf-8"), "/opt/vllm/standin")
    install(served, "lab-01", RUST_CLIENT, RUST)
    served.on("lab-01", f"chmod 0755 {RUST}")
    try:
        done = served.invoke(*SHORT)
        asked = served.invoke(*SHORT, "--client-program", "rust", "--new")
        served.on("lab-01", f"rm {RUST}")
        refused = served.invoke(*SHORT, "--client-program", "rust", "--new")
    finally:
        served.on("lab-01", f"rm -rf {RUST.rpartition('/')[0]}")
    assert (done.status, asked.status) == (0, 0), done.err + asked.err
    assert "the rust client measures" in done.err
    assert refused.status == 1
    assert f"this build of vLLM {VERSION} comes without the Rust client" in refused.errors[0]
    with served.store() as store:
        rows = [row for run in store.runs() for row in store.measurements(run.id)]
    assert [(row.client_program, row.client_version, row.verdict) for row in rows] == [
        ("rust", VERSION, Verdict.VALID)
    ] * 4
    check_clean(served)


def test_it_is_there_while_the_server_loads_and_gone_after_the_sweep(served: Fleet) -> None:
    sweep = served.begin(
        "sweep", "--model", "slow", "--hosts", "lab-01", "--sweep", "one", "--client", "lab-02"
    )
    sweep.wait_for("borrowing the GPUs of vllm-8001.service")
    until(lambda: served.on("lab-02", UNITS) != "", 30)
    assert "ready after" not in sweep.err
    done = sweep.done()
    assert done.status == 0, done.err
    assert {row.client_program for row in rows_of(served)} == {"python, preloaded"}
    until(lambda: served.serves("lab-01"))
    check_clean(served)


def test_a_controller_that_comes_back_finds_it_and_ends_it(served: Fleet) -> None:
    bench = served.begin(*LONG)
    bench.wait_for("/200 requests")
    bench.kill()
    unit = served.on("lab-01", UNITS)
    assert unit.startswith("fleetbench-preload-")
    done = served.invoke(*LONG)
    assert done.status == 0, done.err
    (row,) = rows_of(served)
    assert (row.client_program, row.verdict) == ("python, preloaded", Verdict.VALID)
    assert len(served.bench_starts("lab-01")) == 1
    started = served.on("lab-01", f"journalctl --no-pager -o cat -u {unit} | grep -c ^Started")
    assert started == "1"
    check_clean(served)


def test_a_client_that_takes_too_long_is_ended_with_its_child(served: Fleet) -> None:
    done = served.invoke(*LONG, "--limit", "1")
    assert "the client ran into its limit of 1 s and was killed" in done.err
    assert [row.client_program for row in rows_of(served)] == ["python, preloaded"]
    check_clean(served)


def test_when_it_is_killed_in_the_middle_the_repeat_is_invalid_and_the_next_measures(served: Fleet) -> None:
    bench = served.begin(*BENCH, "--num-prompts", "60", "--repeats", "2", "--no-warmup")
    bench.wait_for("/60 requests")
    served.on("lab-01", f"systemctl kill -s KILL $({UNITS})")
    done = bench.done()
    assert done.status == 1
    first, second = rows_of(served)
    assert (first.verdict, first.exit_status) == (Verdict.INVALID, 75)
    assert any("the preloaded client was killed in the middle" in reason for reason in first.reasons)
    assert (second.client_program, second.verdict) == ("python", Verdict.VALID)
    check_clean(served)


def test_only_root_and_the_service_user_get_at_prompts_and_socket(served: Fleet, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "in confidence"}\n' * 200)
    bench = served.begin(*LONG, "--dataset", "custom", "--prompts", str(prompts))
    bench.wait_for("/200 requests")
    nobody = "setpriv --reuid=65534 --clear-groups"
    for path in ("/opt/vllm/runs/fleetbench-bench-*/prompts.jsonl", "/run/fleetbench-preload-*/socket"):
        assert served.on("lab-01", f"ls {path}") != ""
        assert served.on("lab-01", f"{nobody} cat $(ls {path}) 2>&1; true").endswith("Permission denied")
    bench.interrupt()
    bench.done()
    served.clean(keep_services=True)


def test_a_host_that_gives_production_back_by_itself_ends_it_too(served: Fleet) -> None:
    sweep = served.begin("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "long")
    sweep.wait_for("/60 requests")
    sweep.kill()
    assert served.on("lab-01", UNITS) != ""
    served.on("lab-01", "bash /run/fleetbench/restore.sh now")
    assert served.on("lab-01", UNITS) == ""
    assert served.on("lab-01", CLIENTS) == ""
    until(lambda: served.serves("lab-01"))

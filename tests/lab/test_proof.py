"""What the server itself says of a trial: what it runs with, its counters, and who else is on its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standin_host import Fleet

from fleetbench.results.rows import MeasurementKind, MeasurementRow, Verdict


@pytest.fixture
def swept(booted_fleet: Fleet) -> Iterator[Fleet]:
    """A host without production, clean afterwards."""
    yield booted_fleet
    booted_fleet.clean()


def sweep_of(fleet: Fleet, model: str, name: str = "one") -> str:
    """Sweep a model on the first host; return what was said."""
    done = fleet.invoke("sweep", "--model", model, "--hosts", "lab-01", "--sweep", name)
    assert done.status == 0, done.err
    return done.err


def measured(fleet: Fleet) -> tuple[MeasurementRow, ...]:
    with fleet.store() as store:
        rows = store.measurements(store.run("latest").id)
    return tuple(row for row in rows if row.kind is MeasurementKind.MEASURE)


def evidence(fleet: Fleet, row: MeasurementRow, name: str) -> str:
    with fleet.store() as store:
        return (store.directory(row.run_id) / row.directory / name).read_text("utf-8")


def test_a_trial_keeps_what_its_server_runs_with_and_its_counters(swept: Fleet) -> None:
    sweep_of(swept, "good")
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    effective = trial["effective"]
    assert (effective["tp"], effective["dp"], effective["max_model_len"]) == (2, 1, 1024)
    assert (effective["kv_cache_tokens"], effective["attention_backend"]) == (100_000, "FLASH_ATTN")
    assert (effective["weights_gib"], effective["prefix_caching"]) == (14.25, True)
    assert effective["invocation"]
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert not any("prefix cache" in reason for reason in row.reasons)
    before, after = (evidence(swept, row, f"metrics-{when}.txt") for when in ("before", "after"))
    assert "vllm:request_success_total" in before
    assert (
        before.splitlines()[0]
        == after.splitlines()[0]
        == (f"# fleetbench: attempt 1, invocation {effective['invocation']}")
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("narrow", "asked for tensor-parallel size 2, it runs with 1"),
        ("short", "asked for max-model-len 1024, it runs with 512"),
    ],
)
def test_a_server_that_runs_with_something_else_measures_nothing(swept: Fleet, model: str, said: str) -> None:
    sweep_of(swept, model)
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    assert (trial["state"], trial["failure"]["kind"]) == ("failed", "effective-configuration-differs")
    assert trial["failure"]["evidence"] == said
    assert trial["failure"]["advice"]
    assert measured(swept) == ()
    assert swept.left("lab-01") == ""


def test_prompts_out_of_the_prefix_cache_make_a_row_suspect(swept: Fleet) -> None:
    sweep_of(swept, "cached")
    (row,) = measured(swept)
    assert row.verdict is Verdict.SUSPECT
    assert row.reasons[0].startswith("75.0% of prompt tokens came from the prefix cache")
    assert "suspect 1/1" in swept.fleetbench("report", "latest")


def test_a_server_without_metrics_is_measured_and_the_row_says_what_is_not_known(swept: Fleet) -> None:
    sweep_of(swept, "mute")
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert any("unknown: /metrics answered 404" in reason for reason in row.reasons)
    assert "# not read: /metrics answered 404" in evidence(swept, row, "metrics-before.txt")


HOLD = "mkdir -p /run/fake-gpu-apps; echo '%d 9000 python train.py' > /run/fake-gpu-apps/$$; exec sleep 600"


def hold_gpu(fleet: Fleet, gpu: int, *options: str, unit: str = "foreign", command: str = "") -> None:
    """Start a unit on the first host whose process is on a GPU."""
    fleet.enter("lab-01", "cat > /run/hold.sh", stdin=HOLD % gpu)
    words = command or "bash /run/hold.sh"
    fleet.on("lab-01", f"systemd-run --quiet --unit={unit} {' '.join(options)} {words}; sleep 1.5")


def test_what_a_dead_sweep_left_on_the_gpus_is_ended_and_said(swept: Fleet) -> None:
    dies = "bash -c 'bash /run/hold.sh & sleep 0.5; exit 1'"
    hold_gpu(swept, 1, "-p", "KillMode=none", unit="vllm-sweep-8150", command=dies)
    assert swept.on("lab-01", "systemctl is-active vllm-sweep-8150") != "active"
    assert "python train.py" in swept.on("lab-01", "nvidia-smi")
    said = sweep_of(swept, "good")
    assert "ending what a sweep left: pid" in said
    assert "unit vllm-sweep-8150.service" in said
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID


def test_a_foreign_process_is_named_waited_for_once_more_and_left_alone(swept: Fleet) -> None:
    hold_gpu(swept, 1)
    pid = swept.on("lab-01", "systemctl show foreign -P MainPID")
    done = swept.invoke("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "one")
    assert done.status == 1
    said = done.err
    assert said.count("GPU held by a foreign process; this may pass, trying once more") == 1
    assert f"GPU 1 is held by pid {pid}" in said
    assert "foreign.service" in said
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    assert (trial["state"], trial["failure"]) == ("running", None), "it says nothing about the configuration"
    assert swept.on("lab-01", "systemctl is-active foreign") == "active"


def test_somebody_who_comes_in_the_middle_of_a_measurement_makes_it_suspect(swept: Fleet) -> None:
    sweep = swept.begin("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "long")
    sweep.wait_for("/60 requests")
    hold_gpu(swept, 0)
    done = sweep.done()
    assert done.status == 0, done.err
    (row,) = measured(swept)
    assert row.verdict is Verdict.SUSPECT
    assert any("somebody else was on its GPUs" in reason and "foreign" in reason for reason in row.reasons)


def test_a_port_that_somebody_takes_in_the_meantime_is_left_to_him(swept: Fleet) -> None:
    wait = "while ! systemctl is-active -q vllm-sweep-8101; do sleep 0.02; done"
    script = f"{wait}; exec python3 -m http.server 8101"
    swept.on("lab-01", f"systemd-run --quiet --unit=foreign bash -c '{script}'")
    said = sweep_of(swept, "slow")
    assert "this may pass, trying once more" in said
    assert "on port 8102" in said
    (trial,) = swept.shown("runs", "show", "latest")["trials"]
    assert (trial["state"], trial["port"], trial["unit_name"]) == (
        "measured",
        8102,
        "vllm-sweep-8102.service",
    )
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert swept.on("lab-01", "systemctl is-active foreign") == "active"
    assert swept.left("lab-01") == ""


def test_weights_are_read_ahead_until_the_server_loads_and_nothing_of_it_is_left(swept: Fleet) -> None:
    swept.on("lab-01", "mkdir -p /opt/vllm/models/w && echo weights > /opt/vllm/models/w/m.safetensors")
    models = swept.inventory / "models.toml"
    text = models.read_text("utf-8")
    models.write_text(
        text + '\n[models.weights]\nrepo = "/opt/vllm/models/w"\nmax_model_len = 1024\n', "utf-8"
    )
    try:
        sweep_of(swept, "weights")
    finally:
        models.write_text(text, "utf-8")
    (row,) = measured(swept)
    assert row.verdict is Verdict.VALID
    assert "MiB of weights" in swept.on("lab-01", "journalctl -u fleetbench-read-ahead -o cat")
    assert swept.left("lab-01") == ""
    assert swept.on("lab-01", "ls /run/fleetbench/read-ahead.sh 2>/dev/null") == ""

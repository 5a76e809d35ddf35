"""A deploy as a value: spec, steps, the law of idempotency, and the way back."""

from __future__ import annotations

from dataclasses import replace

from nouns import HOST, MODEL, facts, spec, unit

from fleetbench import deploy
from fleetbench.facts.values import File, HostFacts
from fleetbench.model import Config, GpuSet
from fleetbench.operations.systemd import UnitFile, absent
from fleetbench.rollback.stand import Before
from fleetbench.steps import PutFile, Run, fold
from fleetbench.units import render, spec_hash

WISH = deploy.Wish(model=MODEL, port=8001, gpus=GpuSet((0, 1)), config=Config(tp=2))


def test_the_spec_takes_length_from_the_model_and_architecture_from_the_gpu() -> None:
    made = deploy.service_spec(HOST, WISH, facts())
    assert made.config.max_model_len == 65536
    assert made.env["TORCH_CUDA_ARCH_LIST"] == "9.0"
    assert made.venv == "/opt/vllm/venv-vllm"
    assert not made.credential


def test_the_hosts_environment_wins_over_what_is_derived_and_the_models_over_both() -> None:
    host = replace(HOST, env={"TORCH_CUDA_ARCH_LIST": "8.0", "A": "host"})
    model = replace(MODEL, env={"A": "model"})
    made = deploy.service_spec(host, replace(WISH, model=model), facts())
    assert (made.env["TORCH_CUDA_ARCH_LIST"], made.env["A"]) == ("8.0", "model")


def test_a_sweep_unit_runs_from_the_venv_itself_under_its_own_name() -> None:
    made = deploy.service_spec(HOST, WISH, facts(), persistent=False)
    assert (made.name, made.venv) == ("vllm-sweep-8001", HOST.venv)


def test_the_credential_is_loaded_only_where_it_exists() -> None:
    there = facts().with_file(File(path=deploy.CREDENTIAL, sha256="a" * 64, mode=0o600))
    assert deploy.service_spec(HOST, WISH, there).credential


def test_installing_takes_three_steps_and_again_none() -> None:
    first = deploy.plan(spec(), facts())
    assert [step.summary for step in first.steps] == [
        "write /etc/systemd/system/vllm-8001.service",
        "systemctl daemon-reload",
        "enable vllm-8001.service",
    ]
    assert deploy.plan(spec(), first.facts).steps == ()


def test_a_change_shows_its_diff() -> None:
    left = deploy.plan(spec(), facts()).facts
    changed = deploy.plan(spec(config=Config(tp=2, max_model_len=4096)), left)
    assert "+ExecStart=" in changed.steps[0].diff
    assert "--max-model-len 4096" in changed.steps[0].diff


def test_the_port_is_opened_only_when_asked_and_only_under_firewalld() -> None:
    running = facts(firewalld="running")
    assert len(deploy.plan(spec(), running, open_firewall=True).steps) == 5
    assert len(deploy.plan(spec(), running).steps) == 3
    assert len(deploy.plan(spec(), facts(), open_firewall=True).steps) == 3
    opened = deploy.plan(spec(), running, open_firewall=True).facts
    assert deploy.plan(spec(), opened, open_firewall=True).steps == ()
    commands = [
        s.action.argv
        for s in deploy.plan(spec(), running, open_firewall=True).steps[3:]
        if isinstance(s.action, Run)
    ]
    assert all("--reload" not in argv for argv in commands)


def test_a_restart_is_needed_when_the_process_is_older_than_the_file() -> None:
    want = spec_hash(spec())
    running = unit(8001, "0,1", running_spec=want)
    assert deploy.must_restart(spec(), facts(units={"vllm-8001.service": running})) == ""
    old = replace(running, running_spec="0123456789ab")
    assert "0123456789ab" in deploy.must_restart(spec(), facts(units={"vllm-8001.service": old}))
    assert deploy.must_restart(spec(), facts()) == "is not running"


def test_removing_a_unit_leaves_nothing_and_again_changes_nothing() -> None:
    there = deploy.plan(spec(), facts()).facts
    path = "/etc/systemd/system/vllm-8001.service"
    gone = fold(there, absent("vllm-8001.service", path))
    assert gone.steps[0].summary == "stop and disable vllm-8001.service"
    assert fold(gone.facts, absent("vllm-8001.service", path)).steps == ()


def test_what_stood_before_is_known_for_the_way_back() -> None:
    want = UnitFile.of(spec())
    file = File(path=want.path, sha256="b" * 64, mode=0o640, owner="root:vllm", text="old text")
    known: HostFacts = facts(units={"vllm-8001.service": unit(8001, "0,1")}).with_file(file)
    spot = deploy.spot_of(HOST, spec(), known)
    assert (spot.before.text, spot.before.mode, spot.before.owner) == ("old text", 0o640, "root:vllm")
    assert (spot.unit_path, spot.ran) == (want.path, True)
    assert deploy.spot_of(HOST, spec(), facts()).before == Before()


def test_the_unit_file_is_written_whole_with_the_rendered_text() -> None:
    action = deploy.plan(spec(), facts()).steps[0].action
    assert isinstance(action, PutFile)
    assert action.content.decode() == render(spec())
    assert (action.mode, action.owner) == (0o644, "root:root")

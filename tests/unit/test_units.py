"""Unit files: golden texts, systemd's own opinion of them, and hostile values that stay values."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.errors import UsageError
from fleetbench.model import Config, Device, GpuSet, ServiceSpec
from fleetbench.units import (
    environment,
    exec_arguments,
    render,
    serve_arguments,
    served_by,
    spec_hash,
    systemd_argument,
    systemd_env,
)

GOLDEN = Path(__file__).parent.parent / "fixtures" / "units"

SOURCE_SERVICE = ServiceSpec(
    name="vllm-8001",
    model="Qwen/Qwen3-Coder-30B-A3B-Instruct",
    port=8001,
    gpus=GpuSet((0, 1)),
    config=Config(tp=2, max_model_len=65536),
    user="vllm",
    prefix="/opt/vllm",
    venv="/opt/vllm/venv-vllm",
    serve_args=("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder"),
    env={"TORCH_CUDA_ARCH_LIST": "9.0"},
    credential=True,
)
SWEEP_UNIT = replace(
    SOURCE_SERVICE,
    name="vllm-sweep-8101",
    port=8101,
    persistent=False,
    venv="/opt/vllm/venvs/vllm-0.19.1",
    credential=False,
    config=Config(tp=2, dp=2, pp=2, ep=True),
    gpus=GpuSet(tuple(range(8))),
)
ROCM_UNIT = replace(SOURCE_SERVICE, device=Device.ROCM, env={}, served_name="coder", bind="127.0.0.1")
SPECS = {"persistent": SOURCE_SERVICE, "sweep": SWEEP_UNIT, "rocm": ROCM_UNIT}


@pytest.mark.parametrize("name", SPECS)
def test_a_unit_is_rendered_to_the_text_of_its_golden_file(name: str) -> None:
    golden = GOLDEN / f"{name}.service"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(render(SPECS[name]))
    assert render(SPECS[name]) == golden.read_text()


@pytest.mark.parametrize("name", SPECS)
def test_systemd_accepts_every_rendered_unit_without_a_word(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # verify looks for the program and for a user of that name; both are this machine's here
    text = render(replace(SPECS[name], venv=str(tmp_path), user="root", prefix="/opt"))
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / f"fleetbench-test-{name}.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, [])


def test_a_persistent_unit_restarts_within_bounds_and_a_sweep_unit_never() -> None:
    persistent, sweep = render(SOURCE_SERVICE), render(SWEEP_UNIT)
    assert "Restart=always\nRestartSec=3\n" in persistent
    assert persistent.index("StartLimitBurst=") < persistent.index("[Service]")
    assert "WantedBy=multi-user.target" in persistent
    assert "Restart=no\n" in sweep
    assert "[Install]" not in sweep
    assert SWEEP_UNIT.unit_path.startswith("/run/systemd/system/")


def test_nothing_in_a_unit_blinds_the_diagnosis_or_takes_the_gpus_away() -> None:
    keys = {line.partition("=")[0] for line in render(SOURCE_SERVICE).splitlines()}
    assert not keys & {"PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute", "PrivateIPC"}
    assert "VLLM_CONFIGURE_LOGGING" not in render(SOURCE_SERVICE)


def test_the_token_is_a_credential_and_never_an_environment_variable() -> None:
    text = render(SOURCE_SERVICE)
    assert "LoadCredential=hf_token:/etc/credstore/fleetbench-hf_token" in text
    assert "HF_TOKEN=" not in text


def test_the_hash_depends_on_what_is_served_and_stands_in_the_unit() -> None:
    other = replace(SOURCE_SERVICE, config=Config(tp=2, max_model_len=32768))
    assert spec_hash(SOURCE_SERVICE) != spec_hash(other)
    assert f"Environment=FLEETBENCH_SPEC={spec_hash(SOURCE_SERVICE)}\n" in render(SOURCE_SERVICE)


@pytest.mark.parametrize(
    "model", ['"; touch /tmp/x', "%n", "$HOME", "a b", "back\\slash", "it's", "${X}", "#c", ";"]
)
def test_metacharacters_of_shell_and_systemd_stay_one_argument(model: str) -> None:
    spec = replace(SOURCE_SERVICE, model=model)
    words = exec_arguments(render(spec))
    assert words == serve_arguments(spec)
    assert words[2] == model


@pytest.mark.parametrize("model", ["a\nExecStartPre=/bin/true", "a\x1b[2J", "a\x00b", "--port"])
def test_names_with_control_characters_or_that_look_like_options_are_refused(model: str) -> None:
    with pytest.raises(UsageError):
        render(replace(SOURCE_SERVICE, model=model))


@pytest.mark.parametrize("path", ["relative", "/opt/../etc", "/opt/a b", "/opt/$X", "/opt/%n", "/opt/a\nb"])
def test_paths_that_stand_bare_in_a_unit_must_be_plain(path: str) -> None:
    with pytest.raises(UsageError):
        render(replace(SOURCE_SERVICE, prefix=path))


def test_an_environment_value_cannot_add_a_line() -> None:
    text = render(replace(SOURCE_SERVICE, env={"A": "x\nExecStartPre=/bin/true", "B": "100%"}))
    assert "\nExecStartPre" not in text
    assert 'Environment="A=x\\nExecStartPre=/bin/true"' in text
    assert 'Environment="B=100%%"' in text


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00")))
def test_a_quoted_argument_is_one_line_and_has_no_live_specifier(value: str) -> None:
    for quoted in (systemd_argument(value), systemd_env(value)):
        assert "\n" not in quoted
        assert quoted.replace("%%", "").count("%") == 0
    assert systemd_argument(value).replace("$$", "").count("$") == 0


def test_model_and_configuration_are_read_back_from_a_unit() -> None:
    model, served, config = served_by(render(SWEEP_UNIT))
    assert (model, served) == ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "")
    assert config == SWEEP_UNIT.config
    with pytest.raises(UsageError):
        served_by("[Service]\nExecStart=/bin/true\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "m --tensor-parallel-size two",
        "m --tensor-parallel-size 0",
        "m --max-model-len -1",
        f"m --data-parallel-size {'9' * 5000}",
        "--trust-remote-code",
        "m --served-model-name --api-key",
        "'m\x1b[2J'",
    ],
)
def test_a_unit_that_was_edited_on_its_host_is_refused_not_believed(arguments: str) -> None:
    with pytest.raises(UsageError, match="not written by fleetbench"):
        served_by(f"[Service]\nExecStart=/opt/vllm/venv-vllm/bin/vllm serve {arguments}\n")


CACHES = (
    *("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"),
    *("CUDA_CACHE_PATH", "XDG_CACHE_HOME"),
)


def test_what_one_trial_compiled_the_next_one_finds() -> None:
    one = dict(environment(SWEEP_UNIT))
    other = dict(environment(replace(SWEEP_UNIT, name="vllm-sweep-8102", port=8102, config=Config(tp=4))))

    assert [one[name] for name in CACHES] == [other[name] for name in CACHES]
    writable = f"-{SWEEP_UNIT.prefix}/cache "
    assert writable in render(SWEEP_UNIT)
    assert all(one[name].startswith(f"{SWEEP_UNIT.prefix}/cache/sweep") for name in CACHES)


def test_a_service_s_caches_are_its_own_and_survive_its_restarts() -> None:
    service = dict(environment(SOURCE_SERVICE))
    again = dict(environment(replace(SOURCE_SERVICE, config=Config(tp=1))))

    assert [service[name] for name in CACHES] == [again[name] for name in CACHES]
    assert not {service[name] for name in CACHES} & {dict(environment(SWEEP_UNIT))[name] for name in CACHES}

"""What decides how fast a service is: read back from the text of its unit, hashed, compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nouns import MODEL
from promoted_trials import H100, ODD_MODEL, sweep_spec

from fleetbench.errors import UsageError
from fleetbench.model import Config, GpuSet
from fleetbench.promotion.measured import differences, measured_of
from fleetbench.promotion.unit_text import spec_in, units_in
from fleetbench.units import environment, environment_in, hash_in, hash_of, render, spec_hash


@pytest.mark.parametrize(
    "config",
    [
        Config(tp=2),
        Config(dp=2, ep=True, serve_args=("--enforce-eager",)),
        Config(pp=2, max_model_len=4096, serve_args=("--max-model-len", "9")),
    ],
)
def test_a_unit_is_read_back_to_a_spec_that_renders_to_the_same_text(config: Config) -> None:
    text = render(sweep_spec(config=config))
    back = spec_in(text)
    assert render(back) == text
    assert back.env["A_B"] == ODD_MODEL.env["A_B"]
    assert back.env["VLLM_CACHE_ROOT"] == "/data/own"
    assert (back.env["EMPTY"], back.persistent, back.build) == ("", False, "vllm-0.19.1")


def test_the_environment_of_a_unit_is_read_as_it_was_written() -> None:
    spec = sweep_spec()
    wanted = dict(environment(spec)) | {"FLEETBENCH_SPEC": spec_hash(spec)}
    assert environment_in(render(spec)) == wanted


def test_from_which_trial_a_unit_was_promoted_is_no_part_of_its_hash() -> None:
    plain = sweep_spec()
    marked = replace(plain, promoted="20261130-141233-tiny-3f2a/3 1,234 tok/s at c=64")
    assert spec_hash(plain) == spec_hash(marked)
    text = render(marked)
    assert "\nX-Fleetbench-Promoted=20261130-141233-tiny-3f2a/3 1,234 tok/s at c=64\n" in text
    assert hash_of(text) == hash_in(text) == spec_hash(plain)
    assert "\nExecStart=/bin/sh" not in render(replace(marked, promoted="a\nExecStart=/bin/sh"))


@pytest.mark.parametrize(
    "line",
    [
        'Environment="A',
        'Environment="A=\\xff\\xfe"',
        "Environment=",
        'ExecStart="',
        "Environment=FLEETBENCH_GPUS=9-1",
        "ExecStart=/v/bin/vllm serve -m --host a --port 99999999999",
    ],
)
def test_a_hostile_text_is_a_spec_without_a_build_or_an_error_and_never_a_traceback(line: str) -> None:
    name = line.partition("=")[0]
    lines = render(sweep_spec()).split("\n")
    text = "\n".join(line if each.startswith(f"{name}=") else each for each in lines)
    text += f"\nEnvironment=FLEETBENCH_SPEC={'0' * 12}\n"
    text = text.replace("0" * 12, hash_of(text))
    try:
        found = spec_in(text)
    except UsageError:
        return
    assert name == "Environment"
    assert found.build == ""


@pytest.mark.parametrize("text", ["", "[Service]\nExecStart=/bin/true\n", "no unit"])
def test_what_is_no_unit_of_ours_is_refused(text: str) -> None:
    assert units_in(text) == ()
    with pytest.raises(UsageError):
        spec_in(text)


def test_a_text_that_was_changed_or_masked_is_not_what_was_measured() -> None:
    text = render(sweep_spec()).replace("--max-num-seqs=64", "--max-num-seqs=128")
    with pytest.raises(UsageError, match="not the one that was measured"):
        spec_in(text)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"serve_args": ("--enforce-eager",)}, "arguments"),
        ({"env": {"A": "2"}}, "A=2, measured with A unset"),
        ({"build": "vllm-0.20.0"}, "build vllm-0.20.0"),
        ({"gpus": GpuSet((0,))}, "1 x 1 GPUs"),
        ({"model": "org/other"}, "arguments org/other"),
    ],
)
def test_each_thing_that_decides_changes_the_measured_hash(changed: dict[str, Any], word: str) -> None:
    plain = sweep_spec(MODEL)
    one, other = (measured_of([spec], H100) for spec in (plain, replace(plain, **changed)))
    assert one.hash != other.hash
    assert any(word in said for said in differences(one, other))
    secret = replace(plain, env={"API_TOKEN": "s3cret"})
    assert "s3cret" not in str(differences(one, measured_of([secret], H100)))
    moved = replace(plain, port=9, name="x", bind="::", served_name="n", venv="/v", cache="c", prefix="/p")
    assert measured_of([moved], H100).hash == one.hash

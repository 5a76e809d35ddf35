"""Prompt files: what can be used, and how repeats of the same prompts are kept apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetbench.bench.prompts import check_prompts, salted, unsalted
from fleetbench.bench_command import bench_command
from fleetbench.errors import UsageError
from fleetbench.model import Workload

RANDOM = Workload(num_prompts=10)


def custom(path: Path, **more: object) -> Workload:
    return Workload(dataset="custom", prompts=str(path), num_prompts=2, **more)  # type: ignore[arg-type]


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_requests_for_the_same_prompts_carry_the_salt_of_their_repeat(tmp_path: Path) -> None:
    workload = salted(custom(tmp_path / "p.jsonl", extra_args=("--top-k", "3")), "0.11.1", "r1")
    argv = bench_command(
        version="0.11.1",
        executable=("vllm",),
        model="m",
        served_name="",
        tokenizer="",
        host="h",
        port=1,
        workload=workload,
        seed=1,
        result_dir="/d",
        result_filename="f",
    )
    assert argv[-4:-2] == ("--top-k", "3")
    assert (argv[-2], json.loads(argv[-1])) == ("--extra-body", {"cache_salt": "r1"})
    assert unsalted(workload, "0.33.0") != ""  # salted once is enough


def test_prompts_that_each_seed_makes_anew_need_no_salt() -> None:
    assert salted(RANDOM, "0.33.0", "r1") == RANDOM
    assert unsalted(RANDOM, "0.8.5") == ""


def test_where_repeats_cannot_be_kept_apart_it_is_said(tmp_path: Path) -> None:
    old = custom(tmp_path / "p.jsonl")
    assert salted(old, "0.11.0", "r1") == old
    assert "the client of vLLM 0.11.0 cannot salt them (vLLM >= 0.11.1 can)" in unsalted(old, "0.11.0")
    assert unsalted(old, "0.11.1") == ""
    own = custom(tmp_path / "p.jsonl", extra_args=("--extra-body={}",))
    assert salted(own, "0.33.0", "r1") == own
    assert "have their own --extra-body" in unsalted(own, "0.33.0")


def test_a_file_with_too_few_prompts_is_used_and_said(tmp_path: Path) -> None:
    path = written(tmp_path / "few.jsonl", '{"prompt": "one"}\n\n')
    (said,) = check_prompts([RANDOM, custom(path), custom(path)])
    assert "few.jsonl has 1 prompts for 2 requests" in said
    assert check_prompts([custom(written(tmp_path / "enough.jsonl", '{"prompt": "one"}\n' * 2))]) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"prompt": "one"}\nnot json\n', "p.jsonl:2 is no prompt"),
        ('{"text": "one"}\n', "p.jsonl:1 is no prompt"),
        ('["prompt"]\n', "p.jsonl:1 is no prompt"),
        ('{"prompt": 3}\n', "p.jsonl:1 is no prompt"),
        ("[" * 100_000 + "\n", "p.jsonl:1 is no prompt"),
        ("\n\n", "is empty"),
    ],
)
def test_a_file_that_is_no_list_of_prompts_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_prompts([custom(written(tmp_path / "p.jsonl", text))])
    assert expected in caught.value.what
    assert len(str(caught.value)) < 500


def test_a_sharegpt_file_is_looked_at_and_a_missing_file_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "s.json", '\n[{"conversations": []}]')
    assert check_prompts([Workload(dataset="sharegpt", prompts=str(good))]) == ()
    bad = written(tmp_path / "b.json", '{"a": 1}')
    with pytest.raises(UsageError, match="is no ShareGPT file"):
        check_prompts([Workload(dataset="sharegpt", prompts=str(bad))])
    assert check_prompts([Workload(dataset="sonnet", prompts=str(bad))]) == ()
    for dataset in ("custom", "sharegpt", "sonnet"):
        with pytest.raises(UsageError, match="cannot read the prompts file"):
            check_prompts([Workload(dataset=dataset, prompts=str(tmp_path / "gone"))])

"""Flags as axes of a sweep: what no version has is an error, what one of several refuses is a verdict."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from plan_cases import only, plan, rules
from shared_material import read, shared

from fleetbench.errors import UsageError
from fleetbench.model import Build, Choice, Config, Model, Sweep
from fleetbench.plan.candidates import MOST_CONFIGS, candidates
from fleetbench.plan.flags import check_flags
from fleetbench.plan.planner import Verdict
from fleetbench.vllm_features import feature_table, parse_version

MODEL = Model(name="m", repo="a/m", max_model_len=8192)
OLD, NEW = Build(name="old", version="0.10.1.1"), Build(name="new", version="0.19.1")


def axis(*values: tuple[str, ...]) -> tuple[Choice, ...]:
    return tuple(Choice(serve_args=words, label=" ".join(words)) for words in values)


def sweep_of(*values: tuple[str, ...]) -> Sweep:
    return Sweep(name="s", parallel=(Config(),), serve_args=(axis(*values),))


def refusal(sweep: Sweep, *builds: Build, model: Model = MODEL) -> UsageError:
    with pytest.raises(UsageError) as caught:
        check_flags(sweep, model, builds or (NEW,))
    assert len(str(caught.value).splitlines()) <= 3
    return caught.value


def test_every_combination_is_taken_once_in_the_order_of_the_file() -> None:
    sweep = Sweep(
        name="s",
        parallel=(Config(tp=2), Config(tp=2, dp=2, serve_args=("--async-scheduling",))),
        builds=("old", "new"),
        serve_args=(
            axis(("--max-num-seqs", "8"), ("--max-num-seqs", "16")),
            (Choice(), *axis(("--enforce-eager",))),
        ),
        variants=(Choice(label="plain"),),
    )
    found = candidates(sweep, MODEL, 8)
    assert len(found) == len(set(found)) == 16
    assert [c.build for c in found] == ["old"] * 8 + ["new"] * 8
    assert found[1].serve_args == ("--max-num-seqs", "8", "--enforce-eager")
    assert found[1].label == "tp=2 dp=1 len=8192 build=old --max-num-seqs 8 --enforce-eager plain"
    assert found[4].serve_args == ("--async-scheduling", "--max-num-seqs", "8")
    assert found[4].variant == "--async-scheduling --max-num-seqs 8 plain"


def test_a_sweep_that_multiplies_without_end_is_refused() -> None:
    many = axis(*((f"--max-num-seqs={number}",) for number in range(100)))
    with pytest.raises(UsageError, match=f"10000 configurations, at most {MOST_CONFIGS}"):
        candidates(Sweep(name="s", parallel=(Config(),), serve_args=(many, many)), MODEL, 8)


def test_a_misspelt_flag_is_refused_with_the_nearest_name() -> None:
    error = refusal(sweep_of(("--max-num-seq", "8")))
    assert "has no --max-num-seq" in error.what
    assert error.next_step.startswith("did you mean --max-num-seqs")
    assert "correct it" in refusal(sweep_of(("--zzzzzzzzz", "8"))).next_step


def test_a_flag_that_no_build_of_the_sweep_has_is_refused_with_its_versions() -> None:
    error = refusal(sweep_of(("--attention-backend", "FLASH_ATTN")), OLD)
    assert "vLLM 0.10.1.1 has no --attention-backend" in error.what
    assert "vLLM >= 0.13.0" in error.cause
    assert "swap-space" in refusal(sweep_of(("--swap-space", "4")), NEW).what


def test_where_one_build_has_the_flag_the_other_gets_a_verdict() -> None:
    sweep = Sweep(
        name="s",
        parallel=(Config(),),
        builds=("old", "new"),
        serve_args=(axis(("--attention-backend", "FLASH_ATTN")),),
    )
    found = plan("llama-3.1-8b", "1x H100", sweep=sweep, builds={"old": OLD, "new": NEW}).candidates
    assert [(c.config.build, c.verdict) for c in found] == [
        ("old", Verdict.IMPOSSIBLE),
        ("new", Verdict.FITS),
    ]
    assert "--attention-backend is of vLLM >= 0.13.0, not of 0.10.1.1" in str(found[0].reasons[0])


def test_a_models_own_argument_that_its_version_refuses_is_a_verdict() -> None:
    model = replace(MODEL, serve_args=("--swap-space", "4"))
    assert (
        rules(only(plan("llama-3.1-8b", "1x H100", Config(), model=model, version="0.19.1")))[0] == "argument"
    )
    assert "argument" not in rules(only(plan("llama-3.1-8b", "1x H100", Config(), model=model)))


@pytest.mark.parametrize("version", ["0.34.0", "1.0"])
def test_a_newer_vllm_may_have_flags_that_nobody_knows_here(version: str) -> None:
    check_flags(sweep_of(("--quite-new", "8")), MODEL, [Build(name="b", version=version)])


def test_another_distribution_counts_its_own_versions() -> None:
    check_flags(sweep_of(("--quite-new", "8")), MODEL, [Build(name="b", version="0.1", package="vllm-of-us")])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--enforce-eager", "1"), "--enforce-eager takes no value"),
        (("--enforce-eager=1",), "--enforce-eager takes no value"),
        (("--max-num-seqs",), "--max-num-seqs needs a value"),
        (("--max-num-seqs", "many"), "no number"),
        (("--gpu-memory-utilization", "2"), "no number"),
    ],
)
def test_a_flag_that_is_used_wrongly_is_refused(words: tuple[str, ...], expected: str) -> None:
    assert expected in refusal(sweep_of(words)).what


@pytest.mark.parametrize("words", [("--no-enable-prefix-caching",), ("--max_num_seqs", "8"), ("-O3",)])
def test_other_spellings_of_a_flag_are_known(words: tuple[str, ...]) -> None:
    check_flags(sweep_of(words), MODEL, [NEW])


def test_false_cannot_take_away_what_the_model_says() -> None:
    model = replace(MODEL, serve_args=("--enforce-eager",))
    sweep = Sweep(name="s", serve_args=((Choice(), *axis(("--enforce-eager",))),))
    error = refusal(sweep, model=model)
    assert "--enforce-eager = false changes nothing" in error.what
    assert "model m" in error.cause


def test_what_an_axis_gives_changes_the_estimate() -> None:
    sweep = Sweep(
        name="s",
        parallel=(Config(),),
        serve_args=(
            (Choice(), *axis(("--kv-cache-dtype", "fp8"))),
            (Choice(), *axis(("--gpu-memory-utilization", "0.5"))),
            (Choice(), *axis(("--max-num-seqs", "8"))),
        ),
    )
    estimates = [c.estimate for c in plan("llama-3.1-8b", "1x H100", sweep=sweep).candidates]
    plain, few, half, _, eight_bit, *_ = [found for found in estimates if found is not None]
    assert few.sequences == 8 < plain.sequences
    assert half.budget_gib < plain.budget_gib
    assert half.kv_tokens < plain.kv_tokens
    assert eight_bit.kv_bytes_per_token * 2 == plain.kv_bytes_per_token


def test_between_two_releases_only_what_both_refuse_is_refused() -> None:
    table = feature_table()
    flag = table.flags["serve"]["--shutdown-timeout"]
    refuses = {
        v: table.serve_refuses(flag, parse_version(v)) for v in ("0.17.1", "0.18.0", "0.18.1", "0.40.0")
    }
    assert refuses == {"0.17.1": True, "0.18.0": False, "0.18.1": False, "0.40.0": False}
    gone = table.flags["serve"]["--swap-space"]
    assert [table.serve_refuses(gone, parse_version(v)) for v in ("0.1.0", "0.18.0", "0.40.0")] == [
        False,
        False,
        True,
    ]


def test_the_table_of_serve_flags_agrees_with_the_help_of_a_real_server() -> None:
    text = read(shared("captures/cpu/help/v0.32.0_serve_all.txt"))
    version = parse_version("0.32.0")
    heads = [line.strip().split("   ")[0] for line in text.splitlines() if line.startswith("  -")]
    offered = {word for head in heads for word in re.findall(r"--[a-z0-9][\w-]*", head)}
    table = feature_table()
    known = {flag.name for flag in table.flags["serve"].values() if flag.in_version(version)}
    assert known <= offered
    positive = {name for name in offered if not name.startswith("--no-")} - {"--help"}
    assert positive - known == set()

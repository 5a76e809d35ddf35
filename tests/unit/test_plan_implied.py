"""A failure implies others only where its cause says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetbench.failure_table import failure_table
from fleetbench.model import Config, Failure
from fleetbench.plan.implied import _RULES, implied


def failure(kind: str) -> Failure:
    return Failure(kind=kind, cause="it does not fit")


@pytest.mark.parametrize("kind", ["gpu-out-of-memory", "kv-cache-too-small", "no-memory-for-kv-cache"])
def test_what_does_not_fit_at_tp_2_and_32k_fits_neither_at_tp_1_nor_longer(kind: str) -> None:
    failed = Config(tp=2, max_model_len=32768)
    why = failure(kind)
    assert implied(failed, why, Config(tp=1, max_model_len=32768))
    assert implied(failed, why, Config(tp=2, max_model_len=65536))
    assert implied(failed, why, Config(tp=1, max_model_len=65536))
    assert not implied(failed, why, Config(tp=4, max_model_len=32768))
    assert not implied(failed, why, Config(tp=2, max_model_len=16384))
    assert not implied(failed, why, Config(tp=1, dp=2, max_model_len=32768))
    assert not implied(failed, why, Config(tp=1, max_model_len=65536, serve_args=("--x",)))
    assert not implied(failed, why, Config(tp=1))


def test_another_start_of_what_cannot_work_cannot_either() -> None:
    failed = Config(tp=2, max_model_len=32768)
    assert implied(failed, failure("gpu-out-of-memory"), failed)
    assert not implied(failed, failure("port-taken"), failed)


def test_heads_that_cannot_be_divided_rule_out_that_tp_only() -> None:
    why = failure("heads-not-divisible")
    assert implied(Config(tp=3), why, Config(tp=3, dp=2))
    assert not implied(Config(tp=3), why, Config(tp=6))


def test_too_few_gpus_rule_out_everything_larger() -> None:
    why = failure("more-gpus-than-there-are")
    assert implied(Config(tp=8), why, Config(tp=4, dp=4))
    assert not implied(Config(tp=8), why, Config(tp=4))


@pytest.mark.parametrize("kind", ["port-taken", "gpu-memory-taken", "unknown", "refused", "timeout.ready"])
def test_what_may_go_away_or_is_not_understood_implies_nothing(kind: str) -> None:
    assert not implied(Config(tp=2, max_model_len=8), failure(kind), Config(tp=1, max_model_len=8))


@pytest.mark.parametrize("kind", _RULES)
def test_every_rule_belongs_to_a_class_that_exists_and_is_not_retryable(kind: str) -> None:
    assert not failure_table().signature(kind).retryable


@pytest.mark.parametrize("kind", ["gpu-out-of-memory", "pipeline-parallel-unsupported", "gpt-oss-dp-broken"])
def test_what_one_version_cannot_do_another_may(kind: str) -> None:
    failed, other = Config(tp=2, dp=2, pp=2, build="old"), Config(tp=1, dp=2, pp=2, build="old")
    assert implied(failed, failure(kind), other)
    assert not implied(failed, failure(kind), replace(other, build="new"))
    assert not implied(failed, failure(kind), replace(other, build=""))

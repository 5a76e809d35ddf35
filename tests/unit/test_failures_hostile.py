"""The classifier on hostile, cut and huge texts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleetbench.failure_table import failure_table
from fleetbench.failures import classify

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "failures"
KINDS = [signature.kind for signature in failure_table().signatures]
NO_KV = "ValueError: No available memory for the cache blocks."


def test_values_of_the_log_cannot_format_or_flood_the_cause() -> None:
    name = "{0.__class__}" + "x" * 500 + "\x1b[31m"
    diagnosis = classify(f"vllm: error: unrecognized arguments: --{name}")

    assert diagnosis.failure is not None
    assert "{0.__class__}" in diagnosis.failure.cause
    assert len(diagnosis.failure.cause) < 300
    assert diagnosis.failure.cause.isprintable()


def test_evidence_is_one_printable_line_that_shows_the_match() -> None:
    diagnosis = classify("OSError: " + "é\t" * 900 + "[Errno 98] Address already in use \x07\x1b]0;owned\x07")

    assert diagnosis.kind == "port-in-use"
    assert "[Errno 98]" in diagnosis.evidence
    assert diagnosis.evidence.isprintable()
    assert len(diagnosis.evidence) <= 400


def test_random_bytes_and_cut_fixtures_never_raise() -> None:
    generator = random.Random(7)  # noqa: S311  reproducible noise, no secret
    for kind in KINDS:
        text = (FIXTURES / f"{kind}.txt").read_text(encoding="utf-8")
        cut = text[generator.randrange(len(text)) :]
        noise = generator.randbytes(400).decode("latin-1")
        assert classify(noise + cut + noise).next_step


@pytest.mark.parametrize(
    "unit", ["a", "(", "'", " ", "\x1b[", "\r", "{", '{"log":', "avc:  denied { ", "x.Error"]
)
def test_repeated_characters_are_read_in_bounded_time(unit: str) -> None:
    assert classify(unit * (400_000 // len(unit))).next_step


def test_a_long_journal_with_everything_in_it_is_read_to_its_end() -> None:
    lines = [pattern.text * 40 for signature in failure_table().signatures for pattern in signature.patterns]
    harmless = '(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'

    assert classify(harmless * 30_000 + NO_KV).kind == "no-memory-for-kv-cache"
    assert classify("\n".join(lines) * 3).kind is not None

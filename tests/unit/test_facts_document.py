"""Facts as stored evidence."""

from __future__ import annotations

import json

import pytest
from facts_answers import BARE, NVIDIA, SERVING, Ended, facts_of

from fleetbench.errors import Unreadable
from fleetbench.facts.document import from_json, to_json
from fleetbench.facts.values import HostFacts, Missing


@pytest.mark.parametrize(
    "facts",
    [
        HostFacts(host="dark"),
        facts_of(BARE),
        facts_of(BARE, NVIDIA, SERVING),
        facts_of(BARE, {"nvidia_query": Ended("gone\n", 9), "units": Ended("", 124)}),
    ],
    ids=["nothing", "bare", "serving", "broken"],
)
def test_stored_facts_are_read_back_equal(facts: HostFacts) -> None:
    text = to_json(facts)
    assert from_json(text) == facts
    assert to_json(from_json(text)) == text


def test_a_missing_fact_is_stored_with_its_reason() -> None:
    document = json.loads(to_json(HostFacts(host="x", gpus=Missing("nvidia-smi: gone"))))
    assert document["facts"]["gpus"] == {"missing": "nvidia-smi: gone"}


def test_keys_of_a_newer_version_are_ignored_and_absent_ones_take_defaults() -> None:
    document = json.loads(to_json(facts_of(BARE)))
    document["facts"]["new_fact"] = {"a": [1]}
    del document["facts"]["tool_versions"]
    facts = from_json(json.dumps(document))
    assert dict(facts.tool_versions) == {}
    assert facts.os == facts_of(BARE).os


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ("[]", "format"),
        ('{"format": "fleetbench-facts", "version": 1}', "facts holds NoneType"),
        ('{"format": "fleetbench-facts", "version": 1, "facts": {"cpus": "many"}}', "facts.cpus holds str"),
        (
            '{"format": "fleetbench-facts", "version": 1, "facts": {"gpus": [{"index": 0}]}}',
            "facts.gpus[0].name is",
        ),
        (
            '{"format": "fleetbench-facts", "version": 1, "facts": {"units": {"a": 1}}}',
            "facts.units.a holds int",
        ),
        ('{"format": "fleetbench-facts", "version": 1, "facts": {"os": {"missing": 4}}}', "facts.os.missing"),
    ],
)
def test_a_document_that_is_none_is_refused_with_the_place(text: str, cause: str) -> None:
    with pytest.raises(Unreadable) as refusal:
        from_json(text)
    assert cause in str(refusal.value)
    assert len(str(refusal.value).split("\n")) <= 3


def test_another_format_version_is_refused_with_the_next_step() -> None:
    with pytest.raises(Unreadable, match="version 2") as refusal:
        from_json('{"format": "fleetbench-facts", "version": 2, "facts": {}}')
    assert "probe the host again" in str(refusal.value)

"""Every benchmark case of the corpus gives the values that its index states, or the refusal."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

import pytest
from shared_material import SHARED, read, shared

from fleetbench.errors import Unreadable
from fleetbench.results.parse import parse
from fleetbench.results.render import as_rows

_KEYS = {
    "completed": "completed",
    "successful": "completed",
    "failed": "failed",
    "maxconc": "max_concurrency",
    "rps_cfg": "request_rate",
    "dur": "duration",
    "duration": "duration",
    "in": "total_input_tokens",
    "req/s": "request_throughput",
    "out_tps": "output_throughput",
    "peak_tps": "max_output_tokens_per_s",
    "peak_conc": "max_concurrent_requests",
    "tot_tps": "total_token_throughput",
    "total": "total_token_throughput",
    "acc%": "spec_decode_acceptance_rate",
    "acc_len": "spec_decode_acceptance_length",
    "attempted": "num_prompts",
}
_UNKNOWN = ("unknown", "not", "missing")
_REFUSED = ("not-a-result", "fragment")


@dataclass(frozen=True)
class Expected:
    """What the index says of one file: how many blocks, facts by block number, or that it is refused."""

    blocks: int
    facts: dict[int, dict[str, str]]
    refused: bool
    incomplete: tuple[int, ...]


def read_expected(text: str) -> Expected:
    """Given the column `expected`, return it as data."""
    count = re.search(r"blocks=(\d+)", text)
    facts: dict[int, dict[str, str]] = {}
    incomplete: list[int] = []
    for part in text.split("||"):
        number = re.search(r"\[(\d+)\]", part)
        position = int(number[1]) if number else 0
        pairs = re.findall(r"([\w/%]+)=([^\s;,|()]+)", part)
        facts[position] = {key: value for key, value in pairs if key not in ("blocks", "verdict")}
        if "NO end bar" in part or "incomplete" in part:
            incomplete.append(position)
    verdict = re.search(r"verdict=([\w-]+)", text)
    refused = (verdict is not None and verdict[1] in _REFUSED) or text.startswith("refuse")
    return Expected(int(count[1]) if count else 1, facts, refused, tuple(incomplete))


def _json_key(key: str, shown: str) -> str:
    if key == "out":
        return "output_throughput" if "." in shown else "total_output_tokens"
    return _KEYS.get(key) or f"{key}_ms"


def _agrees(value: object, shown: str, *, exact: bool) -> bool:
    if shown.startswith(_UNKNOWN):
        return value is None
    if shown == "inf" or not isinstance(value, int | float):
        return value == shown
    decimals = len(shown.partition(".")[2])
    return value == float(shown) if exact else abs(value - float(shown)) <= 0.5001 * 10**-decimals


def _cases() -> list[dict[str, str]]:
    index = SHARED / "corpus" / "index.tsv"
    if not index.exists():
        return []
    with index.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row["kind"].startswith("bench-")]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_a_corpus_case_gives_what_its_index_states(case: dict[str, str]) -> None:
    expected = read_expected(case["expected"])
    text = read(shared("corpus", case["file"]))
    if expected.refused:
        with pytest.raises(Unreadable) as refusal:
            parse(text, case["file"])
        assert refusal.value.cause
        assert refusal.value.next_step
        return
    rows = as_rows(parse(text, case["file"]))
    assert len(rows) == expected.blocks
    checked = 0
    for position, facts in expected.facts.items():
        for key, shown in facts.items():
            value = rows[position].get(_json_key(key, shown))
            assert _agrees(value, shown, exact=case["kind"] != "bench-json"), (position, key, shown, value)
            checked += 1
        assert rows[position]["complete"] is (position not in expected.incomplete), position
    assert checked >= 2


def test_the_corpus_is_there_in_full() -> None:
    shared("corpus", "index.tsv")
    assert len(_cases()) >= 30


def test_a_refusal_of_ambiguous_numbers_names_line_and_reason() -> None:
    text = read(shared("corpus", "A58.txt"))
    with pytest.raises(Unreadable) as refusal:
        parse(text)
    assert "line 2" in refusal.value.cause
    assert "ambiguous" in refusal.value.cause

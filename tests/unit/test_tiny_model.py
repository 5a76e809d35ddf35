"""The tiny model is whole, the same each time, and counts tokens as a benchmark expects."""

from __future__ import annotations

import json
import re
import struct
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import pytest

from fleetbench.errors import NotPossible, UsageError
from fleetbench.lab import tiny_model, tiny_tokenizer
from fleetbench.lab.tiny_tokenizer import MARKS, SPECIAL, VOCABULARY

# GPT-2's splitting rule, as the tokenizers library applies it, for ASCII text.
PIECE = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
BYTES = {"\t": "ĉ", "\n": "Ċ", "\r": "č", " ": "Ġ"}


def encode(text: str) -> list[int]:
    """Byte-level BPE from tokenizer.json alone: an independent reading of the same rules."""
    content: Any = tiny_tokenizer.tokenizer()
    ids = content["model"]["vocab"]
    rank = {tuple(pair): number for number, pair in enumerate(content["model"]["merges"])}
    added = {token["content"]: token["id"] for token in content["added_tokens"]}
    found: list[int] = []
    for part in re.split("(" + "|".join(map(re.escape, added)) + ")", text):
        if part in added:
            found.append(added[part])
            continue
        for piece in PIECE.findall(re.sub(content["normalizer"]["pattern"]["Regex"], "?", part)):
            symbols = [BYTES.get(character, character) for character in piece]
            while pairs := [pair for pair in pairwise(symbols) if pair in rank]:
                first, second = min(pairs, key=rank.__getitem__)
                place = next(i for i in range(len(symbols)) if symbols[i : i + 2] == [first, second])
                symbols[place : place + 2] = [first + second]
            found += [ids[symbol] for symbol in symbols]
    return found


def header(directory: Path) -> tuple[dict[str, Any], int]:
    """Read a safetensors header and the number of bytes after it."""
    content = (directory / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), len(content) - 8 - length


@pytest.mark.parametrize("architecture", tiny_model.ARCHITECTURES)
def test_every_architecture_is_the_same_bytes_each_time(architecture: str, tmp_path: Path) -> None:
    first = tiny_model.make(tmp_path / "a", architecture=architecture)
    second = tiny_model.make(tmp_path / "b", architecture=architecture)
    assert [file.name for file in first] == [file.name for file in second]
    assert all(one.read_bytes() == two.read_bytes() for one, two in zip(first, second, strict=True))
    assert sum(file.stat().st_size for file in first) < 1_000_000


def test_another_seed_gives_other_weights_and_the_same_tokenizer(tmp_path: Path) -> None:
    tiny_model.make(tmp_path / "a")
    tiny_model.make(tmp_path / "b", seed=1)
    same = {
        file.name: file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
        for file in (tmp_path / "a").iterdir()
    }
    assert [name for name, equal in same.items() if not equal] == ["model.safetensors"]


@pytest.mark.parametrize("architecture", tiny_model.ARCHITECTURES)
def test_the_weights_fill_the_file_without_a_gap(architecture: str, tmp_path: Path) -> None:
    tiny_model.make(tmp_path, architecture=architecture)
    tensors, size = header(tmp_path)
    tensors.pop("__metadata__")
    end = 0
    for name in sorted(tensors):
        start, stop = tensors[name]["data_offsets"]
        assert (start, stop - start) == (end, 2 * prod(tensors[name]["shape"])), name
        end = stop
    assert end == size
    assert tensors["lm_head.weight"]["shape"] == [VOCABULARY, tiny_model.HIDDEN]
    experts = [name for name in tensors if ".experts." in name]
    assert bool(experts) is (architecture == "qwen3_moe")


def test_heads_divide_by_two_but_not_by_three(tmp_path: Path) -> None:
    tiny_model.make(tmp_path, max_position=2048)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["max_position_embeddings"] == 2048
    for key in ("num_attention_heads", "num_key_value_heads", "vocab_size"):
        assert config[key] % 2 == 0
    assert config["num_attention_heads"] % 3
    assert config["head_dim"] >= 32


def test_a_mark_is_so_unlikely_that_a_request_runs_to_its_end() -> None:
    weights = dict(tiny_model.tensors("qwen3", 0))["lm_head.weight"]
    first_column = weights.values[:: tiny_model.HIDDEN]
    texts = tiny_tokenizer.tokens()
    unlikely = {text for text, value in zip(texts, first_column, strict=True) if value < 0}
    assert unlikely == {*SPECIAL, *MARKS, "\r"}


def test_the_vocabulary_is_full_and_without_doubles() -> None:
    content: Any = tiny_tokenizer.tokenizer()
    ids = [*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])]
    assert sorted(ids) == list(range(VOCABULARY))
    assert len(set(tiny_tokenizer.tokens())) == VOCABULARY
    for first, second in content["model"]["merges"]:
        assert {first, second, first + second} <= content["model"]["vocab"].keys()


def test_consecutive_tokens_come_back_as_they_were() -> None:
    texts = tiny_tokenizer.tokens()
    wanted = [number for number in range(VOCABULARY) if texts[number] not in SPECIAL]
    for start in range(0, len(wanted), 7):
        ids = [wanted[(start + step) % len(wanted)] for step in range(150)]
        assert encode("".join(texts[number] for number in ids)) == ids


def test_text_outside_ascii_costs_one_token_a_character() -> None:
    assert len(encode("ö你\x00")) == 3


def test_an_unknown_architecture_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        tiny_model.make(tmp_path / "model", architecture="gpt2")
    assert "qwen3_moe" in str(caught.value)
    assert not (tmp_path / "model").exists()


def test_a_model_without_positions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        tiny_model.make(tmp_path, max_position=0)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPossible) as caught:
        tiny_model.make(tmp_path / "file" / "model")
    assert str(tmp_path / "file" / "model") in str(caught.value)

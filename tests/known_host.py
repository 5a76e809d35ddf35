"""A lab host whose `vllm serve` keeps to a known schedule, and the word tokenizer that goes with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from known_truth import FILES, KNOWN

from fleetbench.lab import lab as labs
from fleetbench.lab.settings import Settings

VERSION = "0.32.0"
VENV = f"/opt/vllm/venvs/vllm-{VERSION}"
RECORD = "/opt/vllm/cache/known.jsonl"
VERSION_FILE = "/opt/vllm/cache/known-version"
WRONG_FILE = "/opt/vllm/cache/known-client.json"
WORDS = 10_000

# A venv as provisioning leaves it, as far as anybody looks; /opt/vllm and the service user are there.
_VENV = r"""
set -eu
packages=$1/lib/python3.9/site-packages
mkdir -p "$1/bin" "$packages"/{vllm-$2,torch-2.9.0,pandas-2.3.0}.dist-info
ln -sfT /usr/bin/python3 "$1/bin/python"
echo "version = 3.9.18" > "$1/pyvenv.cfg"
echo "stand-in" > "$1/.fleetbench-complete"
"""


def install_known(settings: Settings, host: str) -> None:
    """Make the venv of the known server on a host, or put its programs into the one that is there."""
    scripts = [(_VENV, (VENV, VERSION), "")]
    scripts += [
        ('cat > "$1" && chmod 0755 "$1"', (f"{VENV}/bin/{name}",), (KNOWN / name).read_text("utf-8"))
        for name in FILES
    ]
    for script, arguments, stdin in scripts:
        done = labs.enter(host, ["bash", "-c", script, "test", *arguments], stdin=stdin, settings=settings)
        assert done.returncode == 0, done.stderr


def model_toml(name: str, repo: str, known: Mapping[str, float | str]) -> str:
    """Return the inventory's table of a model that is served by a schedule, `KNOWN_…` in lower case."""
    variables = {"record": RECORD, "version_file": VERSION_FILE, **known}
    env = "".join(f'env.KNOWN_{key.upper()} = "{value}"\n' for key, value in variables.items())
    return f'\n[models.{name}]\nrepo = "{repo}"\nmax_model_len = 128\n{env}'


def write_tokenizer(directory: Path) -> None:
    """Write a model that is a tokenizer only: each word `w0` … `w9999` is one token, as the server counts.

    The `random` data set of `vllm bench serve` decodes token ids and encodes them again; here the same ids
    come back, so a prompt has as many words as tokens were asked for.
    """
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = {f"w{number}": number for number in range(WORDS)} | {"<end>": WORDS, "<unknown>": WORDS + 1}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocabulary[mark], "content": mark, **special} for mark in ("<end>", "<unknown>")
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unknown>"},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<end>",
        "unk_token": "<unknown>",
    }
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 128,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
        "eos_token_id": vocabulary["<end>"],
    }
    for name, content in (
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
        ("config.json", config),
    ):
        (directory / name).write_text(json.dumps(content), "utf-8")

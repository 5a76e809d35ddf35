"""Passwords and tokens show nowhere: not in errors, diffs, documents, evidence, audit or arguments."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nouns import spec
from provision_hosts import rocky

from fleetbench.audit import operator
from fleetbench.errors import CommandFailed, InventoryError, without_secrets
from fleetbench.facts.document import from_json, to_json
from fleetbench.facts.values import File
from fleetbench.failures import classify
from fleetbench.inventory import load
from fleetbench.results.database import describe, parse_url
from fleetbench.steps import Run, text_diff
from fleetbench.sweep.evidence import Evidence
from fleetbench.units import as_kept, exec_arguments, hash_in, hash_of, render, served_by

UNIT = """\
[Service]
Environment="HUGGING_FACE_HUB_TOKEN=hf_handWrittenLongAgo" VLLM_API_KEY=sk-1234
Environment=https_proxy=http://me:geheim@proxy.example:3128
ExecStart=/usr/bin/vllm serve m --api-key sk-5678 --port 8001
"""
SECRETS = ("hf_handWrittenLongAgo", "sk-1234", "geheim", "sk-5678")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "401 for url: https://me:pw@index.example/simple/",
            "401 for url: https://***@index.example/simple/",
        ),
        ("http://user:p@ss@proxy:3128", "http://***@proxy:3128"),
        ("token hf_aBcDeFgHiJkLmNoP is wrong", "token *** is wrong"),
        ("HF_TOKEN=abc --x", "HF_TOKEN=*** --x"),
        ('Environment="API_KEY=abc" A=1', 'Environment="API_KEY=***" A=1'),
        ("--api-key sk-123 --port 1", "--api-key *** --port 1"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "No module named 'hf_transfer'",
        "hf_overrides={} max_tokens=4",
        "https://index.example/simple/a@2/",
        "git@host",
        "HF_TOKEN_PATH=%d/hf_token",
        "--max-num-batched-tokens 8192 --tokenizer /m/t --tokens-only",
        "tokenizer=/m/t, tokenizer_mode='auto', output_tokens_per_s=81.5",
        "eos_token='</s>' pad_token=<pad> ms_per_token=12.5",
        '{"eos_token": "<|im_end|>", "token": 42}',
        "api_key=None, hf_token=None, api_key=[]",
        "expected no --api-key here: secrets do not belong in the inventory",
        "error: argument --api-key: expected at least one argument",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert without_secrets(text) == text


# Where a secret stands in what units, journals and programs write.
PLACES = (
    'Environment="VLLM_API_KEY={}" A=1',
    "Environment=VLLM_API_KEY='{}' B=2",
    'Environment="HF_TOKEN={} with a blank" A=1',
    "ExecStart=/v/bin/vllm serve m --api-key {} k2 --port 8001",
    "ExecStart=/v/bin/vllm serve m --api-key first-1 {} --port 8001",
    "vllm serve m --api-key first-1 \\\n  {} \\\n  --port 8001",
    "vllm serve --api_key={} --port 8001",
    "vllm serve --api-k {}",
    "['vllm', 'serve', '--api-key', 'first-1', '{}', '--port', '8001']",
    "args: Namespace(api_key=['first-1', '{}'], port=8001)",
    "non-default args: {{'api_key': ['first-1', '{}'], 'port': 8001}}",
    '{{"api_key": "{} with a blank", "port": 8001}}',
    '{{\\"password\\": \\"{}\\"}}',
    "Authorization: Bearer {}",
    '{{"Authorization": "Bearer {}"}}',
    "http://me:{}@proxy.example:3128",
)
SECRET = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{4,30}[0-9][A-Za-z0-9]{3}", fullmatch=True)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=25, deadline=None)
@given(secret=SECRET)
def test_no_secret_is_left_wherever_it_stands(place: str, secret: str) -> None:
    shown = without_secrets(place.format(secret))
    assert secret not in shown
    assert "***" in shown
    assert without_secrets(shown) == shown
    assert shown.endswith(place.rpartition("}")[2][-4:].replace("}}", "}")) or "blank" in place


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(
        ["tokenizer", "max_tokens", "eos_token", "ms_per_token", "output_tokens_per_s", "monkey", "seed"]
    ),
    value=st.from_regex(r"[A-Za-z0-9/._-]{1,30}", fullmatch=True).filter(lambda text: "hf_" not in text),
    form=st.sampled_from(["{0}={1}", '"{0}": "{1}"', "'{0}': {1}", "--{0} {1}", "--{0}={1}", "{0} {1}: x"]),
)
def test_what_only_sounds_like_a_secret_stays(name: str, value: str, form: str) -> None:
    text = form.format(name, value)
    assume(not re.search(r"\b(sk|gh[pousr]|glpat|xox[abp])[_-]", value))
    assert without_secrets(text) == text


def test_our_units_are_kept_byte_for_byte_and_others_without_their_secrets() -> None:
    ours = render(spec(8001, (0,), serve_args=("--hf-overrides", '{"secret": "no secret"}')))
    assert as_kept(ours) == ours
    edited = ours.replace("Type=exec", "Type=exec\nEnvironment=VLLM_API_KEY=sk-1234")
    assert "sk-1234" not in as_kept(edited)
    assert hash_in(as_kept(edited)) == hash_in(ours) != hash_of(as_kept(edited))
    kept = as_kept(UNIT)
    assert not [secret for secret in SECRETS if secret in kept]
    assert served_by(kept)[0] == "m"
    assert exec_arguments(kept)[-2:] == ("--port", "8001")


def test_a_journal_is_kept_without_the_keys_that_vllm_says_of_itself(tmp_path: Path) -> None:
    said = "non-default args: {'api_key': ['sk-1', 'sk-2'], 'port': 8001}\nready\n"
    session = SimpleNamespace(read=lambda *_, **__: SimpleNamespace(stdout=said))
    evidence = Evidence(tmp_path / "run" / "trial-01", cast("Any", session))
    evidence.keep_after({"server.journal": "abc"}, lambda _: rocky())
    assert (tmp_path / "run/trial-01/server.journal").read_text() == (
        "non-default args: {'api_key': ***, 'port': 8001}\nready\n"
    )


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    for piece in (
        "a",
        "\\",
        '"',
        "'\\",
        "token=",
        "[(",
        "--api-key ",
        "--token a ",
        "a,",
        "bearer ",
        '"token',
    ):
        began = time.process_time()
        without_secrets(piece * (200_000 // len(piece)))
        assert time.process_time() - began < 3, piece


def test_an_error_shows_no_secret_and_keeps_its_three_lines_whatever_a_host_said() -> None:
    error = CommandFailed(
        "cannot fetch\n\x1b[2J\x9b31mhttps://u:pw@host/x",
        host="h",
        cause="denied for hf_aBcDeFgHiJkL\nerror: forged",
        next_step="a\rb",
    )
    text = str(error)
    assert text.count("\n") == 2
    assert all(line.isprintable() for line in text.split("\n"))
    assert "pw@" not in text
    assert "hf_" not in text


def test_a_diff_for_people_masks_secrets_and_cannot_move_their_cursor() -> None:
    old = UNIT + "# \x1b]0;owned\x07 \x9b31m \u202e\n"
    shown = text_diff("/etc/systemd/system/vllm-8001.service", old, UNIT.replace("8001", "8002"))
    assert not [secret for secret in SECRETS if secret in shown]
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "--port 8002" in shown


def test_a_facts_document_masks_the_secrets_of_units_that_others_wrote() -> None:
    path = "/etc/systemd/system/vllm-8001.service"
    document = to_json(rocky().with_file(File(path=path, sha256="ab" * 32, mode=0o644, text=UNIT)))
    assert not [secret for secret in SECRETS if secret in document]
    assert from_json(document).files[path].sha256 == "ab" * 32


def test_evidence_quotes_no_token() -> None:
    line = "OSError: 401 Client Error for https://u:pw@hub.example/x with hf_aBcDeFgHiJkLmN"
    text = str(classify(f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{line}\n'))
    assert "OSError" in text
    assert "pw@" not in text
    assert "hf_aBc" not in text


def test_an_environment_is_never_part_of_an_argument_list() -> None:
    with pytest.raises(ValueError, match="unit"):
        Run(argv=("true",), env=(("https_proxy", "http://u:pw@h"),))


def test_an_inventory_that_holds_a_password_is_refused_without_quoting_it(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(
        '[builds.x]\nversion = "1"\nindex_url = "https://me:geheim@index.example/"\n', "utf-8"
    )
    with pytest.raises(InventoryError, match="without user and password") as caught:
        load(tmp_path)
    assert "geheim" not in str(caught.value)
    (tmp_path / "hosts.toml").write_text('index_url = "https://me:geheim@index.example/" oops\n', "utf-8")
    with pytest.raises(InventoryError, match="not valid TOML") as caught:
        load(tmp_path)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        'serve_args = ["--hf-token", "geheim1"]',
        'serve_args = ["--hf_token=geheim1"]',
        'serve_args = ["--api-k", "geheim1"]',
        'env.GITHUB_TOKEN = "geheim1"',
        'env.AWS_SECRET_ACCESS_KEY = "geheim1"',
    ],
)
def test_a_secret_among_a_models_arguments_and_variables_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "models.toml").write_text(f'[models.m]\nrepo = "a/b"\n{line}\n', "utf-8")
    with pytest.raises(InventoryError, match="expected no") as caught:
        load(tmp_path)
    assert "geheim1" not in str(caught.value)


@pytest.mark.parametrize("line", ['env.HF_TOKEN_PATH = "/x"', 'env.TOKENIZERS_PARALLELISM = "false"'])
def test_a_name_that_only_resembles_one_passes(tmp_path: Path, line: str) -> None:
    (tmp_path / "models.toml").write_text(f'[models.m]\nrepo = "a/b"\n{line}\n', "utf-8")
    assert list(load(tmp_path).models) == ["m"]


@pytest.mark.parametrize("url", ["postgresql://me:geheim@db/x", "postgresql://db/x?user=me&password=geheim"])
def test_a_database_is_named_without_its_password(url: str) -> None:
    assert "geheim" not in describe(parse_url(url))


def test_the_audit_names_the_user_whom_the_kernel_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert not operator().startswith("somebody-else@")
    monkeypatch.setenv("SUDO_USER", "anna")
    assert operator().startswith("anna@") is (os.getuid() == 0)

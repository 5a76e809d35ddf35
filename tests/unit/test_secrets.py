"""Passwords and tokens show nowhere: not in errors, diffs, documents, evidence, audit or arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from provision_hosts import rocky

from fleetbench.audit import operator
from fleetbench.errors import CommandFailed, InventoryError, without_secrets
from fleetbench.facts.document import from_json, to_json
from fleetbench.facts.values import File
from fleetbench.failures import classify
from fleetbench.inventory import load
from fleetbench.results.database import describe, parse_url
from fleetbench.steps import Run, text_diff

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
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert without_secrets(text) == text


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

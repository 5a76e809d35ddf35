"""What the servers ran with, for people: one line in `runs show`, one table in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from report_rows import run, trial

from fleetbench.cli import main
from fleetbench.model import Config
from fleetbench.model import Trial as Planned
from fleetbench.report.markdown import markdown
from fleetbench.report.summary import summarise
from fleetbench.results.effective import COLUMNS, cells, known, sentence
from fleetbench.results.rows import Json, RunKind
from fleetbench.results.store import open_store

RAN: dict[str, Json] = {
    "tp": 2,
    "dp": 1,
    "max_model_len": 8192,
    "kv_cache_tokens": 2_104_512,
    "weights_gib": 28.51,
    "attention_backend": "FLASH_ATTN",
    "prefix_caching": True,
    "enforce_eager": False,
    "quantization": "",
    "invocation": "0a1b",
}


def test_everything_known_is_one_sentence_and_nothing_else() -> None:
    assert sentence(RAN) == (
        "tp 2, dp 1, max-model-len 8,192, KV tokens 2,104,512, weights GiB 28.51, attention FLASH_ATTN,"
        " prefix cache on, eager off"
    )
    assert sentence({"invocation": "0a1b"}) == ""
    assert known(RAN)
    assert not known({"invocation": "0a1b"})


@pytest.mark.parametrize("value", ["a\x1b[31m\nb", ["list"], {"a": 1}, "", None])
def test_a_hostile_or_strange_value_is_one_plain_cell_or_none(value: Json) -> None:
    found = cells({"attention_backend": value})[[key for _, key in COLUMNS].index("attention_backend")]

    assert found in (None, "a [31m b")


def test_the_report_has_a_table_of_the_servers_that_ran() -> None:
    ran, never = trial(1, Config(tp=2), effective=RAN), trial(2, Config(tp=4))
    page = markdown(summarise(run(), [ran, never], []))
    _, _, section = page.partition("## What the servers ran with")

    assert "FLASH\\_ATTN" in section
    assert "2,104,512" in section
    assert "tp=4" not in section.partition("Read back")[0]


def test_a_report_without_any_such_server_has_no_such_table() -> None:
    assert "What the servers ran with" not in markdown(summarise(run(), [trial(1, Config())], []))


def test_runs_show_says_what_each_trial_ran_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    planned = trial(1, Config(tp=2))
    with open_store(runs_directory=tmp_path) as store:
        made = store.create_run(kind=RunKind.SWEEP, model="m", hosts=["h"], arguments={})
        fields = ("number", "host", "gpus", "port", "config", "workloads", "repeats")
        store.add_trials(made.id, [Planned(**{name: getattr(planned, name) for name in fields})])
        store.set_trial(made.id, 1, effective=RAN)
    shown = CliRunner().invoke(main, ["runs", "show", "latest"])

    assert shown.exit_code == 0, shown.output
    assert "trial 1 ran with tp 2, dp 1, max-model-len 8,192" in shown.output

"""A store where nothing can be written: what is in it is read, all of it, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from test_store import new_run

from fleetbench.cli import main
from fleetbench.errors import FleetbenchError
from fleetbench.results.query import ask
from fleetbench.results.store import open_store


@pytest.fixture(autouse=True)
def _default_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)


@pytest.fixture
def unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store at rest on a mount that is read-only, played by what stands in the way of SQLite's index."""
    file = tmp_path / "runs" / "fleetbench.sqlite"
    with open_store(None, tmp_path / "runs") as store:
        new_run(store)
    index = tmp_path / "runs" / f"{file.name}-shm"
    index.symlink_to(index)
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path / "runs")
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
    return file


def test_a_store_at_rest_can_be_read_where_nothing_can_be_written(unwritable: Path) -> None:
    before = unwritable.read_bytes()
    with open_store(create=False) as store:
        assert len(store.runs()) == 1
        with pytest.raises(FleetbenchError, match="cannot") as caught:
            new_run(store)
    assert "readonly" in caught.value.cause
    assert "FLEETBENCH_RUNS" in caught.value.next_step
    assert ask("select count(*) from runs").rows == ((1,),)
    assert CliRunner().invoke(main, ["runs", "list"]).exit_code == 0
    assert unwritable.read_bytes() == before


def test_what_a_writer_has_in_its_log_is_not_missed_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(None, tmp_path / "runs") as writer:
        new_run(writer)
        monkeypatch.setattr("os.access", lambda path, mode: False)
        monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path / "runs"))
        new_run(writer)
        assert (tmp_path / "runs" / "fleetbench.sqlite-wal").stat().st_size
        with open_store(create=False) as store:
            assert len(store.runs()) == 2
        assert ask("select count(*) from runs").rows == ((2,),)


def test_a_log_without_its_index_is_not_passed_over_where_nothing_can_be_written(unwritable: Path) -> None:
    log = unwritable.with_name(f"{unwritable.name}-wal")
    log.write_bytes(b"x")
    with pytest.raises(FleetbenchError, match="cannot read the store") as caught:
        open_store(create=False)
    assert log.name in caught.value.next_step
    assert "copy the directory" in caught.value.next_step

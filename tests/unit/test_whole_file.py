"""A file is whole or as it was before, and nothing half-written stays beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetbench.bench.left import keep_files
from fleetbench.errors import FleetbenchError
from fleetbench.whole_file import write_whole


def test_directories_are_made_and_the_umask_does_not_decide(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_whole(path, b"text", mode=0o640)
    assert path.read_bytes() == b"text"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(path.parent.iterdir()) == [path]


def test_what_stood_there_stays_when_it_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    write_whole(path, b"before")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_evidence_that_has_no_directory_is_an_error_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the run's directory should be")
    with pytest.raises(FleetbenchError, match="cannot keep the raw files"):
        keep_files(tmp_path / "run" / "trial-01", {"stdout": b""})

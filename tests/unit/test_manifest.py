"""Raw files and their manifest: whole, packed where they are large, sealed, nothing blessed afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_rows import run as a_run

from fleetbench.errors import Unreadable
from fleetbench.results import manifest, raw_files
from fleetbench.results.rows import RunState
from fleetbench.sweep.evidence import set_aside

DONE = a_run()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / DONE.id
    raw_files.keep(place / "trial-01" / "workload-0" / "measure-1", {"stdout": b"one", "result.json": b"{}"})
    raw_files.keep(place / "trial-01", {"unit.service": b"[Unit]\n"})
    return place


def seal(place: Path) -> manifest.Manifest:
    manifest.seal_when_over(place, DONE)
    found = manifest.read(place)
    assert found is not None
    return found


def test_the_hash_is_that_of_sha256sum(directory: Path) -> None:
    found = seal(directory)
    assert found.sealed_at == DONE.ended_at
    assert list(found.files) == [
        "trial-01/unit.service",
        "trial-01/workload-0/measure-1/result.json",
        "trial-01/workload-0/measure-1/stdout",
    ]
    entry = found.files["trial-01/workload-0/measure-1/stdout"]
    assert entry.sha256 == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    assert entry.size_bytes == 3


def test_what_was_changed_before_the_seal_is_not_blessed_by_it(directory: Path) -> None:
    manifest.record(directory, "trial-01/workload-0/measure-1")
    (directory / "trial-01/workload-0/measure-1/stdout").write_bytes(b"two")
    manifest.record(directory, "trial-01", deep=False)
    found = manifest.differences(directory, seal(directory))
    assert found.altered == ("trial-01/workload-0/measure-1/stdout",)


def test_a_measurement_that_is_begun_anew_is_recorded_anew(directory: Path) -> None:
    manifest.record(directory, "trial-01/workload-0/measure-1")
    place = directory / "trial-01/workload-0/measure-1"
    (place / "stdout").write_bytes(b"two")
    (place / "result.json").unlink()
    manifest.record(directory, "trial-01/workload-0/measure-1")
    assert manifest.differences(directory, seal(directory)) == manifest.Differences()


def test_a_run_that_may_go_on_is_not_sealed(directory: Path) -> None:
    for state in (RunState.RUNNING, RunState.INTERRUPTED):
        manifest.seal_when_over(directory, a_run(state=state))
    assert manifest.read(directory) is None
    manifest.record(directory, "trial-01")
    found = manifest.read(directory)
    assert found is not None
    assert found.sealed_at == ""


def test_sealing_twice_changes_nothing(directory: Path) -> None:
    seal(directory)
    content = (directory / manifest.FILE_NAME).read_bytes()
    (directory / "later").write_bytes(b"x")
    manifest.seal_when_over(directory, DONE)
    assert (directory / manifest.FILE_NAME).read_bytes() == content


def test_a_trial_that_is_put_aside_takes_its_hashes_along(directory: Path) -> None:
    manifest.record(directory, "trial-01")
    place = set_aside(directory / "trial-01", "on-lab-02")
    assert place is not None
    (place / "unit.service").write_bytes(b"[Unix]\n")
    found = manifest.differences(directory, seal(directory))
    assert found == manifest.Differences(altered=("trial-01-on-lab-02/unit.service",))


def test_links_reports_and_half_written_files_are_not_evidence(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    (directory / "trial-01" / "link").symlink_to(tmp_path / "secret")
    (directory / "trial-01" / "away").symlink_to(tmp_path)
    (directory / "trial-01" / ".stdout-x1").write_bytes(b"half")
    os.mkfifo(directory / "trial-01" / "pipe")
    (directory / "report").mkdir()
    (directory / "report" / "report.md").write_bytes(b"#")
    assert len(seal(directory).files) == 3


def test_a_file_that_became_a_link_is_missing(directory: Path) -> None:
    known = seal(directory)
    unit = directory / "trial-01" / "unit.service"
    unit.rename(directory / "elsewhere")
    unit.symlink_to(directory / "elsewhere")
    found = manifest.differences(directory, known)
    assert found == manifest.Differences(missing=("trial-01/unit.service",), unlisted=("elsewhere",))


def test_hosts_that_end_their_measurements_side_by_side_lose_nothing(tmp_path: Path) -> None:
    places = [f"trial-{number:02d}" for number in range(1, 17)]
    for place in places:
        raw_files.keep(tmp_path / place, {"stdout": place.encode()})
    threads = [threading.Thread(target=manifest.record, args=(tmp_path, place)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = manifest.read(tmp_path)
    assert found is not None
    assert sorted(found.files) == [f"{place}/stdout" for place in places]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1, "files": []}',
        b'{"version": 1, "run": "x", "sealed_at": "", "files": {"a": {"sha256": "00", "bytes": 1}}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_manifest_is_said_and_does_not_keep_a_measurement_from_its_end(
    directory: Path, content: bytes
) -> None:
    (directory / manifest.FILE_NAME).write_bytes(content)
    with pytest.raises(Unreadable):
        manifest.read(directory)
    manifest.record(directory, "trial-01")
    assert len(seal(directory).files) == 3


@given(st.binary(max_size=400) | st.text(max_size=200).map(lambda text: json.dumps(text).encode()))
def test_no_content_of_a_manifest_raises_anything_else(content: bytes) -> None:
    with contextlib.suppress(Unreadable):
        manifest.parse(content, "m")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(size=st.sampled_from([0, 1, raw_files.LARGE_BYTES, raw_files.LARGE_BYTES + 1]), twice=st.booleans())
def test_a_raw_file_comes_back_as_it_was_and_in_one_form(tmp_path: Path, size: int, *, twice: bool) -> None:
    if twice:
        raw_files.keep(tmp_path, {"result.json": b"x" * (raw_files.LARGE_BYTES * 2 - size)})
    raw_files.keep(tmp_path, {"result.json": b"y" * size})
    packed = size > raw_files.LARGE_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["result.json.gz" if packed else "result.json"]
    assert raw_files.read(tmp_path, "result.json") == b"y" * size


def test_the_same_content_is_packed_to_the_same_bytes(tmp_path: Path) -> None:
    content = {"stdout": bytes(range(256)) * 2000}
    raw_files.keep(tmp_path / "a", content)
    raw_files.keep(tmp_path / "b", content)
    assert (tmp_path / "a/stdout.gz").read_bytes() == (tmp_path / "b/stdout.gz").read_bytes()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"no gzip at all"])
def test_a_packed_file_that_is_broken_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stdout.gz").write_bytes(content)
    if content:
        with pytest.raises(Unreadable, match=r"stdout\.gz cannot be read"):
            raw_files.read(tmp_path, "stdout")
    else:
        assert raw_files.read(tmp_path, "stdout") == b""


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw_files.keep(tmp_path, {"stdout": b"0" * 300_000})
    monkeypatch.setattr(raw_files, "LARGEST_BYTES", 100_000)
    with pytest.raises(Unreadable, match="larger than"):
        raw_files.read(tmp_path, "stdout")

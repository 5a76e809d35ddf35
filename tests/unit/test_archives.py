"""A run as one file: out of a store and into another one, and nothing else however the file was made."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_runs import measured_run

from fleetbench.cli import main
from fleetbench.errors import FleetbenchError, NotPossible, Unreadable, UsageError
from fleetbench.export.adding import add_archive
from fleetbench.export.archive import read_about
from fleetbench.export.archiving import archive_run
from fleetbench.export.members import members
from fleetbench.results import bounded_json, manifest, run_records
from fleetbench.results.rows import LoanRow, RunState
from fleetbench.results.store import Store, open_store
from fleetbench.verify.verification import verify

Document = dict[str, Any]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    place = tmp_path_factory.mktemp("measured")
    with open_store(f"sqlite:///{place}/store.sqlite", place / "runs") as store:
        yield store, measured_run(store)


@pytest.fixture
def archive(measured: tuple[Store, str], tmp_path: Path) -> Path:
    store, run_id = measured
    return archive_run(store, run_id, tmp_path / "run.tar.xz").path


@pytest.fixture
def other(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(database_url, tmp_path / "other") as store:
        yield store


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/empty.sqlite", tmp_path / "empty") as store:
        yield store


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def repacked(
    path: Path,
    content: dict[str, bytes],
    *,
    hashes: bool = True,
    last: tuple[tarfile.TarInfo, ...] = (),
    form: int = tarfile.USTAR_FORMAT,
) -> Path:
    """Write an archive of other content, with the hashes that belong to it where they are asked for."""
    run_id = next(iter(content)).partition("/")[0]
    about = json.loads(content[f"{run_id}/archive.json"])
    if hashes:
        about["members"] = {
            name.removeprefix(f"{run_id}/"): {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in content.items()
            if not name.endswith("/archive.json")
        }
    content = content | {f"{run_id}/archive.json": json.dumps(about).encode()}
    made = path.with_name(f"made-{path.name}")
    with tarfile.open(made, "w:xz", format=form) as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in last:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return made


def with_rows(path: Path, change: Callable[[Document], None]) -> Path:
    """Write the archive with rows that were changed."""
    content = unpacked(path)
    name = next(found for found in content if found.endswith("/rows.json"))
    rows = json.loads(content[name])
    change(rows)
    return repacked(path, content | {name: json.dumps(rows).encode()})


def tree(store: Store, run_id: str) -> dict[str, bytes]:
    directory = store.directory(run_id)
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def nothing_is_left(store: Store) -> bool:
    return store.runs() == () and list(store.runs_directory.iterdir()) == []


def test_a_run_is_the_same_in_another_store_and_its_numbers_hold_there(
    measured: tuple[Store, str], archive: Path, other: Store
) -> None:
    store, run_id = measured
    found = add_archive(other, archive)
    assert (found.run_id, found.new, found.left_out) == (run_id, True, 0)
    assert other.trials(run_id) == store.trials(run_id)
    assert other.measurements(run_id) == store.measurements(run_id)
    assert tree(other, run_id) == tree(store, run_id)
    checked = verify(other, run_id)
    assert checked.holds
    assert checked.checked == verify(store, run_id).checked
    origin = other.run(run_id).origin
    assert "from archive run.tar.xz (sha256 " in origin
    assert hashlib.sha256(archive.read_bytes()).hexdigest()[:16] in origin


def test_adding_twice_changes_nothing_and_archiving_again_gives_the_same_bytes(
    archive: Path, other: Store, tmp_path: Path
) -> None:
    run_id = add_archive(other, archive).run_id
    before = other.run(run_id)
    assert not add_archive(other, archive).new
    assert other.run(run_id) == before
    again = archive_run(other, run_id, tmp_path / "again.tar.xz").path
    assert again.read_bytes() == archive.read_bytes()


def test_gzip_does_as_well(measured: tuple[Store, str], empty: Store, tmp_path: Path) -> None:
    store, run_id = measured
    packed = archive_run(store, run_id, tmp_path / "run.tar.gz").path
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert add_archive(empty, packed).new
    assert tree(empty, run_id) == tree(store, run_id)
    with pytest.raises(UsageError, match="does not say how to pack"):
        archive_run(store, run_id, tmp_path / "run.zip")


def test_a_small_archive_names_what_it_left_out_and_the_whole_one_completes_it(
    measured: tuple[Store, str], archive: Path, empty: Store, tmp_path: Path
) -> None:
    store, run_id = measured
    big = store.directory(run_id) / "trial-01" / "big.txt"
    big.write_bytes(b"x" * 100_000)
    try:
        small = archive_run(store, run_id, tmp_path / "small.tar.xz", small=True)
        assert small.left_out == 1
        whole = archive_run(store, run_id, tmp_path / "whole.tar.xz")
        assert whole.left_out == 0
    finally:
        big.unlink()
    assert add_archive(empty, small.path).left_out == 1
    assert "without 1 of its raw files" in empty.run(run_id).origin
    assert "trial-01/big.txt" not in tree(empty, run_id)
    for again in (True, False):  # what was left out stays so, whoever passes the run on
        passed_on = archive_run(empty, run_id, tmp_path / "again.tar.xz", small=again)
        assert passed_on.left_out == 1
        assert passed_on.path.read_bytes() == small.path.read_bytes()
    assert not add_archive(empty, whole.path).new
    assert tree(empty, run_id)["trial-01/big.txt"] == b"x" * 100_000
    assert not (empty.directory(run_id) / manifest.LEFT_OUT).exists()
    assert archive_run(empty, run_id, tmp_path / "again.tar.xz").path.read_bytes() == whole.path.read_bytes()
    assert not add_archive(empty, small.path).new
    assert not (empty.directory(run_id) / manifest.LEFT_OUT).exists()


def test_a_run_that_is_there_with_other_rows_or_files_is_refused_and_left_alone(
    archive: Path, other: Store
) -> None:
    run_id = add_archive(other, archive).run_id
    before = tree(other, run_id)

    def reported(rows: Document) -> None:
        rows["measurements"][1]["output_throughput"] *= 2

    with pytest.raises(NotPossible, match="is there, and other than in the archive") as caught:
        add_archive(other, with_rows(archive, reported))
    assert caught.value.cause == "its measurements differ"
    content = unpacked(archive)
    changed = next(name for name in content if name.endswith("stdout"))
    with pytest.raises(NotPossible, match="other than in the archive"):
        add_archive(other, repacked(archive, content | {changed: b"other"}))
    assert tree(other, run_id) == before


def test_a_directory_without_rows_is_taken_when_it_is_the_same(archive: Path, empty: Store) -> None:
    """A process that was killed between files and rows."""
    run_id = add_archive(empty, archive).run_id
    place = empty.runs_directory.parent
    with open_store(f"sqlite:///{place}/second.sqlite", empty.runs_directory) as second:
        assert add_archive(second, archive).new
        assert second.run(run_id).id == run_id
    next((empty.directory(run_id)).rglob("stdout")).write_text("other")
    with (
        open_store(f"sqlite:///{place}/third.sqlite", empty.runs_directory) as third,
        pytest.raises(NotPossible, match="other than in the archive"),
    ):
        add_archive(third, archive)


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_an_unfinished_run_would_act_on_hosts_and_has_to_be_asked_for(
    state: str, archive: Path, empty: Store
) -> None:
    def change(rows: Document) -> None:
        rows["run"]["state"] = state

    made = with_rows(archive, change)
    with pytest.raises(NotPossible, match="is not over") as caught:
        add_archive(empty, made)
    assert "--unfinished" in caught.value.next_step
    assert nothing_is_left(empty)
    assert add_archive(empty, made, unfinished=True).new


def test_an_open_loan_is_unfinished_too(tmp_path: Path, empty: Store) -> None:
    with open_store(f"sqlite:///{tmp_path}/a.sqlite", tmp_path / "a") as store:
        run_id = measured_run(store, repeats=1)
        store.add_loans(
            run_id, [LoanRow(run_id=run_id, host="h", unit="sshd.service", active_state="active")]
        )
        made = archive_run(store, run_id, tmp_path / "a.tar.xz").path
    with pytest.raises(NotPossible, match="is not over"):
        add_archive(empty, made)
    assert empty.open_loans("h") == ()


def test_a_run_that_is_worked_on_is_not_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: Store
) -> None:
    run_id = measured_run(empty, repeats=1)
    empty.set_run_state(run_id, RunState.RUNNING)
    monkeypatch.setattr("fleetbench.export.archiving.lives_here", lambda controller: True)
    with pytest.raises(NotPossible, match="is being worked on"):
        archive_run(empty, run_id, tmp_path / "x.tar.xz")
    assert not (tmp_path / "x.tar.xz").exists()


# ---------------------------------------------------------------- what somebody may send


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_a_link_or_a_device_is_refused(kind: bytes, archive: Path, empty: Store) -> None:
    content = unpacked(archive)
    run_id = next(iter(content)).partition("/")[0]
    made = repacked(archive, content, last=(link(f"{run_id}/files/x", kind),))
    with pytest.raises(Unreadable, match="is no regular file"):
        add_archive(empty, made)
    assert nothing_is_left(empty)


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "files/../../evil",
        "files//evil",
        "files/./evil",
        "files/.bashrc",
        "files/a/.ssh/authorized_keys",
        "files/report/report.html",
        "files/left-out.json",
        "files/evil\x1b[31m",
        "files/a\\b",
        "evil",
        "files",
        f"files/{'x' * 90}/{'y' * 90}/{'z' * 40}/{'w' * 99}",
    ],
)
def test_a_path_that_a_run_never_has_is_refused(name: str, archive: Path, empty: Store) -> None:
    content = unpacked(archive)
    run_id = next(iter(content)).partition("/")[0]
    with pytest.raises(FleetbenchError):
        add_archive(
            empty, repacked(archive, content | {f"{run_id}/{name}": b"evil"}, form=tarfile.GNU_FORMAT)
        )
    assert nothing_is_left(empty)
    assert not list(empty.runs_directory.parent.rglob("*evil*"))


def test_an_absolute_path_and_another_run_s_are_refused(archive: Path, empty: Store) -> None:
    content = unpacked(archive)
    for name in ("/tmp/evil", "20260101-000000-other-0000/files/evil"):
        with pytest.raises(Unreadable):
            add_archive(empty, repacked(archive, content | {name: b"evil"}, hashes=False))
    assert nothing_is_left(empty)


def test_content_that_is_not_as_archived_missing_or_double_is_refused(archive: Path, empty: Store) -> None:
    content = unpacked(archive)
    name = next(found for found in content if found.endswith("stdout"))
    with pytest.raises(Unreadable, match="is not as it was archived"):
        add_archive(empty, repacked(archive, content | {name: b"other"}, hashes=False))
    without = {found: data for found, data in content.items() if found != name}
    with pytest.raises(Unreadable, match="is not in it"):
        add_archive(empty, repacked(archive, without, hashes=False))
    double = tarfile.TarInfo(name)
    with pytest.raises(Unreadable, match="or once only"):
        add_archive(empty, repacked(archive, content, last=(double,)))
    assert nothing_is_left(empty)


def test_a_long_name_in_an_extended_header_is_not_even_read(archive: Path, empty: Store) -> None:
    content = unpacked(archive)
    run_id = next(iter(content)).partition("/")[0]
    long = {f"{run_id}/files/{'x' * 5000}": b""}
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with pytest.raises(Unreadable, match="is no regular file"):
            add_archive(empty, repacked(archive, content | long, form=form))


def test_a_bomb_ends_early(tmp_path: Path, empty: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetbench.export.members.MOST_BYTES", 10_000_000)
    info = tarfile.TarInfo("20260101-000000-m-0000/archive.json")
    info.size = 60_000_000
    made = tmp_path / "bomb.tar.xz"
    with lzma.open(made, "wb", preset=0) as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(info.size))
    with pytest.raises(Unreadable, match="unpacks to more than"):
        add_archive(empty, made)
    info.size = 1 << 40
    made.write_bytes(lzma.compress(info.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(Unreadable, match="is larger than"):
        add_archive(empty, made)
    assert nothing_is_left(empty)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04zip", b"\xfd7zXZ\x00broken", b"\x1f\x8bbroken", lzma.compress(b"no tar" * 200)],
)
def test_what_is_no_archive_is_said_to_be_none(content: bytes, tmp_path: Path, empty: Store) -> None:
    path = tmp_path / "x.tar.xz"
    path.write_bytes(content)
    with pytest.raises(Unreadable):
        add_archive(empty, path)
    assert nothing_is_left(empty)


def test_an_archive_that_was_cut_off_adds_nothing(archive: Path, tmp_path: Path, empty: Store) -> None:
    whole = archive.read_bytes()
    cut = tmp_path / "cut.tar.xz"
    for share in (0.001, 0.1, 0.5, 0.9):
        cut.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(Unreadable):
            add_archive(empty, cut)
    assert nothing_is_left(empty)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_end_in_a_traceback(content: bytes) -> None:
    for packed in (content, lzma.compress(content, preset=0)):
        with contextlib.suppress(Unreadable):
            assert [member.name for member in members(io.BytesIO(packed)) if list(member.chunks())] == []


def put(path: str, value: object) -> Callable[[Document], None]:
    def change(rows: Document) -> None:
        place: Any = rows
        *parts, last = path.split("/")
        for part in parts:
            place = place[int(part) if part.isdigit() else part]
        place[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run/id", "../../etc"),
        ("run/id", 7),
        ("run/state", "fine"),
        ("run/hosts", "lab-01"),
        ("run/hosts", [1]),
        ("run/arguments", []),
        ("run/colour", "red"),
        ("run/created_at", "9999-12-31T23:59:59Z"),
        ("run/created_at", "99999"),
        ("run/created_at", ""),
        ("run/updated_at", "2026-11-30T14:12:33Z\x1b[2J"),
        ("run/ended_at", "yesterday"),
        ("trials/0/started_at", "2026-13-30T14:12:33Z"),
        ("measurements/0/ended_at", "2026-11-30 14:12:33"),
        ("trials", {}),
        ("trials/0", []),
        ("trials/0/run_id", "20260101-000000-other-0000"),
        ("trials/0/number", "1"),
        ("trials/0/number", True),
        ("trials/0/number", 2**40),
        ("trials/0/config", {"tp": "2"}),
        ("trials/0/config", {"tp": True}),
        ("trials/0/config", {"serve_args": "--x"}),
        ("trials/0/config", {"max_model_len": 0.5}),
        ("trials/0/workloads", [{"num_prompts": None}]),
        ("trials/0/workloads", []),
        ("trials/0/gpus", "0-3;rm"),
        ("trials/0/ready_s", "12"),
        ("trials/0/member_ports", [-1]),
        ("measurements/0/directory", "../../other"),
        ("measurements/0/directory", "/etc"),
        ("measurements/0/trial", 9),
        ("measurements/0/workload_index", -1),
        ("measurements/0/verdict", "great"),
        ("measurements/0/latencies", {"p99_ttft_ms": "1"}),
        ("measurements/0/findings", [{"rule": "x"}]),
        ("measurements/0/findings", [{"rule": "x", "verdict": "great", "text": "t"}]),
        ("measurements/0/output_throughput", "100"),
        ("measurements/0/output_throughput", 10**400),
        ("measurements/0/completed", 2**63),
        ("measurements/0/telemetry", {"a": 10**30}),
        ("measurements/0/reasons", None),
    ],
)
def test_a_row_that_no_store_holds_is_refused(path: str, value: object, archive: Path, empty: Store) -> None:
    with pytest.raises(Unreadable):
        add_archive(empty, with_rows(archive, put(path, value)))
    assert nothing_is_left(empty)


@pytest.mark.parametrize("table", ["trials", "measurements"])
def test_a_row_that_is_there_twice_leaves_nothing_that_blocks_the_true_archive(
    table: str, archive: Path, empty: Store
) -> None:
    def twice(rows: Document) -> None:
        rows[table].append(rows[table][0])

    with pytest.raises(Unreadable) as caught:
        add_archive(empty, with_rows(archive, twice))
    assert caught.value.cause == f"one of its {table} is there twice"
    assert nothing_is_left(empty)
    assert add_archive(empty, archive).new


def test_rows_that_the_database_refuses_leave_no_files(
    archive: Path, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("fleetbench.results.run_records._out_of_place", lambda records: "")
        with pytest.raises(FleetbenchError, match="cannot add the run"):
            add_archive(other, with_rows(archive, lambda rows: rows["trials"].append(rows["trials"][0])))
    assert nothing_is_left(other)
    assert add_archive(other, archive).new


def test_files_that_cannot_be_put_in_place_leave_no_rows(
    archive: Path, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("fleetbench.export.adding._settle", full)
        with pytest.raises(FleetbenchError, match="cannot add"):
            add_archive(other, archive)
    assert nothing_is_left(other)
    assert add_archive(other, archive).new


@pytest.mark.parametrize("unit", [b"{},", b"[],", b'"",', b'{"a":{}},'])
def test_what_would_fill_the_memory_is_refused_before_it_is_read(
    unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetbench.results.bounded_json.json.loads", lambda _: pytest.fail("it was read"))
    bomb = b'{"trials": [' + unit * 4_000_000 + b"0]}"
    for read in (run_records.read_records, read_about, manifest.parse):
        with pytest.raises(Unreadable) as caught:
            read(bomb, "x")
        assert caught.value.cause == "ValueError: more than 4,000,000 values"


def test_a_run_of_ten_thousand_measurements_has_room() -> None:
    """Each as large as the largest of a real run, with a trial to three of them."""
    real = unpacked(Path(__file__).parents[2] / "docs/example-report/runs/cpu-splits.tar.xz")
    rows = json.loads(next(content for name, content in real.items() if name.endswith("/rows.json")))
    size_bytes = values = 0
    for table, count in (("measurements", 10_000), ("trials", 3_400)):
        texts = [json.dumps(row) for row in rows[table]]
        size_bytes += count * max(map(len, texts))
        values += count * max(sum(map(text.count, ",{[")) for text in texts)
    assert values * 1.8 < bounded_json.MOST_VALUES
    assert size_bytes * 1.5 < bounded_json.LARGEST_BYTES


def test_rows_that_are_no_json_and_depths_that_end_python_are_refused() -> None:
    for content in (b"", b"[]", b"{", b'{"run": ' + b"[" * 100_000, b"NaN", b"\xff\xfe"):
        with pytest.raises(Unreadable):
            run_records.read_records(content, "x")


def test_a_column_that_is_newer_than_the_archive_has_the_value_of_a_new_row(
    archive: Path, empty: Store
) -> None:
    def older(rows: Document) -> None:
        for row in rows["trials"]:
            del row["gpu_name"], row["member_ports"]
        for row in rows["measurements"]:
            del row["ceiling"]

    run_id = add_archive(empty, with_rows(archive, older)).run_id
    assert empty.trials(run_id)[0].member_ports == ()
    assert empty.measurements(run_id)[0].ceiling == {}


def test_an_archive_of_a_newer_schema_or_version_names_what_to_do(archive: Path, empty: Store) -> None:
    for key, value in (("schema", 999), ("version", 2), ("format", "other")):
        content = unpacked(archive)
        name = next(found for found in content if found.endswith("archive.json"))
        about = json.loads(content[name]) | {key: value}
        with pytest.raises(Unreadable) as caught:
            add_archive(empty, repacked(archive, content | {name: json.dumps(about).encode()}))
        assert "fleetbench" in caught.value.next_step


# ---------------------------------------------------------------- the commands


def call(runs: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    monkeypatch.setenv("FLEETBENCH_RUNS", str(runs))
    return CliRunner().invoke(main, words)


def test_a_run_travels_by_two_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(f"sqlite:///{tmp_path}/laptop/fleetbench.sqlite", tmp_path / "laptop") as store:
        run_id = measured_run(store, repeats=1)
    exported = call(tmp_path / "laptop", monkeypatch, "export", "latest", "--format", "archive")
    assert exported.exit_code == 0, exported.stderr
    assert exported.stdout == f"{run_id}.tar.xz\n"
    added = call(tmp_path / "jump", monkeypatch, "runs", "add", f"{run_id}.tar.xz")
    assert (added.exit_code, added.stdout) == (0, f"{run_id}\n"), added.stderr
    again = call(tmp_path / "jump", monkeypatch, "runs", "add", f"{run_id}.tar.xz")
    assert "was there" in again.stderr
    shown = call(tmp_path / "jump", monkeypatch, "runs", "show", "latest")
    assert "origin" in shown.stdout
    assert "from archive" in shown.stdout
    listed = call(tmp_path / "jump", monkeypatch, "runs", "add", "nothing.tar.xz")
    assert listed.exit_code == 1
    assert "cannot add nothing.tar.xz" in listed.stderr


def test_a_file_that_is_no_archive_is_named_and_keeps_no_other_one_out(
    measured: tuple[Store, str], archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "env.sh"
    other.write_text("export X=1\n")
    alone = call(tmp_path / "alone", monkeypatch, "runs", "add", str(other))
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "env.sh: this is no archive of a run" in alone.stderr
    assert "next:  give files that `fleetbench export RUN --format archive` wrote" in alone.stderr
    both = call(tmp_path / "both", monkeypatch, "runs", "add", str(other), str(archive))
    assert (both.exit_code, both.stdout) == (1, f"{measured[1]}\n")
    assert "env.sh: this is no archive of a run" in both.stderr
    assert "1 of 2 files were not added" in both.stderr


def test_small_is_for_archives_and_an_unknown_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(f"sqlite:///{tmp_path}/fleetbench.sqlite", tmp_path).close()
    found = call(tmp_path, monkeypatch, "export", "latest", "--format", "archive")
    assert found.exit_code == 1
    assert "there is no run yet" in found.stderr


def test_the_manifest_of_an_added_run_is_the_one_that_was_sealed(
    measured: tuple[Store, str], archive: Path, empty: Store
) -> None:
    store, run_id = measured
    add_archive(empty, archive)
    assert manifest.read(empty.directory(run_id)) == manifest.read(store.directory(run_id))

"""`fleetbench verify`: a digit that was changed anywhere is named, and what was not changed holds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from measured_runs import alter, measured_run
from shared_material import SHARED, names
from sqlalchemy import text

from fleetbench.cli import main
from fleetbench.export.adding import add_archive
from fleetbench.report.files import write_report
from fleetbench.results import manifest
from fleetbench.results.samples import read_samples
from fleetbench.results.store import Store, open_store
from fleetbench.verify.verification import Verification, verify

EXAMPLES = Path(__file__).parents[2] / "docs" / "example-report" / "runs"
REPEAT = "trial-01/workload-0/measure-1"


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(database_url, runs_directory=tmp_path / "runs") as found:
        yield found


def broken(found: Verification) -> dict[str, tuple[object, object]]:
    """What does not hold: stored and found values by place and name."""
    return {f"{claim.place}: {claim.name}": (claim.stored, claim.found) for claim in found.broken}


def unchecked(found: Verification) -> dict[str, str]:
    """Why each value cannot be checked, by place and name."""
    return {f"{one.place}: {one.name}": one.why for one in found.unchecked}


def test_a_run_that_nobody_touched_holds_to_the_last_number(store: Store) -> None:
    run = measured_run(store)
    write_report(store, run)
    found = verify(store, run)
    assert found.holds
    assert broken(found) == {}
    assert found.unchecked == ()
    assert found.checked > 150
    assert found.files.sealed_at
    assert found.files.differences == manifest.Differences()
    assert found.files.problem == ""


@pytest.mark.parametrize(
    ("name", "old", "new", "place", "values"),
    [
        ("result.json", "51200.0", "51210.0", "output_throughput", (51200.0, 51210.0)),
        ("result.json", '"completed": 4000', '"completed": 3999', "completed", (4000, 3999)),
        ("result.json", '"mean_ttft_ms": 9.0', '"mean_ttft_ms": 9.000000000000002', "mean_ttft_ms", None),
        ("client.json", '"seed": 1000001', '"seed": 1000002', "seed", (1000001, 1000002)),
        ("client.json", '"exit_status": 0', '"exit_status": 1', "exit_status", (0, 1)),
        ("client.json", '"output_len": 128', '"output_len": 129', "workload: output_len", (128, 129)),
    ],
)
def test_one_digit_of_a_raw_file_is_named_with_both_values(
    store: Store, name: str, old: str, new: str, place: str, values: tuple[object, object] | None
) -> None:
    run = measured_run(store)
    alter(store.directory(run) / REPEAT / name, old, new)
    found = verify(store, run)
    assert not found.holds
    assert found.files.differences.altered == (f"{REPEAT}/{name}",)
    key = f"{REPEAT}: {place}"
    assert key in broken(found)
    if values is not None:
        assert broken(found)[key] == values
    assert all(where.startswith(REPEAT) or "report: " in where for where in broken(found))


def test_a_counter_of_the_server_that_was_changed_is_a_finding_that_nobody_stored(store: Store) -> None:
    run = measured_run(store, 1)
    alter(store.directory(run) / REPEAT / "metrics-after.txt", "4000", "4900")
    found = broken(verify(store, run))
    text = "the server answered 4,900 requests, the client counts 4,000: somebody else used it"
    assert found[f"{REPEAT}: finding server-requests"] == (None, text)
    assert found[f"{REPEAT}: verdict"] == ("valid", "suspect")


def test_a_digit_that_changes_the_verdict_says_so_and_names_the_headline_that_falls(store: Store) -> None:
    run = measured_run(store, 1)
    alter(store.directory(run) / REPEAT / "result.json", '"completed": 4000', '"completed": 3999')
    found = broken(verify(store, run))
    assert found[f"{REPEAT}: verdict"] == ("valid", "invalid")
    assert found[f"{REPEAT}: finding counts"][0] is None
    assert found["tp=1 dp=1, random 128/128 n=4000 c=400: report: output_throughput"] == (51200.0, None)


@pytest.mark.parametrize(
    ("name", "old", "new", "key"),
    [
        ("unit.service", "Restart=no", "Restart=on", "hash of the unit's text"),
        ("served-8101.json", "4096", "4097", "effective max_model_len"),
        ("metrics-start-8101.txt", '"1000"', '"1001"', "effective kv_cache_tokens"),
        ("facts-before.json", "575.57.08", "575.57.09", "versions of the server: driver"),
        ("versions.json", '"0.19.1"', '"0.19.2"', "versions of the server: packages"),
    ],
)
def test_what_a_trial_was_is_derived_too(store: Store, name: str, old: str, new: str, key: str) -> None:
    run = measured_run(store, 1)
    alter(store.directory(run) / "trial-01" / name, old, new)
    found = verify(store, run)
    assert f"trial-01: {key}" in broken(found)
    assert found.files.differences.altered == (f"trial-01/{name}",)


def test_a_number_that_was_changed_in_the_store_is_found_by_the_files_that_were_not(store: Store) -> None:
    run = measured_run(store)
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE measurements SET output_throughput = 61200 WHERE repeat = 2"))
    found = verify(store, run)
    assert found.files.differences == manifest.Differences()
    second = "trial-01/workload-0/measure-2"
    assert broken(found)[f"{second}: output_throughput"] == (61200.0, 51200.0)


def test_a_table_of_the_report_that_was_edited_is_told_from_the_store(store: Store) -> None:
    run = measured_run(store)
    paths = write_report(store, run)
    alter(paths.measurements, "51200.0", "59200.0")
    found = broken(verify(store, run))
    assert len(found) == 1
    ((where, values),) = found.items()
    assert where.startswith("report/measurements.csv, ")
    assert where.endswith(": output_throughput")
    assert values == ("51200.0", "59200.0")


def test_files_that_are_gone_and_files_that_came_are_named(store: Store) -> None:
    run = measured_run(store, 1)
    directory = store.directory(run)
    (directory / REPEAT / "result.json").unlink()
    (directory / REPEAT / "notes.txt").write_text("mine")
    found = verify(store, run)
    assert not found.holds
    assert found.files.differences.missing == (f"{REPEAT}/result.json",)
    assert found.files.differences.unlisted == (f"{REPEAT}/notes.txt",)
    assert broken(found) == {}  # what nobody can derive any more is not wrong
    assert unchecked(found)[f"{REPEAT}: output_throughput"] == "result.json is missing"
    assert unchecked(found)[f"{REPEAT}: verdict"] == "result.json is missing"


def test_a_result_that_was_unpacked_by_hand_is_there_for_its_numbers(store: Store) -> None:
    run = measured_run(store, 1, lambda repeat: {"errors": ["x" * 100] * 4000})
    place = store.directory(run) / REPEAT
    (place / "result.json").write_bytes(gzip.decompress((place / "result.json.gz").read_bytes()))
    (place / "result.json.gz").unlink()
    found = verify(store, run)
    assert found.files.differences.missing == (f"{REPEAT}/result.json.gz",)
    assert (broken(found), found.unchecked) == ({}, ())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Store, str]]:
    """A store with a run that came from a small archive: it has no result.json."""
    with open_store(runs_directory=tmp_path / "runs") as found:
        yield found, add_archive(found, EXAMPLES / "h200-thousand.tar.xz").run_id


def test_what_a_small_archive_left_out_is_no_failure_and_what_is_there_is_compared(
    small: tuple[Store, str],
) -> None:
    store, run = small
    found = verify(store, run)
    assert broken(found) == {}
    assert found.holds
    assert found.files.differences.missing == ()
    assert len(found.files.left_out) == 5
    assert f"{REPEAT}/result.json.gz" in found.files.left_out
    # 28 numbers of each of four reports are in stdout with two decimals.
    assert found.rounded == 4 * 28
    assert set(unchecked(found).values()) == {"result.json was left out of the archive"}
    assert f"{REPEAT}: burstiness" in unchecked(found)
    assert f"{REPEAT}: output_throughput" not in unchecked(found)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (" 120.88 ", " 120.89 ", "duration"),
        (" 120.88 ", " 120.8 ", "duration"),
        (" 10000 ", " 10001 ", "completed"),
        (" 83.36 ", " 83.37 ", "p99_tpot_ms"),
    ],
)
def test_a_digit_of_what_the_client_printed_counts_where_that_is_all_there_is(
    small: tuple[Store, str], old: str, new: str, name: str
) -> None:
    store, run = small
    alter(store.directory(run) / REPEAT / "stdout", old, new)
    found = verify(store, run)
    assert f"{REPEAT}: {name}" in broken(found)
    assert found.files.differences.altered == (f"{REPEAT}/stdout",)


@pytest.mark.parametrize(("value", "holds"), [(10588.8349, True), (10588.8351, False), (10588.8249, False)])
def test_a_stored_number_holds_when_it_rounds_to_what_the_client_printed(
    small: tuple[Store, str], value: float, holds: bool
) -> None:
    store, run = small
    with store._engine.begin() as connection:
        connection.execute(
            text("UPDATE measurements SET output_throughput = :value WHERE repeat = 1 AND kind = 'measure'"),
            {"value": value},
        )
    found = broken(verify(store, run))
    assert (f"{REPEAT}: output_throughput" not in found) == holds
    if not holds:
        assert found[f"{REPEAT}: output_throughput"] == (value, 10588.83)


def test_a_file_is_missing_when_no_archive_says_that_it_left_that_very_file_out(
    small: tuple[Store, str],
) -> None:
    store, run = small
    note = store.directory(run) / manifest.LEFT_OUT
    known = json.loads(note.read_text())
    known["files"][f"{REPEAT}/result.json.gz"]["bytes"] += 1
    note.write_text(json.dumps(known))
    found = verify(store, run)
    assert not found.holds
    assert found.files.differences.missing == (f"{REPEAT}/result.json.gz",)
    assert unchecked(found)[f"{REPEAT}: burstiness"] == "result.json is missing"
    for content in (
        b"",
        b"[" * 50_000,
        b'{"version": 2, "files": {}}',
        b'{"version": 1, "files": {"/x": 1}}',
    ):
        note.write_bytes(content)
        assert len(verify(store, run).files.differences.missing) == 5


def test_a_file_that_was_only_added_does_no_harm(store: Store) -> None:
    run = measured_run(store, 1)
    (store.directory(run) / "notes.txt").write_text("mine")
    found = verify(store, run)
    assert found.holds
    assert found.files.differences.unlisted == ("notes.txt",)


def test_an_old_run_without_a_manifest_says_so_and_its_numbers_are_derived_all_the_same(store: Store) -> None:
    run = measured_run(store, 1)
    directory = store.directory(run)
    (directory / manifest.FILE_NAME).unlink()
    old = json.loads((directory / REPEAT / "client.json").read_text())
    for name in ("workload", "limit_s", "notes", "fleetbench"):
        del old[name]
    (directory / REPEAT / "client.json").write_text(json.dumps(old))
    found = verify(store, run)
    assert found.holds
    assert "no manifest" in found.files.problem
    assert [(one.place, one.name) for one in found.unchecked] == [(REPEAT, "verdict")]
    alter(directory / REPEAT / "result.json", "51200.0", "51210.0")
    assert f"{REPEAT}: output_throughput" in broken(verify(store, run))


def test_rules_of_another_version_judge_nothing(store: Store) -> None:
    run = measured_run(store, 1)
    alter(store.directory(run) / REPEAT / "client.json", '"fleetbench": "0.1.0"', '"fleetbench": "9.9.9"')
    (unchecked,) = verify(store, run).unchecked
    assert (unchecked.name, unchecked.why) == ("verdict", "it was judged by the rules of fleetbench 9.9.9")


def test_a_large_result_is_kept_packed_and_its_digits_are_found_as_well(store: Store) -> None:
    run = measured_run(store, 1, lambda repeat: {"errors": ["x" * 100] * 4000, "output_throughput": 51199.5})
    place = store.directory(run) / REPEAT
    assert not (place / "result.json").exists()
    assert (place / "result.json.gz").stat().st_size < 10_000
    assert verify(store, run).holds
    alter(place / "result.json", "51199.5", "51199.6")
    assert broken(verify(store, run))[f"{REPEAT}: output_throughput"] == (51199.5, 51199.6)


def detailed(repeat: int) -> dict[str, object]:
    """A report with its requests: four thousand answers of 128 tokens, each a little slower than the last."""
    count = 4000
    ttfts = [round(0.009 + index / 1e6, 6) for index in range(count)]
    mean_s = sum(ttfts) / count
    return {
        "input_lens": [128] * count,
        "output_lens": [128] * count,
        "ttfts": ttfts,
        "itls": [[0.007] * 127] * count,
        "errors": [""] * count,
        "mean_ttft_ms": mean_s * 1000,
        "median_ttft_ms": mean_s * 1000,
        "p99_ttft_ms": (0.009 + 0.99 * (count - 1) / 1e6) * 1000,
        **{f"{part}_e2el_ms": 898.0 + 2 for part in ("mean", "median")},
        "p99_e2el_ms": 902.0,
    }


def test_one_digit_of_one_request_changes_the_mean_that_rests_on_it(store: Store) -> None:
    run = measured_run(store, 1, detailed)
    write_report(store, run)
    found = verify(store, run)
    assert broken(found) == {}
    assert found.unchecked == ()
    alter(store.directory(run) / REPEAT / "result.json", "0.009001", "0.009008")
    after = broken(verify(store, run))
    stored, derived = after[f"{REPEAT}: from its requests: mean_ttft_ms"]
    assert isinstance(stored, float)
    assert derived == pytest.approx(stored + 0.007 / 4000)
    assert f"{REPEAT}: from its requests: median_ttft_ms" not in after


@pytest.mark.parametrize(
    "path", names("captures/cpu/bench_versions/results/v0.[13][0135].*.json"), ids=lambda path: path[-14:-5]
)
def test_what_real_clients_report_follows_from_the_requests_that_they_wrote_down(
    tmp_path: Path, path: str
) -> None:
    content = json.loads((SHARED / path).read_text("utf-8").splitlines()[0])
    with open_store(runs_directory=tmp_path) as store:
        run = measured_run(store, 1, lambda _: content)
        found = [claim for claim in broken(verify(store, run)) if "from its requests" in claim]
    assert found == []
    assert read_samples(json.dumps(content)) is not None


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"[" * 50_000, b"\xff\xfe", b'{"completed": 1e999}'])
@pytest.mark.parametrize(
    "name",
    [
        f"{REPEAT}/result.json",
        f"{REPEAT}/client.json",
        f"{REPEAT}/witness.json",
        f"{REPEAT}/metrics-after.txt",
        "trial-01/versions.json",
        "trial-01/served-8101.json",
        "trial-01/facts-before.json",
        "manifest.json",
    ],
)
def test_whatever_a_file_holds_nothing_is_raised_and_the_run_does_not_pass_in_silence(
    tmp_path: Path, name: str, content: bytes
) -> None:
    with open_store(runs_directory=tmp_path) as store:
        run = measured_run(store, 1)
        (store.directory(run) / name).write_bytes(content)
        found = verify(store, run)
    assert not found.holds or found.files.problem


def test_the_command_names_the_number_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    with open_store(runs_directory=tmp_path) as store:
        run = measured_run(store)
        good = CliRunner().invoke(main, ["verify", "latest"])
        assert good.exit_code == 0, good.output
        assert f"run      {run}" in good.stdout
        alter(store.directory(run) / REPEAT / "result.json", "51200.0", "51210.0")
    bad = CliRunner().invoke(main, ["verify", run])
    assert bad.exit_code == 1
    assert f"{REPEAT}: output_throughput is 51200.0 in the store, result.json says 51210.0" in bad.stdout
    assert "altered: trial-01/workload-0/measure-1/result.json" in bad.stdout
    assert "error: run" in bad.stderr
    assert "do not hold" in bad.stderr
    shown = CliRunner().invoke(main, ["verify", run, "--format", "json"])
    assert shown.exit_code == 1
    document = json.loads(shown.stdout)
    assert document["holds"] is False
    assert {
        "place": REPEAT,
        "name": "output_throughput",
        "stored": 51200.0,
        "found": 51210.0,
        "source": "result.json",
    } in document["broken"]


def test_the_command_says_what_was_left_out_and_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETBENCH_RUNS", str(tmp_path))
    monkeypatch.delenv("FLEETBENCH_DB", raising=False)
    with open_store(runs_directory=tmp_path) as store:
        run = add_archive(store, EXAMPLES / "h200-thousand.tar.xz").run_id
        found = verify(store, run)
    shown = CliRunner().invoke(main, ["verify", run])
    assert shown.exit_code == 0, shown.output
    assert "files    39 of 44 are as they were written, 5 were left out of the archive" in shown.stdout
    numbers = f"{found.checked} of {found.checked} hold, 112 of them as rounded as stdout has them"
    assert f"numbers  {numbers}; {len(found.unchecked)} not checked" in shown.stdout
    lines = [line for line in shown.stdout.splitlines() if line.startswith(f"  not checked: {REPEAT}: ")]
    assert len(lines) == 1
    assert lines[0].endswith(" more: result.json was left out of the archive")
    assert "next: fleetbench runs add" in shown.stdout
    document = json.loads(CliRunner().invoke(main, ["verify", run, "--format", "json"]).stdout)
    assert (document["holds"], document["rounded"], len(document["files"]["left_out"])) == (True, 112, 5)
    (tmp_path / run / "trial-01" / "unit.service").unlink()
    gone = CliRunner().invoke(main, ["verify", run])
    assert gone.exit_code == 1
    assert "its raw files are not as they were written" in gone.stderr
    assert "missing: trial-01/unit.service" in gone.stdout

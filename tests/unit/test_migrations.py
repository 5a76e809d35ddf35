"""The schema's way from an empty database to today's, on both kinds of database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from fleetbench.errors import FleetbenchError
from fleetbench.results.database import open_engine, parse_url, reading, writing
from fleetbench.results.migrations import current_version, migrate
from fleetbench.results.rows import RunKind
from fleetbench.results.schema import METADATA
from fleetbench.results.schema_history import MIGRATIONS, Migration
from fleetbench.results.store import open_store

NEXT = MIGRATIONS[-1].version + 1


def test_migrations_are_numbered_from_one_without_gaps() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_a_migrated_database_has_exactly_the_tables_and_columns_of_the_schema(database_url: str) -> None:
    engine = open_engine(parse_url(database_url))
    with writing(engine, "migrate") as connection:
        assert migrate(connection) == tuple(migration.version for migration in MIGRATIONS)
    with reading(engine, "look") as connection:
        inspector = inspect(connection)
        assert set(inspector.get_table_names()) == set(METADATA.tables)
        for table in METADATA.sorted_tables:
            found = {column["name"]: column for column in inspector.get_columns(table.name)}
            assert list(found) == [column.name for column in table.columns], table.name
            for column in table.columns:
                there = found[column.name]
                kind = there["type"]._type_affinity
                assert kind is column.type._type_affinity, (table.name, column.name)
                assert there["nullable"] == column.nullable, (table.name, column.name)
            keys = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert keys == [column.name for column in table.primary_key.columns]
            assert len(inspector.get_foreign_keys(table.name)) == len(table.foreign_key_constraints)
            indexes = {index["name"] for index in inspector.get_indexes(table.name)}
            assert indexes == {index.name for index in table.indexes}
    engine.dispose()


def test_migrating_twice_applies_nothing_the_second_time(database_url: str) -> None:
    engine = open_engine(parse_url(database_url))
    with writing(engine, "migrate") as connection:
        migrate(connection)
    with writing(engine, "migrate") as connection:
        assert migrate(connection) == ()
    engine.dispose()


def test_a_later_migration_keeps_what_is_stored(database_url: str, tmp_path: Path) -> None:
    with open_store(database_url, tmp_path / "runs") as store:
        run = store.create_run(kind=RunKind.BENCH, model="m", hosts=["h"])
    later = (*MIGRATIONS, Migration(NEXT, "a colour", ("ALTER TABLE runs ADD COLUMN colour TEXT",)))
    engine = open_engine(parse_url(database_url))
    with writing(engine, "migrate") as connection:
        assert migrate(connection, later) == (NEXT,)
    with reading(engine, "look") as connection:
        assert current_version(connection) == NEXT
        assert connection.scalar(text("SELECT count(*) FROM runs WHERE colour IS NULL")) == 1
        assert connection.scalar(text("SELECT id FROM runs")) == run.id
    engine.dispose()


def test_a_trial_of_the_first_schema_has_no_servers_behind_a_balancer(
    database_url: str, tmp_path: Path
) -> None:
    engine = open_engine(parse_url(database_url))
    with writing(engine, "migrate") as connection:
        migrate(connection, MIGRATIONS[:1])
        connection.execute(
            text(
                "INSERT INTO runs (id, kind, state, model, hosts, arguments, created_at, updated_at)"
                " VALUES ('r', 'sweep', 'done', 'm', '[]', '{}', 'then', 'then')"
            )
        )
        connection.execute(
            text(
                "INSERT INTO trials (run_id, number, host, gpus, port, config, workloads, repeats, state,"
                " effective) VALUES ('r', 1, 'h', '0', 8101, :config, '[]', 1, 'measured', '{}')"
            ),
            {"config": '{"tp": 1}'},
        )
    engine.dispose()
    with open_store(database_url, tmp_path / "runs") as store:
        assert [trial.member_ports for trial in store.trials("r")] == [()]


def test_a_migration_that_fails_half_way_leaves_nothing(database_url: str) -> None:
    broken = (*MIGRATIONS, Migration(NEXT, "broken", ("CREATE TABLE fine (a INTEGER)", "CREATE TABLE ,")))
    engine = open_engine(parse_url(database_url))
    with pytest.raises(FleetbenchError, match="cannot migrate"), writing(engine, "migrate") as connection:
        migrate(connection, broken)
    with reading(engine, "look") as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()


def test_a_database_newer_than_the_code_is_refused_and_not_touched(database_url: str, tmp_path: Path) -> None:
    open_store(database_url, tmp_path / "runs").close()
    engine = open_engine(parse_url(database_url))
    with writing(engine, "pretend") as connection:
        connection.execute(text("INSERT INTO schema_version VALUES (99, 'future', 'then', '9.9')"))
    for create in (True, False):
        with pytest.raises(FleetbenchError, match="schema version 99, this fleetbench knows") as caught:
            open_store(database_url, tmp_path / "runs", create=create)
        assert "newer fleetbench" in caught.value.next_step
    engine.dispose()


def test_another_programs_tables_are_left_alone(database_url: str, tmp_path: Path) -> None:
    engine = open_engine(parse_url(database_url))
    with writing(engine, "pretend") as connection:
        connection.execute(text("CREATE TABLE runs (mlflow TEXT)"))
    with pytest.raises(FleetbenchError, match="bring the schema up to date") as caught:
        open_store(database_url, tmp_path / "runs")
    assert "database of its own" in caught.value.next_step
    with reading(engine, "look") as connection:
        assert inspect(connection).get_table_names() == ["runs"]
    engine.dispose()


def test_eight_openers_of_an_empty_database_migrate_it_once(database_url: str, tmp_path: Path) -> None:
    def opened(_: int) -> str:
        with open_store(database_url, tmp_path / "runs") as store:
            return store.location

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(opened, range(8)))) == 8
    engine = open_engine(parse_url(database_url))
    with reading(engine, "look") as connection:
        assert connection.scalar(text("SELECT count(*) FROM schema_version")) == len(MIGRATIONS)
    engine.dispose()

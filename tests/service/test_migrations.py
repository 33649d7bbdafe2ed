"""Databases of older schemas, and of others."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.profiling.store.store import ProfileStore

pytest.importorskip("alembic", reason="the extra [serve] is not installed")

from a3gnn.service.jobs.database import TABLES, open_service_database


def test_the_steps_lead_to_the_tables_that_the_code_has(tmp_path: Path) -> None:
    engine = open_service_database(str(tmp_path / "new.sqlite"))
    found = sa.MetaData()
    with engine.connect() as connection:
        found.reflect(connection)
    engine.dispose()
    for table in TABLES.sorted_tables:
        made = found.tables[table.name]
        shapes = [{c.name: (str(c.type), c.nullable) for c in one.columns} for one in (table, made)]
        assert shapes[0] == shapes[1]
        indexed = [{tuple(c.name for c in index.columns) for index in one.indexes} for one in (table, made)]
        assert indexed[0] == indexed[1]


def test_a_profile_store_becomes_a_service_database_and_keeps_its_rows(tmp_path: Path, measurement) -> None:
    path = str(tmp_path / "profiles.sqlite")
    with ProfileStore.open(path) as store:
        store.add(measurement(TrainConfig()))
    open_service_database(path).dispose()
    open_service_database(path).dispose()
    with ProfileStore.open(path) as store:
        assert len(store.rows()) == 1


def test_a_database_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "newer.sqlite"
    open_service_database(str(path)).dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE a3gnn_service_version SET version_num = '999'")
    connection.close()
    with pytest.raises(StoreError, match="schema of this a3gnn or an older one"):
        open_service_database(str(path))


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE music (id INTEGER)")
    connection.close()
    with pytest.raises(StoreError, match="not a profile store"):
        open_service_database(str(path))

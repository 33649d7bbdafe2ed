"""The profile store's tables, and the opening of its database."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from a3gnn.addresses import without_password
from a3gnn.errors import StoreError

T = TypeVar("T")

#: Seconds to wait for a locked file.
PATIENCE_SECONDS = 60
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.25
#: SQLite's primary result codes for a lock held by another connection.
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

#: Version of the tables below; a store of another version is refused.
STORE_SCHEMA_VERSION = 1
#: PostgreSQL's advisory lock while tables are made. Any number does that no other program uses.
_MAKING_TABLES = 0xA3622

TABLES = sa.MetaData()
ABOUT = sa.Table("a3gnn_store", TABLES, sa.Column("schema_version", sa.Integer, primary_key=True, autoincrement=False))
ROWS = sa.Table(
    "a3gnn_measurements",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("config", sa.String(32), nullable=False),
    sa.Column("task", sa.String(32), nullable=False, index=True),
    sa.Column("graph", sa.String(64), nullable=False, index=True),
    sa.Column("hardware", sa.String(32), nullable=False, index=True),
    sa.Column("accuracy_budget", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.UniqueConstraint("config", "task", "graph", "hardware", "accuracy_budget", "version"),
)


def open_database(place: str) -> sa.Engine:
    """Opens the store at `place`, a path or an SQLAlchemy URL; makes the tables in an empty database.

    Raises:
        StoreError: `place` can't be opened, is no store, or is a store of another schema version.
    """
    url = database_url(place)
    sqlite = url.drivername.startswith("sqlite")
    if "://" not in place:
        _make_folder(Path(place))
    engine = _engine(url, sqlite)
    try:
        if sqlite and (file := _plain_file(engine.url)) is not None:
            make_whole(file, _fill)
        patiently(lambda: _check_schema(engine))
    except SQLAlchemyError as error:
        engine.dispose()
        raise store_error("open", engine, error) from error
    except OSError as error:
        engine.dispose()
        raise StoreError(f"can't make the profile store {place}: {error}; give another path") from error
    except StoreError:
        engine.dispose()
        raise
    return engine


def database_url(place: str) -> sa.URL:
    """Returns the URL of a store at `place`, a path or an SQLAlchemy URL; opens and makes nothing.

    Raises:
        StoreError: `place` is a folder, or not the URL of a supported database.
    """
    if "://" not in place:
        if Path(place).is_dir():
            raise StoreError(
                f"a profile store must be a file, got the folder {place}; name a file, such as "
                f"{Path(place) / 'profiles.db'}"
            )
        return sa.URL.create("sqlite", database=place)
    try:
        url = sa.make_url(place)
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(
            f"can't open a profile store at {without_password(place)!r}: {without_password(str(error))}; give a path "
            "or an SQLAlchemy URL"
        ) from None  # the cause has the password
    return url


def writing(engine: sa.Engine) -> sa.Engine:
    """Returns `engine` for transactions that write: on SQLite they wait for their turn before they read."""
    return engine.execution_options(a3gnn_writes=True)


def one_at_a_time(connection: sa.Connection) -> None:
    """Makes other processes wait with their tables until this transaction ends; SQLite does so by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING_TABLES)))


def store_error(verb: str, engine: sa.Engine, error: SQLAlchemyError) -> StoreError:
    """Turns a database's `error` into one for users."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    place = engine.url.render_as_string(hide_password=True)
    return StoreError(
        f"can't {verb} the profile store {without_password(place)}: {without_password(str(cause))}; stored rows are "
        "unchanged; give another path if it is not a profile store; if there is no room or no permission, correct that "
        "and run again"
    )


def patiently(function: Callable[[], T]) -> T:
    """Returns the result of `function`, which is called again while the database is locked, for at most a minute."""
    end, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE_S
    while True:
        try:
            return function()
        except Exception as error:
            if not _is_held(error) or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def make_whole(path: Path, fill: Callable[[Path], None]) -> None:
    """Makes a missing database at `path`: it appears with everything that `fill` writes, or not at all.

    If several processes do so at once, the first one's database stays. On a file system without links nothing is made.

    Args:
        path: The file.
        fill: Fills a new database at the given path, and closes it.

    Raises:
        OSError: The folder can't be written.
    """
    if path.exists():
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        draft = Path(scratch) / path.name
        fill(draft)
        with suppress(OSError):  # another process was first, or the file system has no links
            os.link(draft, path)


def write_ahead(connection: sqlite3.Connection) -> None:
    """Turns on SQLite's write-ahead log (readers beside a writer, no torn rows) and a sync at every commit."""
    with closing(connection.cursor()) as cursor:
        # To change the mode needs the file alone. SQLite refuses at once, whatever the connection's timeout.
        if patiently(lambda: cursor.execute("PRAGMA journal_mode").fetchone())[0] != "wal":
            patiently(lambda: cursor.execute("PRAGMA journal_mode=WAL"))
        cursor.execute("PRAGMA synchronous=FULL")


def _engine(url: sa.URL, sqlite: bool) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": PATIENCE_SECONDS} if sqlite else {})
    if sqlite:
        sa.event.listen(engine, "connect", _make_crash_safe)
        sa.event.listen(engine, "begin", _begin)
    return engine


def _plain_file(url: sa.URL) -> Path | None:
    """Returns the file that `url` names, or None for a database in memory or a URL with options."""
    name = url.database or ":memory:"
    return None if name == ":memory:" or name.startswith("file:") or url.query else Path(name)


def _fill(path: Path) -> None:
    """Makes a store's tables in a new file."""
    engine = _engine(database_url(str(path)), sqlite=True)
    with writing(engine).begin() as connection:
        _make_tables(connection)
    engine.dispose()


def _make_tables(connection: sa.Connection) -> None:
    TABLES.create_all(connection)
    connection.execute(sa.insert(ABOUT).values(schema_version=STORE_SCHEMA_VERSION))


def _check_schema(engine: sa.Engine) -> None:
    with writing(engine).begin() as connection:
        one_at_a_time(connection)
        names = set(sa.inspect(connection).get_table_names())
        if not names:
            _make_tables(connection)
        elif ABOUT.name not in names:
            raise StoreError(f"{engine.url.database} is a database, but not a profile store; give another path")
        version = connection.execute(sa.select(ABOUT.c.schema_version)).scalar_one()
    if version != STORE_SCHEMA_VERSION:
        raise StoreError(
            f"the profile store {engine.url.database} has schema version {version}, but this a3gnn needs "
            f"{STORE_SCHEMA_VERSION}; give another path, or export its rows with the a3gnn that wrote it"
        )


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"can't make the folder of the profile store {path}: {error}; give another path") from error


def _make_crash_safe(connection: Any, record: object) -> None:
    connection.isolation_level = None  # `_begin` begins transactions, not the driver
    write_ahead(connection)


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("a3gnn_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_held(error: Any) -> bool:
    cause = getattr(error, "orig", error)  # SQLAlchemy wraps the driver's error
    return isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode & 0xFF in _HELD

"""The service's database: the profile store's, plus the service's own tables, migrated to the current schema."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from a3gnn._imports import optional
from a3gnn.addresses import without_password
from a3gnn.errors import StoreError
from a3gnn.profiling.store.database import one_at_a_time, open_database, store_error, writing

TABLES = sa.MetaData()
#: The largest number of a job or a graph, which is an integer column in both databases.
MOST = 2**31 - 1


class PathText(sa.TypeDecorator[str]):
    """A path as text. Bytes that are not UTF-8 are stored as `//` and two hex digits, which no path contains.

    Databases take only Unicode, and Python decodes such bytes to lone surrogates.
    """

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Returns the text to store for `value`, whose slashes are single ones."""
        return value and re.sub("[\udc80-\udcff]", lambda found: f"//{ord(found[0]) - 0xDC00:02x}", value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Returns the path stored as `value`."""
        return value and re.sub("//([89a-f][0-9a-f])", lambda found: chr(0xDC00 + int(found[1], 16)), value)


GRAPHS = sa.Table(
    "a3gnn_graphs",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("origin", sa.String(16), nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("spec", PathText, nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False, index=True),
    sa.Column("home", sa.String(32)),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
JOBS = sa.Table(
    "a3gnn_jobs",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("graph", sa.Integer, nullable=False, index=True),
    sa.Column("study", sa.Integer, index=True),
    sa.Column("arguments", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    sa.Column("stop_asked", sa.Boolean, nullable=False),
    sa.Column("home", sa.String(32), index=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("started", sa.Float),
    sa.Column("ended", sa.Float),
    sa.Column("error", sa.Text),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("deleted", sa.Float),
    sa.Column("key", sa.String(64), unique=True, index=True),
    sa.Column("asked", sa.String(64)),
    sqlite_autoincrement=True,
)

#: Sessions of browsers: the hash of each secret, and its end in seconds since 1970.
SESSIONS = sa.Table(
    "a3gnn_sessions",
    TABLES,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("expires", sa.Float, nullable=False),
)
#: SQLite's primary result codes, and PostgreSQL's SQLSTATE, for a full disk. Other I/O errors have the first, too.
_IO_ERROR, _FULL, _DISK_FULL = sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, "53100"
#: A disk with less free bytes is full: SQLite's largest page.
_LEAST_FREE = 1 << 16


def open_service_database(place: str) -> sa.Engine:
    """Opens the database at `place`, a path or an SQLAlchemy URL, and brings its tables to this version.

    Raises:
        StoreError: It can't be opened, is no such database, or was written by a newer a3gnn.
    """
    engine = open_database(place)
    try:
        with writing(engine).begin() as connection:
            one_at_a_time(connection)
            _upgrade(connection)
    except SQLAlchemyError as error:
        engine.dispose()
        raise store_error("open", engine, error) from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def _upgrade(connection: sa.Connection) -> None:
    """Brings the tables to this version's schema, in the transaction of `connection`."""
    command = optional("alembic.command", "serve", "The service's database")
    config = optional("alembic.config", "serve", "The service's database").Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    failure = optional("alembic.util", "serve", "The service's database").CommandError
    try:
        command.upgrade(config, "head")
    except failure as error:
        place = without_password(connection.engine.url.render_as_string(hide_password=True))
        raise StoreError(
            f"the service's tables in {place} must have the schema of this a3gnn or an older one: {error}; use the "
            "a3gnn that wrote them, or another database"
        ) from error


def number_in(text: str) -> int | None:
    """Returns the number of a job or a graph that `text` is; None if it is none."""
    # Longer texts are no such number, and Python refuses to parse very long ones.
    found = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)) else 0
    return found if 1 <= found <= MOST else None


def inserted_id(result: sa.CursorResult[Any]) -> int:
    """Returns the number of the row just added."""
    key = result.inserted_primary_key
    assert key is not None, "the table has one"
    number: int = key[0]
    return number


def disk_is_full(error: SQLAlchemyError, folder: Path) -> bool:
    """Returns whether `error` comes from a full disk; `folder` is on the disk of an SQLite database."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlite_errorcode", None)
    if code is None:
        return getattr(cause, "sqlstate", None) == _DISK_FULL
    primary = code & 0xFF
    return primary == _FULL or (primary == _IO_ERROR and shutil.disk_usage(folder).free < _LEAST_FREE)

"""The service's database: the profile store's, with the service's tables brought to the present schema."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from a3gnn._imports import optional
from a3gnn.errors import StoreError
from a3gnn.profiling.store.database import one_at_a_time, open_database, store_error, writing


def open_service_database(place: str) -> sa.Engine:
    """Returns the engine of the database at `place`, a path or an SQLAlchemy URL, with all tables of this version.

    Raises:
        StoreError: It can't be opened, holds something else, or is of a newer a3gnn.
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
        place = connection.engine.url.render_as_string(hide_password=True)
        raise StoreError(
            f"the service's tables in {place} must be of this a3gnn's schema or an older one: {error}; use the a3gnn "
            "that wrote them, or another database"
        ) from error

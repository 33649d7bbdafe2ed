"""`ProfileStore`: measurements in a table of SQLite, or of any database that SQLAlchemy supports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from a3gnn.addresses import without_password
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, StoreError
from a3gnn.measurement import MEASUREMENT_VERSION, Measurement
from a3gnn.profiling.store.database import ROWS, open_database, store_error, writing
from a3gnn.profiling.store.jsonl import write_measurements
from a3gnn.setting import Setting
from a3gnn.task import Task

_KEY = ("config", "task", "graph", "hardware", "accuracy_budget", "version")


class ProfileStore:
    """Measurements, one row for each configuration, task, graph, hardware, accuracy budget and version.

    Several processes may read and write one store at a time. A row is stored wholly or not at all, whenever a process
    ends. Open with `ProfileStore.open`; close it, or use it as a context manager.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """Opens the store at `place`, a path or an SQLAlchemy URL; makes it if it is missing.

        Raises:
            StoreError: `place` is no store or a store of another schema version, or there is no access.
        """
        return cls(open_database(str(place)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._errors("read"), self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(ROWS)).scalar_one()

    def close(self) -> None:
        """Closes the database's connections."""
        self._engine.dispose()

    def add(self, measurement: Measurement) -> None:
        """Stores `measurement`, in place of a measurement with the same key.

        Raises:
            StoreError: It can't be written (no room, no permission); the stored rows are unchanged.
        """
        self._write([measurement], replace=True)

    def get(self, config: TrainConfig, setting: Setting, accuracy_budget: int) -> Measurement | None:
        """Returns the measurement of `config` (its canonical form) by this version, or None.

        Args:
            config: The configuration.
            setting: The task, the graph and the machine.
            accuracy_budget: Epochs that the trial was to train.
        """
        found = self._select(_same(_key_of(config.key(), setting, accuracy_budget, MEASUREMENT_VERSION)))
        return found[0] if found else None

    def rows(
        self,
        *,
        task: Task | None = None,
        graph: str | None = None,
        hardware: str | None = None,
        accuracy_budget: int | None = None,
        version: int | None = MEASUREMENT_VERSION,
    ) -> list[Measurement]:
        """Returns the measurements that match every argument that is not None, in the order of their arrival.

        Args:
            task: The task.
            graph: The graph's fingerprint.
            hardware: The hardware's fingerprint.
            accuracy_budget: Epochs that the trials were to train.
            version: Measurement version; rows of other versions are readable but not comparable.
        """
        asked = {
            "task": task.key() if task else None,
            "graph": graph,
            "hardware": hardware,
            "accuracy_budget": accuracy_budget,
            "version": version,
        }
        conditions = [ROWS.c[name] == value for name, value in asked.items() if value is not None]
        return self._select(sa.and_(sa.true(), *conditions))

    def export_jsonl(self, path: str | Path) -> int:
        """Writes every row as a JSON line to `path` (gzip if it ends in .gz) and returns the number of rows."""
        return write_measurements(path, self.rows(version=None))

    def add_missing(self, measurements: Iterable[Measurement]) -> int:
        """Adds those of `measurements` whose keys are not stored yet, all or none; returns their number.

        Raises:
            StoreError: They can't be written; the stored rows are unchanged.
        """
        return self._write(measurements, replace=False)

    def remove(self, measurement: Measurement) -> None:
        """Removes the row with the key of `measurement`, if there is one.

        Raises:
            StoreError: It can't be written.
        """
        with self._errors("write"), writing(self._engine).begin() as connection:
            connection.execute(sa.delete(ROWS).where(_same(key_columns(measurement))))

    def raw_rows(self) -> list[dict[str, Any]]:
        """Returns the table's rows unparsed, by column, in the order of their arrival, so that they can be checked."""
        with self._errors("read"), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.select(ROWS).order_by(ROWS.c.id)).mappings()]

    def _select(self, condition: sa.ColumnElement[bool]) -> list[Measurement]:
        query = sa.select(ROWS.c.payload).where(condition).order_by(ROWS.c.id)
        with self._errors("read"), self._engine.connect() as connection:
            payloads = connection.execute(query).scalars().all()
        return [self._measurement(payload) for payload in payloads]

    def _measurement(self, payload: str) -> Measurement:
        try:
            return Measurement.from_dict(json.loads(payload))
        except (A3GNNError, ValueError, KeyError, TypeError, AttributeError) as error:
            place = without_password(self._engine.url.render_as_string(hide_password=True))
            raise StoreError(
                f"a row of the profile store {place} is not a measurement of this version of a3gnn: {error!r}; "
                "a3gnn profiles check names it"
            ) from error

    def _write(self, measurements: Iterable[Measurement], *, replace: bool) -> int:
        written = 0
        with self._errors("write"), writing(self._engine).begin() as connection:
            for measurement in measurements:
                row = _row(measurement)
                same = _same(row)
                if replace:
                    connection.execute(sa.delete(ROWS).where(same))
                elif connection.execute(sa.select(ROWS.c.id).where(same)).first() is not None:
                    continue
                connection.execute(sa.insert(ROWS).values(row))
                written += 1
        return written

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise store_error(verb, self._engine, error) from error


def key_columns(measurement: Measurement) -> dict[str, Any]:
    """Returns the columns by which the row of `measurement` is found."""
    return _key_of(measurement.config_key, measurement.setting, measurement.accuracy_budget, measurement.version)


def _row(measurement: Measurement) -> dict[str, Any]:
    return key_columns(measurement) | {"payload": json.dumps(measurement.to_dict())}


def _key_of(config_key: str, setting: Setting, accuracy_budget: int, version: int) -> dict[str, Any]:
    """Returns the key columns of a row, by the names in `_KEY`."""
    return dict(zip(_KEY, (config_key, *setting.key(), accuracy_budget, version), strict=True))


def _same(row: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    return sa.and_(*(ROWS.c[name] == row[name] for name in _KEY))

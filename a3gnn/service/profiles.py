"""`Profiles`: the measurements that predictions stand on, from this machine and from others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from a3gnn.profiling.store.database import ROWS
from a3gnn.profiling.store.holdings import Holding, holdings
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.store.transfer import import_rows


class Profiles:
    """The profile store of the service's database.

    Args:
        engine: The database.
        place: Where it is: a path or an SQLAlchemy URL.
    """

    def __init__(self, engine: sa.Engine, place: str) -> None:
        self._engine, self._place = engine, place
        self._held: tuple[str, list[Holding]] = ("", [])

    def count(self) -> int:
        """Returns how many measurements there are."""
        with self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(ROWS)).scalar_one()

    def stand(self) -> str:
        """Returns what is another text, all but surely, once there are other measurements: their number and the last.

        A number alone stays where a failed trial is forgotten and another one comes.
        """
        newest = sa.select(ROWS.c.id, ROWS.c.payload).order_by(ROWS.c.id.desc()).limit(1)
        with self._engine.connect() as connection:
            number, payload = connection.execute(newest).first() or (0, "")
        return f"{self.count()} {number} {payload}"

    def add(self, path: Path) -> tuple[int, int]:
        """Adds the rows of a file that `a3gnn profiles export` wrote; returns how many were new, and how many it had.

        Raises:
            StoreError: Something is wrong with a row; none is added.
        """
        return import_rows(path, self._place)

    def held(self) -> list[dict[str, Any]]:
        """Returns what there is of each graph, model and machine."""
        return [one.to_dict() for one in self._holdings()]

    def machines(self) -> list[dict[str, Any]]:
        """Returns the machines that were measured on."""
        found = {one.hardware.fingerprint: one.hardware for one in self._holdings()}
        return [machine.to_dict() for machine in found.values()]

    def _holdings(self) -> list[Holding]:
        stand = self.stand()
        if self._held[0] != stand:
            self._held = stand, holdings(ProfileStore(self._engine).rows(version=None))
        return self._held[1]

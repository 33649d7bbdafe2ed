"""`GraphShelf`: the graphs that studies are about, each looked at once."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from a3gnn.process.child import as_program
from a3gnn.profiling.store.database import writing
from a3gnn.service.database import GRAPHS, JOBS, inserted_id
from a3gnn.service.home import Home
from a3gnn.service.jail import admitted
from a3gnn.service.problems import ProblemDetails, conflict, not_found
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.turns import Turns

#: Seconds that looking at a graph may take. Guess.
_MOST_SECONDS = 3600.0
#: Graphs that are looked at at once: each takes a core, and memory; and that wait. Guesses.
_AT_ONCE, _WAITING = 2, 6


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """One graph.

    Attributes:
        id: Its number.
        name: What people call it.
        origin: path, upload or synthetic.
        source: What it was registered as.
        spec: What loads it, on the server.
        fingerprint: Of its content.
        home: The home folder of the server that can load it; None where any can.
        created: When it was registered: seconds since 1970.
        about: Its characteristics.
    """

    id: int
    name: str
    origin: str
    source: str
    spec: str
    fingerprint: str
    home: str | None
    created: float
    about: Mapping[str, Any]

    @classmethod
    def of_row(cls, row: sa.RowMapping) -> Self:
        """Returns the graph of a row of the table."""
        return cls(**{**{str(name): value for name, value in row.items()}, "about": json.loads(row["about"])})

    def to_dict(self) -> dict[str, Any]:
        """Returns what people see of it, as JSON types."""
        own = ("id", "name", "origin", "source", "fingerprint", "created", "about")
        return {name: getattr(self, name) for name in own}


class GraphShelf:
    """Registers graphs, and finds them again.

    Args:
        engine: The service's database.
        home: Where uploads are kept.
        settings: What may be registered.
    """

    def __init__(self, engine: sa.Engine, home: Home, settings: ServiceSettings) -> None:
        self._engine, self._home, self._settings = engine, home, settings
        self._turns = Turns("look at graphs", _AT_ONCE, _WAITING)

    def get(self, number: int) -> KnownGraph:
        """Returns the graph with this number.

        Raises:
            Problem: There is none.
        """
        found = self._first(GRAPHS.c.id == number)
        if found is None:
            raise not_found("graph", number)
        return found

    def newest(self, before: int | None = None, limit: int = 50, called: str = "") -> list[KnownGraph]:
        """Returns the newest graphs, newest first.

        Args:
            before: The number that the last page ended with.
            limit: So many at most.
            called: Part of the name, small and capital letters alike.
        """
        asked = sa.true() if before is None else GRAPHS.c.id < before
        asked = sa.and_(asked, GRAPHS.c.name.icontains(called, autoescape=True)) if called else asked
        query = sa.select(GRAPHS).where(asked).order_by(GRAPHS.c.id.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [KnownGraph.of_row(row) for row in connection.execute(query).mappings()]

    def names(self, numbers: Collection[int]) -> dict[int, str]:
        """Returns the names of the graphs with these numbers, by number."""
        query = sa.select(GRAPHS.c.id, GRAPHS.c.name).where(GRAPHS.c.id.in_(numbers))
        with self._engine.connect() as connection:
            return {row.id: row.name for row in connection.execute(query)}

    def register(self, dataset: str, name: str = "") -> KnownGraph:
        """Returns the graph that `dataset` names, below the data root or synthetic; one that is known as it is.

        Raises:
            GraphError: It may not be named, is not there, or is not valid.
        """
        spec = admitted(dataset, self._settings)
        synthetic = spec.startswith("synthetic:")
        home = None if synthetic else self._home.id
        found = self._examined(spec, None)
        same = sa.and_(GRAPHS.c.spec == spec, GRAPHS.c.fingerprint == found["fingerprint"])
        origin, source = "synthetic" if synthetic else "path", self._home.places.shown(dataset)
        return self._first(same) or self._add(found, name, origin, source, home)

    def adopt(self, upload: Path, name: str) -> KnownGraph:
        """Returns the graph in the file `upload`, an .npz, which is converted, and removed with its folder.

        Raises:
            GraphError: It is not valid, or has more than it may.
        """
        folder = self._home.graphs / secrets.token_hex(8)
        try:
            found = self._examined(str(upload), folder / upload.stem)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(upload.parent, ignore_errors=True)
        return self._add(found, name, "upload", upload.name, self._home.id)

    def place_for_upload(self, name: str) -> Path:
        """Returns the path of a file, in a new folder, that a graph called `name` may be written to."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60] or "upload"
        folder = self._home.uploads / secrets.token_hex(8)
        folder.mkdir()
        return folder / f"{stem}.npz"

    def delete(self, number: int) -> None:
        """Forgets a graph, and removes what was uploaded of it.

        Raises:
            Problem: There is none, or there are studies of it.
        """
        graph = self.get(number)
        with writing(self._engine).begin() as connection:
            used = connection.execute(sa.select(JOBS.c.id).where(JOBS.c.graph == number).limit(1)).first()
            if used is not None:
                raise conflict(f"graph {number} is that of studies, such as {used[0]}; delete them first")
            connection.execute(sa.delete(GRAPHS).where(GRAPHS.c.id == number))
        if graph.origin == "upload" and graph.home == self._home.id:
            shutil.rmtree(Path(graph.spec).parent, ignore_errors=True)

    def _first(self, condition: sa.ColumnElement[bool]) -> KnownGraph | None:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(GRAPHS).where(condition)).mappings().first()
        return None if row is None else KnownGraph.of_row(row)

    def _add(self, found: Mapping[str, Any], name: str, origin: str, source: str, home: str | None) -> KnownGraph:
        values = {
            "name": name or found["name"][:200],
            "origin": origin,
            "source": source,
            "spec": found["spec"],
            "fingerprint": found["fingerprint"],
            "home": home,
            "created": time.time(),
            "about": json.dumps({**found["about"], "notes": found["notes"]}),
        }
        with writing(self._engine).begin() as connection:
            number = inserted_id(connection.execute(sa.insert(GRAPHS).values(values)))
        return self.get(number)

    def _examined(self, spec: str, folder: Path | None) -> dict[str, Any]:
        """Returns what a process of its own finds of a graph: it may be damaged, or made to do damage."""
        settings, program = self._settings, as_program("a3gnn.service.graph_process")
        order = {
            "parent": os.getpid(),
            "spec": spec,
            "folder": None if folder is None else str(folder),
            **{f"max_{what}": getattr(settings, f"max_{what}") for what in ("nodes", "edges")},
            "max_bytes": None if folder is None else settings.max_upload_bytes,
        }
        try:
            with self._turns.one():
                ended = subprocess.run(
                    program.command,
                    input=json.dumps(order) + "\n",
                    env=program.environment | {"OPENBLAS_NUM_THREADS": "1"},  # each takes memory
                    stdout=subprocess.PIPE,
                    text=True,
                    timeout=_MOST_SECONDS,
                    start_new_session=True,
                    check=True,
                )
            found: dict[str, Any] = json.loads(ended.stdout)
        except (subprocess.SubprocessError, ValueError) as error:
            raise ProblemDetails(
                422,
                "graph",
                "the graph can't be read: the process that looks at it ended before it could tell of it, as where it "
                "takes more memory or time than it may; a smaller graph may be registered",
            ) from error
        if "error" in found:
            raise ProblemDetails.from_dict(self._home.places.shown_in(found["error"]))
        return found

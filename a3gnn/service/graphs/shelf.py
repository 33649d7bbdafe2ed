"""`GraphShelf`: the registered graphs, each examined once; `admitted`: the datasets that a request may name."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from a3gnn.errors import GraphError
from a3gnn.graphs.synthetic_recipe import Recipe
from a3gnn.graphs.target import Target
from a3gnn.profiling.store.database import writing
from a3gnn.service.graphs.examiner import Examiner
from a3gnn.service.http.problems import ProblemDetails, Turns, conflict, not_found
from a3gnn.service.jobs.database import GRAPHS, JOBS, inserted_id, number_in
from a3gnn.service.jobs.home import Home
from a3gnn.service.settings import ServiceSettings
from a3gnn.storage.atomic import try_lock
from a3gnn.units import format_size

_SYNTHETIC, _SPLIT = "synthetic:", "split:"
#: What stands before a registered graph's number in a dataset.
NUMBERED = "graph:"
#: Schemes that a3gnn takes elsewhere, and the reason why the server refuses them.
_REFUSED = {"pyg:": "they are downloaded and unpickled", "ogb:": "they are downloaded and unpickled"}
#: A file in the folder of an uploaded graph that the database does not have yet. A server that was killed leaves it.
_DRAFT = "draft"
_CONVERT = "convert it with a3gnn graph convert SPEC FOLDER, and put the folder below the data root"


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """A registered graph."""

    id: int
    name: str  # a name for people
    origin: str  # path, upload or synthetic
    source: str  # the dataset, as the user named it
    spec: str  # the dataset that loads it on the server
    fingerprint: str  # fingerprint of its content
    home: str | None  # the home folder of the server that can load it; None if any server can
    created: float  # time of registration, in seconds since 1970
    about: Mapping[str, Any]  # its characteristics

    @classmethod
    def of_row(cls, row: sa.RowMapping) -> Self:
        """Returns the graph of a row of the table."""
        return cls(**{**{str(name): value for name, value in row.items()}, "about": json.loads(row["about"])})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that users see, as JSON types."""
        own = ("id", "name", "origin", "source", "fingerprint", "created", "about")
        return {name: getattr(self, name) for name in own}


class GraphShelf:
    """Registers and finds graphs."""

    def __init__(self, engine: sa.Engine, home: Home, settings: ServiceSettings, examiner: Examiner) -> None:
        self._engine, self._home, self._settings, self._examiner = engine, home, settings, examiner
        self._turns = Turns("examine graphs", at_once=2)

    def get(self, number: int) -> KnownGraph:
        """Returns the graph with this number.

        Raises:
            ProblemDetails: There is no such graph.
        """
        found = self._first(GRAPHS.c.id == number)
        if found is None:
            raise not_found("graph", number)
        return found

    def newest(self, before: int | None = None, limit: int = 50, called: str = "") -> list[KnownGraph]:
        """Returns the newest graphs, newest first.

        Args:
            before: The last number of the previous page.
            limit: Most graphs returned.
            called: Part of the name, in any case.
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
        """Registers a synthetic graph or one below the data root, and returns it. A known graph is returned as it is.

        Raises:
            GraphError: `dataset` is not allowed, does not exist, or is not valid.
            ProblemDetails: `dataset` is graph:N, and there is no graph N.
        """
        if (number := number_in(dataset.removeprefix(NUMBERED))) is not None and dataset.startswith(NUMBERED):
            return self.get(number)
        spec = admitted(dataset, self._settings)
        synthetic = spec.startswith("synthetic:")
        home = None if synthetic else self._home.id
        found = self._examined(spec, None)
        same = sa.and_(GRAPHS.c.spec == spec, GRAPHS.c.fingerprint == found["fingerprint"])
        origin, source = "synthetic" if synthetic else "path", self._home.places.shown(dataset)
        if (known := self._first(same)) is not None:
            return known
        with writing(self._engine).begin() as connection:
            number = self._insert(connection, found, name, origin, source, home)
        return self.get(number)

    def adopt(self, upload: Path, name: str) -> KnownGraph:
        """Registers the .npz file `upload`, which is converted, and returns it. A known upload is returned as it is.

        Raises:
            GraphError: The graph is not valid or too large.
            ProblemDetails: The uploads would take more than `max_uploads_bytes`.
        """
        with self._draft(self._home.graphs) as folder:
            found = self._examined(str(upload), folder / upload.stem)
            upload.unlink()
            self.room()
            same = sa.and_(
                GRAPHS.c.origin == "upload",
                GRAPHS.c.home == self._home.id,
                GRAPHS.c.fingerprint == found["fingerprint"],
            )
            with writing(self._engine).begin() as connection:
                row = connection.execute(sa.select(GRAPHS).where(same)).mappings().first()
                if row is not None and Path(row["spec"]).exists():
                    return KnownGraph.of_row(row)
                number = self._insert(connection, found, name, "upload", upload.name, self._home.id)
            (folder / _DRAFT).unlink()
        return self.get(number)

    @contextmanager
    def place_for_upload(self, name: str) -> Iterator[Path]:
        """Yields the path, in a new folder, to which an uploaded file called `name` may be written; then removes it."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60] or "upload"
        with self._draft(self._home.uploads) as folder:
            yield folder / f"{stem}.npz"

    def room(self) -> int:
        """Returns how many bytes further uploads may have.

        Raises:
            ProblemDetails: There is no room.
        """
        most = self._settings.max_uploads_bytes
        left = most - sum(_size(folder) for folder in (self._home.uploads, self._home.graphs))
        if left <= 0:
            raise ProblemDetails(
                507,
                "no-room",
                f"all uploaded graphs together may have at most {most:,} bytes ({format_size(most)}) here; delete one "
                "that no study uses; a3gnn serve --max-uploads sets the limit",
            )
        return left

    def remove_leftovers(self) -> None:
        """Removes what servers that were killed left of uploads. Folders that a server still uses are locked."""
        its = sa.and_(GRAPHS.c.origin == "upload", GRAPHS.c.home == self._home.id)
        with self._engine.connect() as connection:
            known = {Path(spec).parent for spec in connection.execute(sa.select(GRAPHS.c.spec).where(its)).scalars()}
        for folder in (*self._home.uploads.iterdir(), *self._home.graphs.iterdir()):
            if folder.parent == self._home.graphs and not (folder / _DRAFT).exists():
                continue  # it is complete, even if another database has it
            with suppress(OSError), _lock(folder) as locked:
                if locked and folder in known:
                    (folder / _DRAFT).unlink(missing_ok=True)
                elif locked:
                    shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _draft(self, place: Path) -> Iterator[Path]:
        """Yields a new folder in `place`, locked; it is removed at the end if it is still a draft."""
        folder = place / secrets.token_hex(8)
        folder.mkdir()
        with _lock(folder):
            try:
                (folder / _DRAFT).touch()
                yield folder
            finally:
                if (folder / _DRAFT).exists():
                    shutil.rmtree(folder, ignore_errors=True)

    def delete(self, number: int) -> None:
        """Removes a graph, and its files if it was uploaded.

        Raises:
            ProblemDetails: There is no such graph, or studies use it.
        """
        graph = self.get(number)
        with writing(self._engine).begin() as connection:
            connection.execute(sa.select(GRAPHS.c.id).where(GRAPHS.c.id == number).with_for_update())  # no job begins
            users = sa.select(JOBS.c.id, JOBS.c.deleted).where(JOBS.c.graph == number)
            used = connection.execute(users.order_by(JOBS.c.deleted.is_not(None)).limit(1)).first()
            if used is not None:
                where = "" if used.deleted is None else " in the trash"
                raise conflict(f"graph {number} is used by jobs, such as {used.id}{where}; remove them for good first")
            connection.execute(sa.delete(GRAPHS).where(GRAPHS.c.id == number))
        if graph.origin == "upload" and graph.home == self._home.id:
            shutil.rmtree(Path(graph.spec).parent, ignore_errors=True)

    def _first(self, condition: sa.ColumnElement[bool]) -> KnownGraph | None:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(GRAPHS).where(condition)).mappings().first()
        return None if row is None else KnownGraph.of_row(row)

    def _insert(
        self, connection: sa.Connection, found: Mapping[str, Any], name: str, origin: str, source: str, home: str | None
    ) -> int:
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
        return inserted_id(connection.execute(sa.insert(GRAPHS).values(values)))

    def _examined(self, spec: str, folder: Path | None) -> dict[str, Any]:
        """Examines a graph in a process of its own, because the file may be damaged or malicious."""
        order = {
            "spec": spec,
            "folder": None if folder is None else str(folder),
            "max_nodes": self._settings.max_nodes,
            "max_edges": self._settings.max_edges,
            "max_bytes": None if folder is None else self._settings.max_upload_bytes,
        }
        with self._turns.one():
            return self._examiner.run("graph", order)


def admitted(spec: str, settings: ServiceSettings) -> str:
    """Returns the dataset to load for the graph that a request names as `spec`.

    Raises:
        GraphError: A request may not name it, or it does not exist.
    """
    for scheme, why in _REFUSED.items():
        if spec.startswith(scheme):
            raise GraphError(f"the server does not open {scheme} data sets, because {why}, got {spec!r}; {_CONVERT}")
    if spec.startswith(_SPLIT):
        raise GraphError(
            f"the server does not split graphs, got {spec!r}; make a folder with this split by a3gnn graph convert "
            "SPEC FOLDER --split TRAIN,VAL,TEST, and put it below the data root"
        )
    target, of = Target.in_spec(spec)
    if target.kind:
        return target.spec(admitted(of, settings))
    if spec.startswith(_SYNTHETIC):
        _bounded(Recipe.parse(spec.removeprefix(_SYNTHETIC)), settings)
        return spec
    return str(_below(spec, settings.data_root))


def _bounded(recipe: Recipe, settings: ServiceSettings) -> None:
    edges = 2 * recipe.nodes * recipe.degree
    for what, found, most in (
        ("nodes", recipe.nodes, settings.max_nodes),
        ("edges", edges, settings.max_edges),
        ("bytes of features", recipe.nodes * recipe.features * 4, settings.max_upload_bytes),
    ):
        if found > most:
            raise GraphError(f"a graph must have at most {most:,} {what} here, got {found:,.0f}; choose a smaller one")


def _below(spec: str, root: Path | None) -> Path:
    """Returns the path of `spec`, with links resolved, after a check that it lies below `root`."""
    if root is None:
        raise GraphError(
            f"a path needs a server with --data-root, and this server has none, got {spec!r}; upload the graph, or "
            "name a synthetic one"
        )
    absent = GraphError(
        f"{spec!r} does not exist below the data root; paths are relative to it, and GET /graphs lists the registered "
        "graphs"
    )
    try:
        root = root.resolve(strict=True)
        path = (root / spec).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise absent from None
    if not path.is_relative_to(root):
        raise absent  # the same as for a missing file, so that nobody learns which files exist outside
    if path.is_dir():
        check_folder(path, root, spec)
    elif not path.is_file() or path.suffix != ".npz":
        raise GraphError(
            "the server opens only .npz files and converted folders, because other files may be pickles or never end, "
            f"got {spec!r}; {_CONVERT}"
        )
    return path


def check_folder(path: Path, root: Path, spec: str) -> None:
    """Checks that a folder has only files below `root`, with links resolved.

    Raises:
        GraphError: It has another one.
    """
    for entry in path.iterdir():
        try:
            target = entry.resolve(strict=True)
            kind = target.stat().st_mode
        except (OSError, RuntimeError):
            kind = 0
        if not ((stat.S_ISREG(kind) or stat.S_ISDIR(kind)) and target.is_relative_to(root)):
            raise GraphError(
                f"a folder must have only files below the data root, got {entry.name!r} in {spec!r}, which is "
                "a link to another place, or no file; copy the file itself there"
            )


def _size(folder: Path) -> int:
    """Returns the bytes of the files below `folder`, some of which may go away meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Locks `folder` unless another process has, and yields whether it did. The lock ends with the process."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield try_lock(file)
    finally:
        os.close(file)

"""Converted graphs: a folder of plain .npy files, opened by memory map, and a meta.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.describe import describe
from a3gnn.graphs.features import features_from
from a3gnn.graphs.soundness import size_violations, violations
from a3gnn.graphs.types import Types
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.mapping import in_large_pages, settle
from a3gnn.storage.npy import content_hash, open_npy
from a3gnn.storage.stamp import verify_once

FORMAT = "a3gnn-graph"
#: The format of a data object of PyG's with types or times (`data_folder`).
DATA_FORMAT = "a3gnn-pyg-data"
#: The version of both formats.
FORMAT_VERSION = 1
_META = "meta.json"


def is_sound(path: Path) -> bool:
    """Returns whether `read_folder` can read `path`."""
    try:
        read_folder(path)
    except GraphError:
        return False
    return True


def write_folder(graph: GraphArrays, characteristics: GraphCharacteristics, path: Path) -> None:
    """Writes `graph` to the folder `path`, which must be new, empty, or hold this very graph already.

    Raises:
        GraphError: `path` holds something else, or can't be written; no half-written folder is left.
    """
    held = held_fingerprint(path)
    refuse_another(path, held, graph.fingerprint)
    if held is not None:
        return
    arrays = graph.arrays()
    needed = sum(array.nbytes for array in arrays.values())
    try:
        with replacing(path) as draft:
            need_room(draft.parent, needed)
            draft.mkdir()
            for name, array in arrays.items():
                np.save(draft / f"{name}.npy", array)
            _write_meta(graph, characteristics, draft)
            settle(draft)
    except OSError as error:
        raise GraphError(f"the graph can't be written to {path}: {error}; nothing was left there") from error
    refuse_another(path, held_fingerprint(path), graph.fingerprint)  # another process may have been first


def finish_folder(path: Path, name: str, num_classes: int, notes: tuple[str, ...]) -> GraphCharacteristics:
    """Describes the graph of the .npy files in the folder `path`, writes its meta.json, and returns the description.

    Raises:
        OSError: It can't be written.
    """
    settle(path)
    arrays = {file.stem: open_npy(file) for file in path.glob("*.npy")}
    graph = _graph(arrays, {"name": name, "num_classes": num_classes, "notes": notes}, path, None)
    characteristics = describe(graph)
    _write_meta(graph, characteristics, path)
    return characteristics


def read_folder(path: Path) -> GraphArrays:
    """Returns the graph in the folder `path`, its arrays as copy-on-write memory maps.

    Opening takes milliseconds. The content is verified the first time, and again after a file has changed.

    Raises:
        GraphError: The folder is not a converted graph, is of another version, or is damaged.
    """
    graph = open_folder(path)
    _verify(path, partial(check_content, graph, path))
    return graph


def open_folder(path: Path) -> GraphArrays:
    """Returns the graph in the folder `path` as `read_folder` does, with only sizes and types checked.

    Raises:
        GraphError: The folder is not a converted graph, is of another version, or is truncated.
    """
    meta = _read_meta(path)
    if meta["format"] != FORMAT:
        raise GraphError(f"{path} has node types or times, but this needs a graph of one type of nodes and edges")
    with _reading(path):
        known = GraphCharacteristics.from_dict(meta["characteristics"])
        arrays = _arrays(meta, path)
        graph = _graph(arrays, meta, path, known)
    for violation in size_violations(graph):
        raise GraphError(f"the files in {path} do not fit each other: {violation.rule}; convert the graph again")
    sizes = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    if sizes != (known.num_nodes, known.num_edges, known.num_features, known.num_classes):
        raise GraphError(f"{path / _META} is damaged: it describes another graph; convert the graph again")
    return graph


def check_content(graph: GraphArrays, path: Path, changed: bool) -> None:
    """Checks the arrays of `graph` in the folder `path`, and the fingerprint too if files have `changed`.

    Raises:
        GraphError: The graph is not valid, or its content differs from what was written.
    """
    for violation in violations(graph):
        raise GraphError(f"{path} is damaged: {violation.rule}; convert the graph again")
    if changed and (found := graph.content_fingerprint()) != graph.fingerprint:
        raise GraphError(
            f"{path} must hold the graph with fingerprint {graph.fingerprint}, got {found}. Its files have changed "
            "since a3gnn wrote them. Convert the graph again from its source"
        )


def finish_data(path: Path, layout: dict[str, Any]) -> str:
    """Writes the meta.json of the .npy files in the folder `path`, and returns the fingerprint of the data object.

    Args:
        path: The folder.
        layout: How the arrays make a data object (`data_folder`).

    Raises:
        OSError: It can't be written.
    """
    settle(path)
    arrays = {file.stem: open_npy(file) for file in sorted(path.glob("*.npy"))}
    kinds = {name: [array.dtype.str, list(array.shape), content_hash(array)] for name, array in arrays.items()}
    content = {**layout, "arrays": kinds}
    meta = {"format": DATA_FORMAT, "format_version": FORMAT_VERSION, "fingerprint": _fingerprint(content), **content}
    (path / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
    return str(meta["fingerprint"])


def open_data(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the meta.json of a data object in the folder `path` (`has_data`), and its arrays as memory maps.

    Only sizes and types of the arrays are checked.

    Raises:
        GraphError: The folder is damaged.
    """
    meta = _read_meta(path)
    with _reading(path):
        content = {name: value for name, value in meta.items() if name not in ("format", "format_version")}
        if content.pop("fingerprint") != _fingerprint(content):
            raise GraphError(f"{path / _META} is damaged: its content has changed; convert the graph again")
        return meta, _arrays(meta, path)


def read_data(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns what `open_data` does; the content is verified the first time, and again after a file has changed.

    Raises:
        GraphError: As `open_data`, or the content of an array has changed.
    """
    meta, arrays = open_data(path)

    def check(_changed: bool) -> None:
        for name, problem in changes(meta, arrays).items():
            raise GraphError(f"{path / name}.npy is damaged: {problem}; convert the graph again")

    _verify(path, check)
    return meta, arrays


def changes(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, str]:
    """Returns the rule that each array of a data object breaks whose content differs from when it was written."""
    found = {name: content_hash(array) for name, array in arrays.items()}
    known = {name: kind[2] for name, kind in meta["arrays"].items()}
    return {name: f"its hash must be {known[name]}, got {found[name]}" for name in found if found[name] != known[name]}


def has_data(path: Path) -> bool:
    """Returns whether the folder `path` has a data object of PyG's."""
    try:
        return path.is_dir() and bool(_read_meta(path)["format"] == DATA_FORMAT)
    except GraphError:
        return False


def _verify(path: Path, check: Callable[[bool], None]) -> None:
    """Runs `check` unless the present files in the folder `path` have passed it."""
    try:
        verify_once(path, check)
    except OSError as error:
        raise GraphError(f"{path} can't be read ({error}); convert the graph again") from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns an error in the content of meta.json into a `GraphError`."""
    try:
        yield
    except GraphError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise GraphError(f"{path / _META} is damaged ({error!r}); convert the graph again") from error


def _fingerprint(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def held_fingerprint(path: Path) -> str | None:
    """Returns the fingerprint of the graph in the folder `path`, or None if the folder is new or empty.

    Raises:
        GraphError: The folder holds something else.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    try:
        return str(read_data(path)[0]["fingerprint"]) if has_data(path) else read_folder(path).fingerprint
    except A3GNNError as error:
        raise GraphError(
            f"{path} must be new or empty, or hold this graph: {error}; choose another folder, or delete it"
        ) from error


def refuse_another(path: Path, held: str | None, fingerprint: str) -> None:
    """Checks that `held`, the fingerprint of the graph in the folder, is None or `fingerprint`.

    Raises:
        GraphError: The folder holds another graph.
    """
    if held not in (None, fingerprint):
        raise GraphError(f"{path} holds another graph; choose another folder, or delete that one first")


def _graph(
    arrays: dict[str, NDArray[Any]], meta: dict[str, Any], folder: Path, known: GraphCharacteristics | None
) -> GraphArrays:
    types = meta.get("types")
    return GraphArrays(
        name=meta["name"],
        indptr=in_large_pages(arrays["indptr"]),
        indices=in_large_pages(arrays["indices"]),
        features=features_from(arrays),
        labels=arrays["labels"],
        train_ids=arrays["train_ids"],
        val_ids=arrays["val_ids"],
        test_ids=arrays["test_ids"],
        num_classes=meta["num_classes"],
        notes=tuple(meta["notes"]),
        folder=folder,
        known=known,
        types=None if types is None else Types.from_dict(types, arrays),
        edge_attr=arrays.get("edge_attr"),
        edge_weight=arrays.get("edge_weight"),
    )


def _write_meta(graph: GraphArrays, characteristics: GraphCharacteristics, path: Path) -> None:
    meta = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": graph.name,
        "num_classes": graph.num_classes,
        "notes": list(graph.notes),
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in graph.arrays().items()},
        "characteristics": characteristics.to_dict(),
        **({} if graph.types is None else {"types": graph.types.to_dict()}),
    }
    (path / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((path / _META).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GraphError(
            f"{path} is not a converted graph: {_META} can't be read ({error}); a3gnn graph convert writes such folders"
        ) from error
    if not isinstance(meta, dict) or meta.get("format") not in (FORMAT, DATA_FORMAT):
        raise GraphError(f"{path} is not a converted graph: {_META} lacks the format {FORMAT!r}")
    if meta.get("format_version") != FORMAT_VERSION:
        raise GraphError(
            f"the format version of {path} must be {FORMAT_VERSION}, got {meta.get('format_version')!r}; "
            "convert the graph again with this version of a3gnn"
        )
    return meta


def _arrays(meta: dict[str, Any], path: Path) -> dict[str, NDArray[Any]]:
    """Returns the arrays in the folder `path` that its `meta` lists."""
    for name in meta["arrays"]:
        if not name.isidentifier():  # it may name another folder
            raise GraphError(f"{path / _META} is damaged: no array is called {name!r}; convert the graph again")
    kinds = {name: (str(kind), tuple(shape)) for name, (kind, shape, *_) in meta["arrays"].items()}
    return {name: _opened(path / f"{name}.npy", *kind) for name, kind in kinds.items()}


def _opened(path: Path, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns the array at `path`, which must be of `kind` and `shape`."""
    try:
        array = open_npy(path)
    except (OSError, ValueError, EOFError) as error:
        raise GraphError(f"{path} is missing or truncated ({error}); convert the graph again") from error
    if array.dtype.str != kind or array.shape != shape:
        raise GraphError(
            f"{path} must hold {kind} of shape {shape} according to {_META}, got {array.dtype.str} of shape "
            f"{array.shape}; convert the graph again"
        )
    return array

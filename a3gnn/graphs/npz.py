"""Graphs in one .npz file: `edge_index`, `x` or its CSR parts, `y` and three masks."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import assemble, assemble_unlabeled, naming_graph
from a3gnn.graphs.edge_values import EDGE_VALUES, are_readable
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.pyg_names import elsewhere
from a3gnn.graphs.split import SPLIT_NAMES, Split, masks_of, unused_splits
from a3gnn.graphs.validate import num_rows
from a3gnn.storage.graph_copies import source_of
from a3gnn.units import printable

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
#: How a graph comes into a file, for messages.
FROM_TABLES = "docs/start/your_graph.md shows how to write one, from CSV files, too"
#: Remedies for arrays of Python objects.
_AS_NUMBERS = {
    "y": "number the classes: y = pandas.factorize(y)[0]",
    "x": 'x.astype("float32") makes numbers; a sparse matrix is stored as x_data, x_indices, x_indptr and x_shape',
    "edge_index": 'edge_index.astype("int64") makes numbers',
}


def read(path: Path, split: Split | None = None) -> GraphArrays:
    """Returns the graph in the .npz file at `path`, in RAM; `split` overrides its masks.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
    """
    with readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        source = source_of(path)
        arrays = {name: member(name, archive) for name in needed_arrays(archive.files, path)}
        others = left_out(archive.files, arrays)
    name, features, labels = printable(path.stem), features_in(arrays, path), labels_in(arrays)
    with naming_graph(name):
        masks, notes = masks_of(arrays.get, labels, num_rows(features), split)
        values = edge_values_in(arrays)
    return assemble(name, arrays["edge_index"], features, labels, masks, (*notes, *others), source, values)


def read_unlabeled(path: Path) -> GraphArrays:
    """Returns the graph in edge_index, x and values of edges of the .npz file at `path`, for prediction.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
    """
    with readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        needed = (*_structure(archive.files, path), *_edge_values(archive.files))
        arrays = {name: member(name, archive) for name in needed}
        notes = left_out(archive.files, arrays, ("y", *SPLIT_NAMES))
    name = printable(path.stem)
    with naming_graph(name):
        values = edge_values_in(arrays)
    return assemble_unlabeled(name, arrays["edge_index"], features_in(arrays, path), notes, values)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns any error from reading the .npz file at `path` into a `GraphError`.

    Raises:
        GraphError: The file is missing, truncated or foreign.
    """
    try:
        yield
    except A3GNNError:
        raise
    except FileNotFoundError:
        raise GraphError(f"{path} does not exist; give the path of an .npz file") from None
    except MemoryError as error:
        raise GraphError(
            f"{path} needs more memory than is available ({error}); a3gnn graph convert {shlex.quote(str(path))} "
            "FOLDER needs less"
        ) from error
    except Exception as error:  # unpacking an arbitrary file may raise anything
        why = f"{error or type(error).__name__}" if zipfile.is_zipfile(path) else "np.savez writes a ZIP archive"
        raise GraphError(
            f"{path} is not a readable .npz file: truncated or of another format ({why}); {FROM_TABLES}"
        ) from error


def array_names(path: Path) -> list[str]:
    """Returns the names of the arrays in the .npz file at `path`.

    Raises:
        GraphError: It can't be read, or names in its directory, which has no checksum, are not those of its members.
    """
    with readable(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            archive.open(name).close()
        return [name.removesuffix(".npy") for name in archive.namelist()]


def needed_arrays(names: Collection[str], path: Path) -> tuple[str, ...]:
    """Returns which `names` of an .npz file its graph needs, those of edges' values, and those that may be its split.

    Raises:
        GraphError: One is missing.
    """
    split = (name for name in SPLIT_NAMES if name in names)
    return (*_structure(names, path, ("y",)), *_edge_values(names), *split)


def left_out(names: Collection[str], used: Collection[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """Returns notes on the arrays of an .npz file that are neither `used` nor `known`; nothing if there are none."""
    others = sorted({*names} - {*used} - {*known})
    ignored = f"ignored arrays: {', '.join(others)}; of edges, {' and '.join(EDGE_VALUES)} are read"
    return (ignored, *unused_splits(others)) if others else ()


def _structure(names: Collection[str], path: Path, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    x = _SPARSE if "x" not in names and any(name in names for name in _SPARSE) else ("x",)
    needed = ("edge_index", *x, *also)
    if "node_types" in names:
        raise GraphError(f"{path} has node types, but this needs a graph of one type of nodes and edges")
    missing = [name for name in needed if name not in names]
    if missing:
        others = [name for name in names if name not in {*needed, *SPLIT_NAMES, "y"}]
        renamed = [f"{name}={other}" for name in missing if (other := elsewhere(others, name))]
        instead = f", but has {', '.join(others)}; {FROM_TABLES}" if others else ""
        if renamed:
            instead += f". Other names: np.savez(FILE, {', '.join(renamed)}, ...)"
        raise GraphError(
            f"{path} must hold edge_index, x (or {', '.join(_SPARSE)}){''.join(f', {name}' for name in also)}; "
            f"it lacks {', '.join(missing)}{instead}"
        )
    return needed


def _edge_values(names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in EDGE_VALUES if name in names)


def edge_values_in(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Returns the values of edges among `arrays`.

    Raises:
        GraphError: They are no numbers, or of another shape.
    """
    values = {name: arrays[name] for name in _edge_values(arrays)}
    for name, array in values.items():
        if not are_readable(name, array):
            form = "numbers, one or a row per edge" if name == "edge_attr" else "one number per edge"
            raise GraphError(
                f"{name} must be {form}, got {array.dtype} of shape {array.shape}; leave it out, or give it that form"
            )
    return values


def labels_in(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Returns the labels among `arrays`, without a second dimension of one column."""
    labels = arrays["y"]
    return labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels


def features_in(arrays: Mapping[str, NDArray[Any]], path: Path) -> DenseFeatures | SparseFeatures:
    """Returns the features among `arrays`; only x_shape is checked.

    Raises:
        GraphError: x_shape is not two integers.
    """
    return DenseFeatures(arrays["x"]) if "x" in arrays else _sparse(arrays, path)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Names the array in NumPy's error about an array of Python objects.

    Raises:
        GraphError: The array holds Python objects.
    """
    try:
        yield
    except ValueError as error:
        if "Object arrays" not in str(error) and "Python objects" not in str(error):
            raise
        raise GraphError(
            f"{name} must hold numbers, got Python objects (dtype object), which are not unpickled; "
            + _AS_NUMBERS.get(name, f"{name}.astype(bool) makes a mask")
        ) from None


def member(name: str, archive: Mapping[str, Any]) -> NDArray[Any]:
    """Returns an archive's member, which must be an array; NumPy returns other members as bytes."""
    with naming(name):
        content = archive[name]
    if not isinstance(content, np.ndarray):
        raise ValueError(f"its member {name} is no array")
    return content


def _sparse(arrays: Mapping[str, NDArray[Any]], path: Path) -> SparseFeatures:
    shape = arrays["x_shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise GraphError(f"{path}: x_shape must be two integers, got {shape.dtype} of shape {shape.shape}")
    return SparseFeatures(
        arrays["x_data"],
        arrays["x_indices"],
        arrays["x_indptr"],
        (int(shape[0]), int(shape[1])),
    )

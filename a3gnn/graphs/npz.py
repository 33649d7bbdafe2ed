"""Graphs in one .npz file: `edge_index`, `x` or its CSR parts, `y` and three masks."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import assemble, assemble_unlabeled, naming_graph
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.split import IDS, MASKS, Split, masks_of
from a3gnn.graphs.validate import num_rows
from a3gnn.option_names import option
from a3gnn.storage.graph_copies import source_of
from a3gnn.units import printable

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")


def read(path: Path, split: Split | None = None) -> GraphArrays:
    """Returns the graph in the .npz file at `path`, in RAM; `split` overrides its masks.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
    """
    with readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        source = source_of(path)
        arrays = {name: _array(name, archive) for name in needed_arrays(archive.files, path, split)}
        others = left_out(archive.files, arrays)
    name, features, labels = printable(path.stem), features_in(arrays, path), arrays["y"]
    with naming_graph(name):
        masks, notes = masks_of(arrays.get, labels, num_rows(features), split)
    return assemble(name, arrays["edge_index"], features, labels, masks, (*notes, *others), source)


def read_unlabeled(path: Path) -> GraphArrays:
    """Returns the graph in edge_index and x of the .npz file at `path`, for prediction.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
    """
    with readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: _array(name, archive) for name in _structure(archive.files, path)}
        notes = left_out(archive.files, arrays, ("y", *MASKS, *chain(*IDS)))
    return assemble_unlabeled(printable(path.stem), arrays["edge_index"], features_in(arrays, path), notes)


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
        raise GraphError(
            f"{path} is not a readable .npz file: truncated or of another format ({error or type(error).__name__})"
        ) from error


def needed_arrays(names: Collection[str], path: Path, split: Split | None = None) -> tuple[str, ...]:
    """Returns which `names` of an .npz file its graph needs; with a `split`, masks are optional.

    Raises:
        GraphError: One is missing.
    """
    masks = [name for name in (*MASKS, *chain(*IDS)) if name in names]
    lacking = [mask for mask, ids in zip(MASKS, IDS, strict=True) if not {mask, *ids} & {*names} and split is None]
    return (*_structure(names, path, ("y", *lacking)), *masks)


def left_out(names: Collection[str], used: Collection[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """Returns a note on the arrays of an .npz file that are neither `used` nor `known`; nothing if there are none."""
    others = sorted({*names} - {*used} - {*known})
    return (f"ignored arrays: {', '.join(others)}; edges have no weights or attributes here",) if others else ()


def _structure(names: Collection[str], path: Path, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    x = _SPARSE if "x" not in names and any(name in names for name in _SPARSE) else ("x",)
    needed = ("edge_index", *x, *also)
    missing = [name for name in needed if name not in names]
    if missing:
        masks = f"; {option('split', '0.6,0.2,0.2')} makes masks" if {*MASKS} & {*missing} else ""
        raise GraphError(
            f"{path} must hold edge_index, x (or {', '.join(_SPARSE)}){''.join(f', {name}' for name in also)}; "
            f"it lacks {', '.join(missing)}{masks}"
        )
    return needed


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
        if "Object arrays" not in str(error):
            raise
        raise GraphError(
            f"{name} must hold numbers, got Python objects (dtype object), which are not unpickled; give x as float32, "
            "edge_index and classes as int64, masks as bool"
        ) from error


def _array(name: str, archive: Mapping[str, Any]) -> NDArray[Any]:
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

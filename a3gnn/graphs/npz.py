"""Graphs in one .npz file: `edge_index`, `x` or its CSR parts, `y` and three masks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import MASKS, assemble
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.storage.cache import source_of

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")


def read(path: Path) -> GraphArrays:
    """Returns the graph in the .npz file at `path`, in RAM.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
    """
    with readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        source = source_of(path)
        arrays = {name: _array(name, archive[name]) for name in needed_arrays(archive.files, path)}
    masks = {name: arrays[name] for name in MASKS}
    return assemble(path.stem, arrays["edge_index"], features_in(arrays, path), arrays["y"], masks, (), source)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns whatever reading the .npz file at `path` raises into one error.

    Raises:
        GraphError: The file is not there, truncated or foreign.
    """
    try:
        yield
    except A3GNNError:
        raise
    except FileNotFoundError:
        raise GraphError(f"{path} does not exist; give the path of an .npz file") from None
    except MemoryError as error:
        raise GraphError(
            f"{path} takes more memory than there is ({error}); a3gnn graph convert {path} FOLDER takes less"
        ) from error
    except Exception as error:  # what unpacks a file that may hold anything raises anything
        raise GraphError(
            f"{path} is not a readable .npz file: truncated or of another format ({error or type(error).__name__})"
        ) from error


def needed_arrays(names: Collection[str], path: Path) -> tuple[str, ...]:
    """Returns which arrays of an .npz file that holds `names` make its graph.

    Raises:
        GraphError: One is missing.
    """
    needed = ("edge_index", *(("x",) if "x" in names else _SPARSE), "y", *MASKS)
    missing = [name for name in needed if name not in names]
    if missing:
        raise GraphError(
            f"{path} must hold edge_index, x (or {', '.join(_SPARSE)}), y, {', '.join(MASKS)}; "
            f"it lacks {', '.join(missing)}"
        )
    return needed


def features_in(arrays: Mapping[str, NDArray[Any]], path: Path) -> DenseFeatures | SparseFeatures:
    """Returns the features among `arrays`, unchecked but for the kind of their shape.

    Raises:
        GraphError: x_shape is not two integers.
    """
    return DenseFeatures(arrays["x"]) if "x" in arrays else _sparse(arrays, path)


def _array(name: str, content: Any) -> NDArray[Any]:
    """Returns an archive's member; NumPy gives those that are no arrays as bytes."""
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

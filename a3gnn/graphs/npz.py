"""Graphs in one .npz file: `edge_index`, `x` or its CSR parts, `y` and three masks."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import MASKS, assemble
from a3gnn.graphs.cache import source_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")


def read(path: Path) -> GraphArrays:
    """Returns the graph in the .npz file at `path`, in RAM.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph breaks a law.
    """
    arrays = _arrays(path)
    dense = "x" in arrays
    needed = ("edge_index", "x", "y", *MASKS) if dense else ("edge_index", *_SPARSE, "y", *MASKS)
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise GraphError(
            f"{path} must hold edge_index, x (or {', '.join(_SPARSE)}), y, {', '.join(MASKS)}; "
            f"it lacks {', '.join(missing)}"
        )
    features = DenseFeatures(arrays["x"]) if dense else _sparse(arrays, path)
    masks = {name: arrays[name] for name in MASKS}
    return assemble(path.stem, arrays["edge_index"], features, arrays["y"], masks, source=source_of(path))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise GraphError(f"{path} does not exist; give the path of an .npz file") from None
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise GraphError(f"{path} is not a readable .npz file: truncated or of another format ({error})") from error


def _sparse(arrays: dict[str, NDArray[Any]], path: Path) -> SparseFeatures:
    shape = arrays["x_shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise GraphError(f"{path}: x_shape must be two integers, got {shape.dtype} of shape {shape.shape}")
    return SparseFeatures(
        arrays["x_data"],
        arrays["x_indices"],
        arrays["x_indptr"],
        (int(shape[0]), int(shape[1])),
    )

"""Feature rows in float16, rounded to nearest: in RAM, or in a table beside a graph on disk."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import ConfigError
from a3gnn.graphs.derived import noting_seconds, read_table, seconds_of_making, write_sparse_table, write_table
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.storage.npy import slices

#: Numbers from here on round to infinity: halfway from the largest, 65,504, to the next power of two (IEEE 754).
_TOO_LARGE = 65_520.0


def as_halves(values: NDArray[np.floating]) -> NDArray[np.float16]:
    """Returns `values` as float16, of the same shape, in anonymous memory.

    Raises:
        ConfigError: A value is beyond float16's range.
    """
    halves = np.empty(values.shape, dtype=np.float16)
    for some, piece in zip(_slices(values), _pieces(values), strict=True):
        halves[some] = piece
    return halves


def halves_beside(graph: Graph, features: DenseFeatures | SparseFeatures, name: str) -> DenseFeatures | SparseFeatures:
    """Returns `features` in float16 as memory maps; the first call writes them beside the graph and records its time.

    Features that are float16 already are returned unchanged.

    Args:
        graph: A graph on disk.
        features: A row per node: the graph's, or a table's.
        name: Part of the folder's name.

    Raises:
        GraphError: The folder is damaged or can't be written; the message contains a remedy.
        ConfigError: A value is beyond float16's range.
    """
    if values_of(features).dtype == np.float16:
        return features
    folder = _folder(graph, name)
    if not folder.is_dir():
        _make(graph, features, folder)
    return read_table(graph, folder)


def halves_seconds(graph: Graph, features: DenseFeatures | SparseFeatures, name: str) -> float:
    """Returns the seconds that `halves_beside` needs to write its files, which exist and are verified afterwards.

    Existing files count with their recorded seconds; without a record they are written once more. Arguments are those
    of `halves_beside`.

    Raises:
        GraphError: As in `halves_beside`.
        ConfigError: As in `halves_beside`.
    """
    if halves_beside(graph, features, name) is features:
        return 0.0
    folder = _folder(graph, name)
    return seconds_of_making(folder, partial(_make, graph, features, folder))


def _folder(graph: Graph, name: str) -> Path:
    return graph.derived(f"table-{name}-float16")


def _make(graph: Graph, features: DenseFeatures | SparseFeatures, folder: Path) -> None:
    columns, dtype = features.shape[1], np.float16
    with noting_seconds(graph, folder):
        if isinstance(features, DenseFeatures):
            write_table(graph, folder, columns, _pieces(features.array), dtype)
        else:
            columns_of = (features.indices[some] for some in _slices(features.indices))
            pieces = zip(columns_of, _pieces(features.data), strict=True)
            write_sparse_table(graph, folder, columns, features.indptr, pieces, dtype)


def values_of(features: DenseFeatures | SparseFeatures) -> NDArray[np.floating]:
    """Returns the array with the values of `features`."""
    return features.array if isinstance(features, DenseFeatures) else features.data


def _pieces(values: NDArray[np.floating]) -> Iterator[NDArray[np.float16]]:
    """Yields runs of rows of `values` as float16, in order."""
    for piece in (values[some] for some in _slices(values)):
        largest = max(float(piece.max(initial=0)), -float(piece.min(initial=0)))
        if largest >= _TOO_LARGE:
            raise ConfigError(
                f"features must be at most 65,504 for feature_dtype float16, got {largest:g}; choose float32, or "
                "scale the features"
            )
        yield piece.astype(np.float16)


def _slices(values: NDArray[Any]) -> Iterator[slice]:
    return slices(len(values), values[:1].size)

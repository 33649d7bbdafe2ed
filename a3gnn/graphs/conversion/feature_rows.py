"""Feature rows that come in pieces: joined in RAM, or written to a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from a3gnn.graphs.arrays import row_spans
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.notify import ConversionProgress
from a3gnn.storage.npy import NpyWriter

# Values per copy, so features of any size cost tens of MiB. Guess.
_VALUES_PER_PIECE = 1 << 22

FeaturePieces = Iterable[DenseFeatures | SparseFeatures]


def joined(pieces: FeaturePieces, num_nodes: int) -> DenseFeatures | SparseFeatures:
    """Returns the `num_nodes` rows of `pieces` in RAM."""
    sparse: list[SparseFeatures] = []
    array, done = np.empty((0, 0), dtype=np.float32), 0
    for piece in pieces:
        if isinstance(piece, SparseFeatures):
            sparse.append(piece)
            continue
        if not done:
            array = np.empty((num_nodes, piece.shape[1]), dtype=piece.array.dtype)
        array[done : done + len(piece.array)] = piece.array
        done += len(piece.array)
    if not sparse:
        return DenseFeatures(array)
    lengths = np.concatenate([[0], *(np.diff(piece.indptr) for piece in sparse)])
    return SparseFeatures(
        np.concatenate([piece.data for piece in sparse]),
        np.concatenate([piece.indices for piece in sparse]),
        np.cumsum(lengths),
        (num_nodes, sparse[0].shape[1]),
    )


def write_features(pieces: FeaturePieces, num_nodes: int, folder: Path, progress: ConversionProgress) -> int:
    """Writes the `num_nodes` rows of `pieces` to `folder`, and returns the number of stored values.

    Raises:
        OSError: A file can't be written.
    """
    rest = iter(pieces)
    first = next(rest)
    stored = done = 0
    with ExitStack() as files:
        writers = {
            name: files.enter_context(
                NpyWriter(folder / f"{name}.npy", array.dtype, array.shape[1] if array.ndim == 2 else None)
            )
            for name, array in first.arrays().items()
            if name != "x_shape"
        }
        if isinstance(first, SparseFeatures):
            writers["x_indptr"].append(np.zeros(1, dtype=np.int64))
            np.save(folder / "x_shape.npy", np.array((num_nodes, first.shape[1]), dtype=np.int64))
        for piece in chain([first], rest):
            arrays = piece.arrays()
            if isinstance(piece, SparseFeatures):
                arrays["x_indptr"] = piece.indptr[1:] + stored
            for name, writer in writers.items():
                writer.append(arrays[name])
            stored += len(piece.data) if isinstance(piece, SparseFeatures) else piece.array.size
            done += piece.shape[0]
            progress("writing features", done, num_nodes)
    return stored


def canonical_pieces(features: DenseFeatures | SparseFeatures) -> Iterator[DenseFeatures | SparseFeatures]:
    """Yields the rows of `features`, such as memory maps, in C order, with CSR columns ascending and distinct."""
    if isinstance(features, SparseFeatures):
        yield from _canonical_csr(features)
        return
    step = max(1, _VALUES_PER_PIECE // max(features.shape[1], 1))
    for start in range(0, features.shape[0], step):
        yield DenseFeatures(np.ascontiguousarray(features.array[start : start + step]))


def _canonical_csr(features: SparseFeatures) -> Iterator[SparseFeatures]:
    kept = features.data.dtype
    # The whole matrix decides whether rows count as sorted, because a sort changes the order in which repeated entries
    # are added.
    canonical, sorted_ = True, True
    for rows in _row_slices(features):
        canonical &= bool(rows.has_canonical_format)
        sorted_ &= bool(rows.has_sorted_indices)
    for rows in _row_slices(features):
        matrix = rows
        if not canonical:
            # scipy adds no halves; summing in float32 and rounding once is also more exact.
            matrix = csr_array((rows.data.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
            matrix.has_canonical_format = False
            matrix.has_sorted_indices = sorted_
            matrix.sum_duplicates()
        yield SparseFeatures(
            np.ascontiguousarray(matrix.data, dtype=kept),
            matrix.indices.astype(np.int32),
            matrix.indptr.astype(np.int64),
            matrix.shape,
        )


def _row_slices(features: SparseFeatures) -> Iterator[csr_array]:
    """Yields copies of the rows, about `_VALUES_PER_PIECE` entries at a time; a longer row comes alone."""
    for first, last in row_spans(features.indptr, _VALUES_PER_PIECE, _VALUES_PER_PIECE):
        begin, end = int(features.indptr[first]), int(features.indptr[last])
        yield csr_array(
            (
                np.array(features.data[begin:end]),
                np.array(features.indices[begin:end]),
                np.array(features.indptr[first : last + 1]) - begin,
            ),
            shape=(last - first, features.shape[1]),
        )

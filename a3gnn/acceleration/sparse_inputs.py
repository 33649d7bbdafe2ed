"""`sparse_rows`: the entries of a dense matrix that is mostly zeros, such as features that count words."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from a3gnn.features.tensors import as_array
from a3gnn.kernels.sparse import count_entries, take_entries
from a3gnn.models.layers.block import first_rows
from a3gnn.storage.csr_tensor import csr
from a3gnn.threads import pool

# Largest share of entries that are not 0, and fewest entries of a matrix that is looked at. With 256 columns, a product
# and its gradient took .2 to .5 of the dense one's time at 1/64 and .4 to .8 at 1/16, the first look included, on
# matrices of 1 to 50 million entries. In bfloat16 they took .5 to 1.6 and 1 to 2.6, and with 16 columns 1 to 2.6 and
# 2 to 2.9.
_MOST_SHARE, _LEAST_ENTRIES = 1 / 32, 1 << 20
# Rows that decide whether all are read, and whether they have changed. Guess.
_SAMPLED_ROWS = 64


class _Known(NamedTuple):
    """Facts about a matrix."""

    version: int  # of the tensor
    place: int  # where the matrix begins
    sample: NDArray[Any]  # a copy of some of its rows
    rows: Tensor | None  # the matrix as sparse CSR; None if it has too many entries
    shape: torch.Size


#: By the tensor that has the memory.
_known: MutableMapping[Tensor, _Known] = WeakTensorKeyDictionary()
_lock = threading.Lock()


def sparse_rows(x: Tensor) -> Tensor | None:
    """Returns `x` as sparse CSR; None if it has too few zeros for this to pay, or needs a gradient.

    The result is kept for as long as the memory of `x` lives unchanged, and serves its first rows, too. Changes are
    seen by the tensor's version, and those through NumPy or `Tensor.data` in 64 rows.

    Args:
        x: Strided, on the CPU, shape (n_rows, n_columns). Only float32 and float64 have a result.
    """
    if x.requires_grad or x.dtype not in (torch.float32, torch.float64) or not x.is_contiguous():
        return None
    memory = x if x.is_inference() or x._base is None else x._base
    with _lock:
        known = _known.get(memory)
    if known is None or not _holds(known, x):
        if x.numel() < _LEAST_ENTRIES:
            return None
        version, sample = _version(x), _sample(x, len(x))
        if np.count_nonzero(sample) > _MOST_SHARE * sample.size:
            return None
        known = _Known(version, x.data_ptr(), sample.copy(), _entries(x), x.shape)
        if not x.is_inference():  # has no version
            with _lock:
                _known[memory] = known
    if known.rows is None or len(x) == known.shape[0]:
        return known.rows
    return first_rows(known.rows, len(x))


def mapped_columns(x: Tensor) -> float:
    """Returns how many columns of a row of `x` a linear map reads: those that are not 0, or all."""
    rows = sparse_rows(x)
    return x.shape[1] if rows is None else rows.values().numel() / max(1, len(x))


def _holds(known: _Known, x: Tensor) -> bool:
    """Returns whether `x` is what is known, or the first rows of it, unchanged."""
    rows, columns = known.shape
    if (known.version, known.place) != (_version(x), x.data_ptr()) or len(x) > rows or x.shape[1] != columns:
        return False
    sample = _sample(x, rows)
    return sample.dtype == known.sample.dtype and np.array_equal(sample, known.sample[: len(sample)])


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version


def _sample(x: Tensor, rows: int) -> NDArray[Any]:
    """Returns the sampled rows of a matrix of so many `rows` that `x` has."""
    return as_array(x)[:: max(1, -(-rows // _SAMPLED_ROWS))]


def _entries(x: Tensor) -> Tensor | None:
    """Returns `x` as sparse CSR, or None if it has too many entries."""
    given = as_array(x)
    indptr = np.zeros(len(given) + 1, dtype=np.int64)
    grain = pool.grain(len(given), given.nbytes)
    pool.in_chunks(partial(count_entries, given, indptr[1:]), len(given), grain)
    np.cumsum(indptr, out=indptr)
    if indptr[-1] > _MOST_SHARE * given.size:
        return None
    # torch wants both in one type.
    indptr = indptr.astype(np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64)
    indices, values = np.empty(indptr[-1], dtype=indptr.dtype), np.empty(indptr[-1], dtype=given.dtype)
    bits = given.view(f"u{given.itemsize}")
    pool.in_chunks(partial(take_entries, given, bits, indptr, indices, values), len(given), grain)
    starts, columns, entries = map(torch.from_numpy, (indptr, indices, values))
    return csr(starts, columns, entries, (len(given), given.shape[1]))

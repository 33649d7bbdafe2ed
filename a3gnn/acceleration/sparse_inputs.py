"""`sparse_rows`: the entries of a dense matrix that is mostly zeros, such as features that count words."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from a3gnn.acceleration.kernels import count_entries, take_entries
from a3gnn.features.tensors import as_array, csr
from a3gnn.models.layers.block import first_rows
from a3gnn.threads import pool

# Largest share of entries that are not 0, and fewest entries of a matrix that is looked at. Guesses.
_MOST_SHARE, _LEAST_ENTRIES = 1 / 16, 1 << 20
# Rows that are counted before all are. Guess.
_SAMPLED_ROWS = 64


class _Known(NamedTuple):
    """The rows that begin at `place`, as sparse CSR, while the tensor has this `version`."""

    version: int
    place: int
    rows: Tensor


#: By the tensor that has the memory.
_known: MutableMapping[Tensor, _Known] = WeakTensorKeyDictionary()
_lock = threading.Lock()


def sparse_rows(x: Tensor) -> Tensor | None:
    """Returns `x` as sparse CSR; None if it has too few zeros for this to pay, or needs a gradient.

    The entries are kept for as long as the memory of `x` lives unchanged, and serve its first rows, too. Changes are
    seen by the tensor's version, as in `known_edges`.

    Args:
        x: Strided, on the CPU, shape (n_rows, n_columns). Only float32 and float64 have a result.
    """
    if x.requires_grad or x.dtype not in (torch.float32, torch.float64) or not x.is_contiguous():
        return None
    if x.is_inference():  # has no version
        return _entries(x)
    memory = x if x._base is None else x._base
    with _lock:
        known = _known.get(memory)
    if known is None or known[:2] != (x._version, x.data_ptr()) or not _begins(known.rows, x):
        found = _entries(x)
        if found is None:
            return None
        known = _Known(x._version, x.data_ptr(), found)
        with _lock:
            _known[memory] = known
    return known.rows if known.rows.shape[0] == len(x) else first_rows(known.rows, len(x))


def _begins(rows: Tensor, x: Tensor) -> bool:
    """Returns whether `x`, which begins where `rows` do, is the first of them."""
    return rows.dtype is x.dtype and rows.shape[1] == x.shape[1] and rows.shape[0] >= len(x)


def _entries(x: Tensor) -> Tensor | None:
    """Returns `x` as sparse CSR, or None if it has too many entries or is small."""
    if x.numel() < _LEAST_ENTRIES:
        return None
    given = as_array(x)
    sample = given[:: -(-len(given) // _SAMPLED_ROWS)]
    if np.count_nonzero(sample) > _MOST_SHARE * sample.size:
        return None
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

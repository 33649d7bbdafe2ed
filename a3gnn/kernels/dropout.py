"""Compiled kernels of dropout, with ReLU and without. All release the GIL.

Each call works on a range of its output, on one thread. `a3gnn.threads.pool` splits the output; the split doesn't
change a bit of the results. Entries are float32, or int16 for the bits of bfloat16; those of `drop_entries` may be
float64. `dropping` is `Dropout.arguments`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import narrowed, widened

# With a plain 0, an integer, numba would compare in double precision.
_ZERO = np.float32(0)

Dropping: TypeAlias = tuple[np.uint32, np.float32, np.uint32, np.uint32]


@njit(cache=True, nogil=True, inline="always")
def random_bits(low_key: np.uint32, high_key: np.uint32, place: int) -> Any:
    """Returns 32 random bits for `place`, a pure function of it and the keys.

    It uses two rounds of a 32-bit multiply and shift (Wellons' lowbias32), which vectorizes, unlike 64-bit products.
    The second key enters between the rounds, so that masks of different keys are not permutations of each other.
    """
    z = np.uint32(place) ^ low_key
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x7FEB352D))
    z = np.uint32((z ^ (z >> np.uint32(15))) + high_key)
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x846CA68B))
    z = np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0x7FEB352D))
    return np.uint32(z ^ (z >> np.uint32(16)))


@njit(cache=True, nogil=True, inline="always")
def _rectify_dropped(
    part: NDArray[Any],
    first: np.uint32,
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
) -> None:
    """Overwrites `part` by its ReLU, dropped or scaled; its entries have the places from `first` on."""
    for j in range(len(part)):
        factor = _ZERO if random_bits(low_key, high_key, np.uint32(j) + first) < threshold else scale
        value = widened(part[j])
        part[j] = narrowed((_ZERO if value <= _ZERO else value) * factor, part)


@njit(cache=True, nogil=True)
def rectify(
    x: NDArray[Any],
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
    low: int,
    high: int,
) -> None:
    """Overwrites entries `low` to `high` of the flat `x` by their ReLU, dropped or scaled; NaN stays.

    Entries whose random bits are below `threshold` are dropped.
    """
    # Counts from 0 over a slice, because an index with `low` prevents vectorization.
    part, first = x[low:high], np.uint32(low)
    if threshold == 0:
        for j in range(len(part)):
            value = widened(part[j])
            part[j] = narrowed(_ZERO if value <= _ZERO else value, part)
        return
    _rectify_dropped(part, first, threshold, scale, low_key, high_key)


@njit(cache=True, nogil=True)
def rectify_rows(
    x: NDArray[Any],
    places: NDArray[np.int64],
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
    low: int,
    high: int,
) -> None:
    """Overwrites rows `low` to `high` of `x`, (n_rows, width), as `rectify` would the whole matrix's rows `places`."""
    width = x.shape[1]
    for i in range(low, high):
        _rectify_dropped(x[i], np.uint32(places[i] * width), threshold, scale, low_key, high_key)


@njit(cache=True, nogil=True)
def gate(
    grad: NDArray[Any],
    alive: NDArray[Any],
    scale: np.float32,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the flat `grad` times `scale` if `alive`, the activation's output, is positive, and 0 otherwise."""
    given, passed, written = grad[low:high], alive[low:high], out[low:high]
    for j in range(len(given)):
        written[j] = narrowed(_ZERO if widened(passed[j]) <= _ZERO else widened(given[j]) * scale, written)


@njit(cache=True, nogil=True)
def drop_entries(x: NDArray[Any], dropping: Dropping, scale: Any, out: NDArray[Any], low: int, high: int) -> None:
    """Writes entries `low` to `high` of the flat `x`, dropped or multiplied by `scale`; NaN stays."""
    threshold, _, low_key, high_key = dropping
    zero = scale - scale
    # Counts from 0 over slices, because an index with `low` prevents vectorization.
    given, written, first = x[low:high], out[low:high], np.uint32(low)
    for j in range(len(given)):
        factor = zero if random_bits(low_key, high_key, np.uint32(j) + first) < threshold else scale
        written[j] = narrowed(widened(given[j]) * factor, written)

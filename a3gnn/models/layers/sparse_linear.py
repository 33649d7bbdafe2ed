"""`sparse_linear`: a linear map of sparse CSR rows on the CPU, with the weights' gradient."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.weak import WeakTensorKeyDictionary

from a3gnn.features.tensors import lent
from a3gnn.kernels.sparse import count_columns, multiply, sort_tiles
from a3gnn.threads import pool

# Rows whose gradients fit a core's cache, 1 KiB each at 256 channels: 512 to 2,048 were alike on 2 MiB.
_TILE_ROWS = 1024
# For each weight, the memory of a past gradient, free for reuse.
_spare: MutableMapping[Tensor, deque[Tensor]] = WeakTensorKeyDictionary()
# Columns that a tile may count for each of its entries. Guess.
_COUNTS_PER_ENTRY = 2


def sparse_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns `x @ weight.T + bias`, dense, shape (n_rows, out_channels).

    A column-major weight (`by_column`) is read in place, and its gradient is column-major too. Any other weight is
    copied first.

    Args:
        x: Sparse CSR on the CPU, float32 or float64, shape (n_rows, in_channels), without gradient.
        weight: Of the same dtype, shape (out_channels, in_channels).
        bias: Of the same dtype, shape (out_channels,); None for zeros.
    """
    out: Tensor = _SparseLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def by_column(weight: Tensor) -> None:
    """Makes the memory of a parameter, (out_channels, in_channels), column-major; its values don't change."""
    weight.data = weight.data.t().contiguous().t()


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.x, ctx.weight = x, weight
        columns = weight.detach().t().contiguous()
        # A copy, because FSDP frees weights, and can't free memory that NumPy has seen.
        start = columns.new_zeros(columns.shape[1]) if bias is None else bias.detach().clone()
        out = columns.new_empty(x.shape[0], columns.shape[1])
        kernel = partial(multiply, *_arrays(x), columns.numpy(), start.numpy(), out.numpy())
        pool.in_chunks(kernel, x.shape[0], pool.grain(x.shape[0], _moved(x, columns)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        by_weight = (
            _weight_gradient(ctx.x, grad.contiguous(), _memory_of(ctx.weight)) if ctx.needs_input_grad[1] else None
        )
        return None, by_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _memory_of(weight: Tensor) -> Tensor:
    """Returns memory for a gradient of `weight`, (in_channels, out_channels): the last gradient's if it is unused.

    Fresh pages for a wide weight's gradient cost more than the sums written to them.
    """
    spare = _spare.setdefault(weight, deque(maxlen=1))
    try:
        memory: Tensor = spare.pop()
    except IndexError:
        memory = torch.empty(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    return lent(memory, len(memory), spare.append)


def _weight_gradient(x: Tensor, grad: Tensor, columns: Tensor) -> Tensor:
    """Writes `x.T @ grad` to `columns`, and returns its transpose, which is column-major.

    It works on tiles of rows, so that a core finds the rows of `grad` in its cache.
    """
    indptr, indices, values = _arrays(x)
    num_rows, in_channels = x.shape
    # Each tile counts its columns anew, which doesn't pay for few entries.
    most_tiles = max(1, _COUNTS_PER_ENTRY * len(indices) // in_channels)
    tile_rows = max(_TILE_ROWS, -(-num_rows // most_tiles))
    tiles = max(1, -(-num_rows // tile_rows))
    starts = np.empty((tiles, in_channels + 1), dtype=np.int64)
    rows, sorted_values = np.empty(len(indices), dtype=np.int32), np.empty_like(values)
    pool.in_chunks(partial(count_columns, indptr, indices, tile_rows, starts), tiles, 1)
    pool.in_chunks(partial(sort_tiles, indptr, indices, values, tile_rows, starts, rows, sorted_values), tiles, 1)
    given, written = grad.detach().numpy(), columns.numpy()
    zeros, none = (np.zeros(width, dtype=values.dtype) for width in (grad.shape[1], 0))
    bounds = _even_bounds(starts)

    def add_tiles(low: int, high: int) -> None:
        for tile in range(tiles):
            begin = none if tile else zeros
            multiply(starts[tile], rows, sorted_values, given, begin, written, bounds[low], bounds[high])

    pool.in_chunks(add_tiles, len(bounds) - 1, 1)
    return columns.t()


def _even_bounds(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns bounds of one range of columns per thread, of about equal work: some columns hold most entries."""
    work = starts.sum(axis=0) + np.arange(starts.shape[1])
    bounds: NDArray[np.int64] = np.searchsorted(work, np.linspace(work[0], work[-1], pool.size() + 1))
    return bounds


def _arrays(x: Tensor) -> tuple[Any, Any, Any]:
    return x.crow_indices().numpy(), x.col_indices().numpy(), x.values().numpy()


def _moved(x: Tensor, columns: Tensor) -> int:
    """Returns about how many bytes a product of `x` reads and writes."""
    return int(columns.itemsize * columns.shape[1] * (x.values().numel() + x.shape[0]))

"""`dropped`: dropout by an entry's place; `split`: the first rows, with a fast gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from a3gnn.features.tensors import as_array
from a3gnn.kernels.dropout import drop_entries
from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.compiled import array_of, sum_dtype
from a3gnn.threads import pool


def dropped(x: Tensor, dropout: Dropout) -> Tensor:
    """Returns `x` after `dropout`. An entry's place decides, so that further rows change nothing."""
    out: Tensor = _Dropped.apply(x, dropout)  # type: ignore[no-untyped-call]
    return out


def split(x: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Returns `x` and its first `rows` rows, for functions that don't write to them.

    Torch's gradient of `x[:rows]` fills a matrix of zeros for all rows, copies to it and adds it. Here the gradient by
    the first output is changed in place, so it must be a fresh tensor.
    """
    if len(x) == rows:
        return x, x
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x, x[:rows]
    parts: tuple[Tensor, Tensor] = _Split.apply(x, rows)  # type: ignore[no-untyped-call]
    return parts


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: Dropout) -> Tensor:
        ctx.dropout = dropout
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        scale = sum_dtype(x).type(dropout.scale)
        given = array_of(x).reshape(-1), dropout.arguments, scale, as_array(out).reshape(-1)
        pool.in_chunks(partial(drop_entries, *given), x.numel(), pool.grain(x.numel(), 2 * out.nbytes))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return dropped(grad, ctx.dropout), None


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        ctx.shape, ctx.rows = x.shape, rows
        ctx.set_materialize_grads(False)
        return x.detach(), x.detach()[:rows]

    @staticmethod
    def backward(ctx: Any, by_all: Tensor | None, by_first: Tensor | None) -> tuple[Tensor | None, None]:
        if by_first is None:
            return by_all, None
        if by_all is None or torch.is_grad_enabled():
            padded = torch.nn.functional.pad(by_first, (0, 0, 0, ctx.shape[0] - ctx.rows))
            return padded if by_all is None else by_all + padded, None
        by_all[: ctx.rows] += by_first
        return by_all, None

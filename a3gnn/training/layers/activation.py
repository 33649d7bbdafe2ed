"""ReLU and dropout between layers, in one pass and in place."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.features.rows.tensors import as_array
from a3gnn.threads import pool
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.kernels import gate, rectify, rectify_rows

# Entries too few to be worth a second thread: some 50 microseconds of work. Guess.
_GRAIN = 1 << 16


def relu_dropout(x: Tensor, dropout: Dropout) -> Tensor:
    """Returns ReLU of `x` after `dropout`. `x`, dense and contiguous, is overwritten."""
    out: Tensor = _ReluDropout.apply(x, dropout)  # type: ignore[no-untyped-call]
    return out


def rectify_in_place(x: Tensor, dropout: Dropout) -> None:
    """Overwrites `x` by its ReLU after `dropout`, unseen by autograd."""
    if not _runs_compiled(x):
        x.clamp_min_(0)
        if dropout.threshold:
            x.mul_(dropout.factors(x))
        return
    if dropout.places is not None:
        rows, few = as_array(x.detach()), max(1, _GRAIN // x.shape[1])
        pool.in_chunks(partial(rectify_rows, rows, dropout.places.numpy(), *dropout.arguments), len(rows), few)
        return
    flat = as_array(x.detach().view(-1))
    pool.in_chunks(partial(rectify, flat, *dropout.arguments), len(flat), _GRAIN)


def _runs_compiled(x: Tensor) -> bool:
    """Returns whether kernels of ours take it: no double precision, which torch computes."""
    return not x.is_cuda and x.dtype is not torch.float64


class _ReluDropout(torch.autograd.Function):
    """Keeps nothing but its output: an entry that is zero has no gradient, whichever of the two zeroed it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: Dropout) -> Tensor:
        rectify_in_place(x, dropout)
        ctx.scale = dropout.scale
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        if not _runs_compiled(grad):
            return grad.mul(out > 0).mul_(float(ctx.scale)), None
        passed = torch.empty_like(out)
        parts = (as_array(part.reshape(-1)) for part in (grad, out))
        pool.in_chunks(partial(gate, *parts, ctx.scale, as_array(passed.view(-1))), out.numel(), _GRAIN)
        return passed, None

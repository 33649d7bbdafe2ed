"""ReLU and dropout between layers, in one pass and in place.

A share of a mini-batch (`a3gnn.sampling.share`) drops the same entries as the whole, because its rows know their places
in the whole.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.features.tensors import as_array
from a3gnn.kernels.dropout import gate, rectify, rectify_rows
from a3gnn.seeding import derive
from a3gnn.threads import pool

_LEVELS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Dropout:
    """Drops entries at a rate and scales the others up.

    A key always drops the same entries, on any CPU and with any number of threads. A GPU drops other entries for the
    same key.

    Attributes:
        threshold: The rate in units of 2**-32; 0 drops nothing.
        key: Determines the dropped entries.
        places: Each row's place in the whole mini-batch, int64; None if the rows are the whole mini-batch.
        num_rows: Rows of the whole mini-batch.
    """

    threshold: int
    key: int
    places: Tensor | None = None
    num_rows: int = 0

    @classmethod
    def of(cls, probability: float, *names: str | int) -> Dropout:
        """Returns the dropout of `probability` whose key is derived from `names`, a seed first."""
        threshold = round(probability * _LEVELS)
        return cls(threshold, derive(0, *names) if threshold else 0)

    def at(self, places: Tensor, num_rows: int) -> Dropout:
        """Returns the dropout for a share's rows, which are at `places`, int64, among `num_rows` rows."""
        return dataclasses.replace(self, places=places, num_rows=num_rows) if self.threshold else self

    @property
    def scale(self) -> np.float32:
        """Factor of the kept entries."""
        return np.float32(_LEVELS / (_LEVELS - self.threshold))

    @property
    def arguments(self) -> tuple[np.uint32, np.float32, np.uint32, np.uint32]:
        """(threshold, scale, low_key, high_key) for kernels."""
        return np.uint32(self.threshold), self.scale, np.uint32(self.key & 0xFFFFFFFF), np.uint32(self.key >> 32)

    def factors(self, like: Tensor) -> Tensor:
        """Returns 0 for dropped entries and `scale` for the others, with the dtype, shape and device of `like`."""
        generator = torch.Generator(like.device).manual_seed(self.key)
        whole = like if self.places is None else like.new_empty(self.num_rows, *like.shape[1:])
        kept = torch.empty_like(whole).bernoulli_(1 - self.threshold / _LEVELS, generator=generator)
        if self.places is not None:
            kept = kept.index_select(0, self.places)
        return kept.mul_(float(self.scale))


def relu_dropout(x: Tensor, dropout: Dropout) -> Tensor:
    """Returns ReLU of `x` after `dropout`. `x`, dense and contiguous, is overwritten."""
    out: Tensor = _ReluDropout.apply(x, dropout)  # type: ignore[no-untyped-call]
    return out


def rectify_in_place(x: Tensor, dropout: Dropout) -> None:
    """Overwrites `x` by its ReLU after `dropout`, without autograd."""
    if not _runs_compiled(x):
        x.clamp_min_(0)
        if dropout.threshold:
            x.mul_(dropout.factors(x))
        return
    if dropout.places is not None:
        rows, few = as_array(x.detach()), pool.grain(len(x), 2 * x.nbytes)
        pool.in_chunks(partial(rectify_rows, rows, dropout.places.numpy(), *dropout.arguments), len(rows), few)
        return
    flat = as_array(x.detach().view(-1))
    pool.in_chunks(partial(rectify, flat, *dropout.arguments), len(flat), pool.grain(len(flat), 2 * flat.nbytes))


def _runs_compiled(x: Tensor) -> bool:
    """Returns whether the compiled kernels support `x`; torch computes on GPUs and in double precision."""
    return not x.is_cuda and x.dtype is not torch.float64


class _ReluDropout(torch.autograd.Function):
    """Saves only its output: a zero entry has no gradient, whether ReLU or dropout made it zero."""

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
        pool.in_chunks(
            partial(gate, *parts, ctx.scale, as_array(passed.view(-1))),
            out.numel(),
            pool.grain(out.numel(), 3 * out.nbytes),
        )
        return passed, None

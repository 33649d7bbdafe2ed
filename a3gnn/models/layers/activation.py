"""ReLU and dropout between layers, in one pass and in place.

A share of a mini-batch (`a3gnn.sampling.share`) drops what the whole drops: its rows have their places in the whole.
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

from a3gnn.features.rows.tensors import as_array
from a3gnn.models.layers.layer_kernels import gate, rectify, rectify_rows
from a3gnn.seeding import derive
from a3gnn.threads import pool

_LEVELS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Dropout:
    """Drops entries at a rate and scales the others up; the same entries whenever and on however many threads.

    The same on every CPU; a GPU draws others from the same key.

    Attributes:
        threshold: The rate in units of 2**-32; 0 drops nothing.
        key: Decides which.
        places: Each row's place among those of the whole mini-batch, int64; None where they are all of one.
        num_rows: Rows of the whole.
    """

    threshold: int
    key: int
    places: Tensor | None = None
    num_rows: int = 0

    @classmethod
    def of(cls, probability: float, *names: str | int) -> Dropout:
        """Returns the dropout of `probability` for what `names` name, a seed first."""
        threshold = round(probability * _LEVELS)
        return cls(threshold, derive(0, *names) if threshold else 0)

    def at(self, places: Tensor, num_rows: int) -> Dropout:
        """Returns the dropout of rows that are at `places`, int64, among `num_rows`."""
        return dataclasses.replace(self, places=places, num_rows=num_rows) if self.threshold else self

    @property
    def scale(self) -> np.float32:
        """Factor of what is kept."""
        return np.float32(_LEVELS / (_LEVELS - self.threshold))

    @property
    def arguments(self) -> tuple[np.uint32, np.float32, np.uint32, np.uint32]:
        """(threshold, scale, low_key, high_key), as kernels take them."""
        return np.uint32(self.threshold), self.scale, np.uint32(self.key & 0xFFFFFFFF), np.uint32(self.key >> 32)

    def factors(self, like: Tensor) -> Tensor:
        """Returns 0 for what is dropped and `scale` for the rest, of dtype, shape and device of `like`."""
        generator = torch.Generator(like.device).manual_seed(self.key)
        whole = like if self.places is None else like.new_empty(self.num_rows, *like.shape[1:])
        kept = torch.empty_like(whole).bernoulli_(1 - self.threshold / _LEVELS, generator=generator)
        if self.places is not None:
            kept = kept.index_select(0, self.places)
        return kept.mul_(float(self.scale))


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

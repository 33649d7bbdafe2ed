"""`summed`: partial products of all ranks, summed on the rank whose mini-batch they are of, with their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.algorithms.p3.traffic import SplitTraffic, Swapping, swap


def summed(ranks: Swapping, partial: Sequence[Tensor], traffic: SplitTraffic) -> Tensor:
    """Returns the sum of all ranks' partial products of this rank's mini-batch, in the order of ranks, flat.

    Backward, the sum's gradient goes to all ranks: it is that of each rank's partial product. So every rank must call
    `backward` on what depends on its sum, also where that is empty as it has no mini-batch.

    Args:
        ranks: All of them; every one calls this.
        partial: What this rank's columns contribute to each rank's mini-batch, flat, of one dtype; empty for none. All
            ranks' for one mini-batch are of one size.
        traffic: Where bytes are counted.
    """
    total: Tensor = _Summed.apply(ranks, traffic, *partial)  # type: ignore[no-untyped-call]
    return total


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ranks: Swapping, traffic: SplitTraffic, *partial: Tensor) -> Tensor:
        ctx.ranks, ctx.traffic, ctx.sizes = ranks, traffic, [len(part) for part in partial]
        own = [ctx.sizes[ranks.rank]] * ranks.size
        first, *others = swap(ranks, partial, own, traffic.activations)
        total = first.clone()
        for other in others:
            total += other
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pieces = [grad.contiguous()] * ctx.ranks.size
        return None, None, *swap(ctx.ranks, pieces, ctx.sizes, ctx.traffic.gradients)

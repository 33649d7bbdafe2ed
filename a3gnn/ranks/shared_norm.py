"""Batch normalisation of a mini-batch that several trainers have shares of, by the statistics of the whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch_geometric.nn.norm import BatchNorm

from a3gnn.ranks.peers import Peers


class Statistics:
    """What the norms of one model share: who else has rows of the mini-batch, and which rows count here.

    A node may be in several shares, and is counted where it is owned (`a3gnn.sampling.subgraph.Share`).

    Args:
        peers: All who have rows.

    Attributes:
        owned: Of the mini-batch under way, bool, shape (num_nodes,), beside the model: a norm's rows are its first.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.owned = torch.empty(0, dtype=torch.bool)
        self._norms: list[SharedBatchNorm] = []

    def join(self, model: nn.Module) -> None:
        """Has each `BatchNorm` of `model` normalise by the whole mini-batch; names of weights stay as they are."""
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, BatchNorm):
                    made = SharedBatchNorm(child, self)
                    self._norms.append(made)
                    setattr(parent, name, made)

    def keep(self) -> None:
        """Takes the mini-batch's statistics into the running ones: once its step is made, and not if it fails."""
        for norm in self._norms:
            norm.keep()


class SharedBatchNorm(nn.Module):
    """PyG's `BatchNorm` over the rows of all shares; in evaluation, and where all shares have one row, as that.

    Sums are taken in double precision, and all shares get the same bits.

    Args:
        norm: Whose weights, running statistics and options are used.
        statistics: Of the model.
    """

    def __init__(self, norm: BatchNorm, statistics: Statistics) -> None:
        super().__init__()
        self.module: Any = norm.module
        self._statistics = statistics
        self._pending: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x` normalised, of its dtype and shape (n_rows, width)."""
        module = self.module
        if not self.training:
            return self._by_running(x)
        owned = self._statistics.owned[: len(x)]
        # The sums are of what is left over a recent mean, so that squares lose few digits to it.
        centre = module.running_mean.double()
        rows = x.detach()[owned].double() - centre
        sums = torch.cat([rows.sum(0), rows.square().sum(0), rows.new_full((1,), len(rows))])
        self._statistics.peers.sum(sums)
        off, squares, count = sums[: x.shape[1]], sums[x.shape[1] : -1], sums[-1]
        if count <= 1:
            return self._by_running(x)
        off, variance = off / count, (squares / count - (off / count).square()).clamp_min(0)
        self._pending = centre + off, variance * (count / (count - 1))
        scaled: Tensor = _Normalise.apply(x, module.weight, module.bias, self, (owned, centre + off, variance, count))  # type: ignore[no-untyped-call]
        return scaled

    def keep(self) -> None:
        """Takes the last mini-batch's statistics into the running ones."""
        if self._pending is None:
            return
        module, (mean, variance) = self.module, self._pending
        with torch.no_grad():
            module.num_batches_tracked.add_(1)
            module.running_mean.lerp_(mean.to(module.running_mean.dtype), module.momentum)
            module.running_var.lerp_(variance.to(module.running_var.dtype), module.momentum)
        self._pending = None

    def sum(self, values: Tensor) -> None:
        """Sums `values` over all shares."""
        self._statistics.peers.sum(values)

    def _by_running(self, x: Tensor) -> Tensor:
        module = self.module
        return functional.batch_norm(
            x, module.running_mean, module.running_var, module.weight, module.bias, False, 0.0, module.eps
        )


class _Normalise(torch.autograd.Function):
    """Each row has a gradient through its own values, and through the statistics, which all read, where it is owned."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, norm: SharedBatchNorm, of_all: Any) -> Tensor:
        owned, mean, variance, count = of_all
        wide = torch.promote_types(x.dtype, torch.float32)
        deviation = (variance + norm.module.eps).rsqrt()
        ctx.norm, ctx.count, ctx.wide = norm, count, wide
        ctx.save_for_backward(x, weight, owned, mean, deviation)
        scale = weight * deviation
        out: Tensor = (x * scale.to(wide) + (bias - mean * scale).to(wide)).to(x.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, owned, mean, deviation = ctx.saved_tensors
        given = grad.to(ctx.wide)
        off = x.to(ctx.wide) - mean.to(ctx.wide)
        own_sums = torch.cat([given.double().sum(0), (given * off).double().sum(0)])
        width = x.shape[1]
        by_bias, products = own_sums[:width].clone(), own_sums[width:].clone()
        ctx.norm.sum(own_sums)
        sums, slopes = own_sums[:width], own_sums[width:]
        through = (sums / ctx.count).to(ctx.wide) + off * (slopes * deviation.square() / ctx.count).to(ctx.wide)
        by_x = (given - through * owned.unsqueeze(1)) * (weight * deviation).to(ctx.wide)
        by_weight = products * deviation
        return by_x.to(x.dtype), by_weight.to(weight.dtype), by_bias.to(weight.dtype), None, None

"""Batch normalization over whole mini-batches if several trainers have shares of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch_geometric.nn.norm import BatchNorm

from a3gnn.ranks.peers import Peers


class Statistics:
    """State that the norms of one model share: the peers, and the rows that count here.

    A node may be in several shares. Only the share that owns it counts it (`a3gnn.sampling.subgraph.Share`).

    Args:
        peers: All trainers with rows of the mini-batch.

    Attributes:
        owned: Whether this share owns each node of the current mini-batch, bool, shape (num_nodes,), on the model's
            device. A norm's rows are its first entries.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.owned = torch.empty(0, dtype=torch.bool)
        self._norms: list[SharedBatchNorm] = []

    def join(self, model: nn.Module) -> None:
        """Makes each `BatchNorm` of `model` normalize over the whole mini-batch; weights keep their names."""
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, BatchNorm):
                    made = SharedBatchNorm(child, self)
                    self._norms.append(made)
                    setattr(parent, name, made)

    def keep(self) -> None:
        """Updates the running statistics by the mini-batch's; call it only after a successful step."""
        for norm in self._norms:
            norm.keep()


class SharedBatchNorm(nn.Module):
    """PyG's `BatchNorm` over the rows of all shares.

    In evaluation, and if all shares together have at most one row, it uses the running statistics, as PyG's does. Sums
    are in double precision, and all shares get the same bits.

    Args:
        norm: Provides weights, running statistics and options.
        statistics: The model's.
    """

    def __init__(self, norm: BatchNorm, statistics: Statistics) -> None:
        super().__init__()
        self.module: Any = norm.module
        self._statistics = statistics
        self._pending: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x` normalized, with the same dtype and shape (n_rows, width)."""
        module = self.module
        if not self.training:
            return self._by_running(x)
        owned = self._statistics.owned[: len(x)]
        # Sums are over the difference to a recent mean, so that their squares lose few digits.
        center = module.running_mean.double()
        rows = x.detach()[owned].double() - center
        sums = torch.cat([rows.sum(0), rows.square().sum(0), rows.new_full((1,), len(rows))])
        self._statistics.peers.sum(sums)
        off, squares, count = sums[: x.shape[1]], sums[x.shape[1] : -1], sums[-1]
        if count <= 1:
            return self._by_running(x)
        off, variance = off / count, (squares / count - (off / count).square()).clamp_min(0)
        self._pending = center + off, variance * (count / (count - 1))
        scaled: Tensor = _Normalize.apply(x, module.weight, module.bias, self, (owned, center + off, variance, count))  # type: ignore[no-untyped-call]
        return scaled

    def keep(self) -> None:
        """Updates the running statistics by the last mini-batch's."""
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


class _Normalize(torch.autograd.Function):
    """Normalizes rows; a row has a gradient through its own values and, if owned, through the shared statistics."""

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

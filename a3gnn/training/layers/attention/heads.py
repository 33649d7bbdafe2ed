"""Each head's own linear map."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from a3gnn.training.layers.product import multiply, sum_of_products


def map_heads(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns every head's rows times its own map, plus `bias`, side by side, of the dtype of `x`.

    The shape is (n_rows, heads * width).

    Args:
        x: float32 or bfloat16, shape (heads, n_rows, n_columns).
        weight: float32, shape (heads, width, n_columns).
        bias: float32, shape (heads * width,).
    """
    out: Tensor = _MapHeads.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


class _MapHeads(torch.autograd.Function):
    """Writes a head's product where it belongs: a batched product would be copied to bring heads side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
        ctx.save_for_backward(x, weight)
        out = x.new_empty(x.shape[1], weight.shape[0] * weight.shape[1])
        by_head = out.view(len(out), len(weight), -1)
        for h, part in enumerate(bias.view(len(weight), -1)):
            multiply(x[h], weight[h].t(), part, out=by_head[:, h])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        by_x = torch.empty_like(x)
        grad = grad.contiguous()
        by_head = grad.view(len(grad), len(weight), -1)
        for h in range(len(weight)):
            multiply(by_head[:, h], weight[h], out=by_x[h])
        by_weight = torch.stack([sum_of_products(by_head[:, h], x[h]) for h in range(len(weight))])
        return by_x, by_weight, grad.sum(dim=0).float()

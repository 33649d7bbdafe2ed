"""Adam (Kingma and Ba, 2015, algorithm 1) in one pass over each weight, whatever the order of its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.threads import pool
from a3gnn.training.adam_kernels import update

_MOMENTS = ("exp_avg", "exp_avg_sq")


class Adam(torch.optim.Adam):
    """Torch's Adam with its state; on the CPU by a kernel of ours.

    Torch's fused one copies weights and gradients that are not in row-major order, at every step. Rows whose gradients
    have all been 0, such as those of features that no mini-batch has read, are left alone: Adam would not change them.

    Args:
        parameters: float32, each in row-major order or, with two dimensions, in that of its columns.
        learning_rate: Step size.
        weight_decay: L2 penalty.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        super().__init__(parameters, lr=learning_rate, weight_decay=weight_decay, fused=True)
        self._unmoved: dict[nn.Parameter, NDArray[np.bool_]] = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Updates every weight that has a gradient."""
        if any(weight.is_cuda for group in self.param_groups for weight in group["params"]):
            found: float | None = super().step(closure)
            return found
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the state, with moments in whatever order of memory they were saved."""
        super().load_state_dict(state_dict)
        self._unmoved.clear()
        for weight, state in self.state.items():
            for name in _MOMENTS:
                state[name] = torch.empty_like(weight, requires_grad=False).copy_(state[name])

    def _update(self, weight: nn.Parameter, group: dict[str, Any]) -> None:
        state, grad = self.state[weight], weight.grad
        assert grad is not None
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for name in _MOMENTS:
                state[name] = torch.zeros_like(weight, requires_grad=False)
        if grad.stride() != weight.stride():
            grad = torch.empty_like(weight, requires_grad=False).copy_(grad)
        state["step"] += 1
        arrays = [_rows(part) for part in (weight.detach(), grad, *(state[name] for name in _MOMENTS))]
        if weight not in self._unmoved:
            self._unmoved[weight] = np.logical_not(arrays[2].any(axis=1) | arrays[3].any(axis=1))
        beta1, beta2 = group["betas"]
        taken = float(state["step"])
        corrections = group["lr"] / (1 - beta1**taken), (1 - beta2**taken) ** -0.5
        constants = (group["weight_decay"], 1 - beta1, 1 - beta2, *corrections, group["eps"])
        kernel = partial(update, *arrays, self._unmoved[weight], *(np.float32(value) for value in constants))
        rows = len(arrays[0])
        # Read are all four, and all but the gradient are written.
        pool.in_chunks(kernel, rows, pool.grain(rows, 7 * arrays[0].nbytes))


def _rows(tensor: Tensor) -> NDArray[np.float32]:
    """Returns the memory of `tensor` as a matrix, float32: of its rows, or of its columns if they come first."""
    if tensor.ndim == 2 and not tensor.is_contiguous():
        tensor = tensor.t()
    rows: NDArray[np.float32] = tensor.view(len(tensor) if tensor.ndim > 1 else 1, -1).numpy()
    return rows

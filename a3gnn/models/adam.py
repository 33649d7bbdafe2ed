"""Adam (Kingma and Ba, 2015, algorithm 1) in one pass over each weight, whatever the order of its memory.

The compiled update releases the GIL. Entries are independent, so threads don't change results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.errors import ConfigError
from a3gnn.storage.compiled import njit, readonly
from a3gnn.threads import pool

Singles: TypeAlias = NDArray[np.float32]

_MOMENTS = ("exp_avg", "exp_avg_sq")
_ZERO = np.float32(0)
_NO_ROWS = readonly(np.empty(0, dtype=np.int64))


class Optimizer(Protocol):
    """The optimizer interface that training uses; torch's optimizers have it."""

    param_groups: list[dict[str, Any]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients."""

    def step(self) -> Any:
        """Updates every weight that has a gradient."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state from `state_dict`."""


def make_adam(parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float) -> Optimizer:
    """Returns a new Adam optimizer: `Adam` for weights on the CPU, torch's fused Adam on a device.

    Args:
        parameters: float32, each in row-major order, or with two dimensions in column-major order.
        learning_rate: Step size.
        weight_decay: L2 penalty.
    """
    weights = list(parameters)
    if any(weight.is_cuda for weight in weights):
        return torch.optim.Adam(weights, lr=learning_rate, weight_decay=weight_decay, fused=True)
    return Adam(weights, learning_rate, weight_decay)


class Adam:
    """Torch's Adam for weights on the CPU, with a compiled kernel, and with torch's state and checkpoint format.

    Torch's fused Adam copies weights and gradients that are not in row-major order, at every step. This one skips rows
    whose gradients have all been 0, such as those of features in no mini-batch, because Adam would not change them. It
    is not a `torch.optim.Optimizer`, because the first one of a process imports torch._dynamo: a second or two, and
    70 MiB.

    With a sparse gradient, such as an embedding's, it updates only the rows in the gradient, as torch's SparseAdam
    does. Other rows and their moments stay, and a weight decay is refused.

    Args:
        parameters: float32, each in row-major order, or with two dimensions in column-major order.
        learning_rate: Step size.
        weight_decay: L2 penalty.

    Attributes:
        param_groups: One group, with the weights as `params`, and `lr`, `betas`, `eps` and `weight_decay`.
        state: `step`, `exp_avg` and `exp_avg_sq` of each updated weight.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        self.param_groups: list[dict[str, Any]] = [
            {
                "params": list(parameters),
                "lr": learning_rate,
                "betas": (0.9, 0.999),
                "eps": 1e-8,
                "weight_decay": weight_decay,
                "fused": True,  # for torch's Adam, which continues from this state on a device
            }
        ]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = defaultdict(dict)
        self._unmoved: dict[nn.Parameter, NDArray[np.bool_]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients, or fills them with 0."""
        for weight in self._weights:
            if set_to_none:
                weight.grad = None
            elif weight.grad is not None:
                weight.grad = torch.zeros_like(weight.grad)

    @torch.no_grad()
    def step(self) -> None:
        """Updates every weight that has a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in torch's format: weights are numbered in their order; tensors are not copied."""
        number = {weight: i for i, weight in enumerate(self._weights)}
        groups = [group | {"params": [number[weight] for weight in group["params"]]} for group in self.param_groups]
        return {"state": {number[weight]: dict(own) for weight, own in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copies a state of this or of torch's Adam, with moments in any memory order.

        Raises:
            ValueError: The state has other numbers of weights.
        """
        groups, weights = state_dict["param_groups"], self._weights
        found, own = ([len(group["params"]) for group in every] for every in (groups, self.param_groups))
        if found != own:
            raise ValueError(f"the optimizer's state must have {own} weights, got {found}")
        for group, saved in zip(self.param_groups, groups, strict=True):
            group |= {name: value for name, value in saved.items() if name != "params"}
        self.state.clear()
        self._unmoved.clear()
        for number, saved in state_dict["state"].items():
            weight = weights[number]
            moments = {name: torch.empty_like(weight, requires_grad=False).copy_(saved[name]) for name in _MOMENTS}
            self.state[weight] = {"step": torch.as_tensor(saved["step"], dtype=torch.float32).clone(), **moments}

    @property
    def _weights(self) -> list[nn.Parameter]:
        return [weight for group in self.param_groups for weight in group["params"]]

    def _update(self, weight: nn.Parameter, group: dict[str, Any]) -> None:
        state, grad = self.state[weight], weight.grad
        assert grad is not None
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for name in _MOMENTS:
                state[name] = torch.zeros_like(weight, requires_grad=False)
        chosen = _NO_ROWS
        if grad.is_sparse:
            if group["weight_decay"]:
                raise ConfigError(
                    f"weight_decay must be 0 for embeddings with sparse updates, got {group['weight_decay']}; leave it "
                    "out"
                )
            grad = grad.coalesce()
            chosen, grad = grad.indices()[0].numpy(), grad.values()
            if not len(chosen):
                return
        elif grad.stride() != weight.stride():
            grad = torch.empty_like(weight, requires_grad=False).copy_(grad)
        state["step"] += 1
        arrays = [_rows(part) for part in (weight.detach(), grad, *(state[name] for name in _MOMENTS))]
        if weight not in self._unmoved:
            self._unmoved[weight] = np.logical_not(arrays[2].any(axis=1) | arrays[3].any(axis=1))
        beta1, beta2 = group["betas"]
        taken = float(state["step"])
        corrections = group["lr"] / (1 - beta1**taken), (1 - beta2**taken) ** -0.5
        constants = (group["weight_decay"], 1 - beta1, 1 - beta2, *corrections, group["eps"])
        with np.errstate(over="ignore"):  # an overflow makes the next loss infinite or NaN, which is reported
            singles = tuple(np.float32(value) for value in constants)
        rows = (*arrays, self._unmoved[weight])
        kernel = partial(update, rows, readonly(chosen), singles)
        # The kernel reads all four arrays, and writes all but the gradient.
        pool.in_chunks(kernel, len(arrays[1]), pool.grain(len(arrays[1]), 7 * arrays[1].nbytes))


def _rows(tensor: Tensor) -> NDArray[np.float32]:
    """Returns the memory of `tensor` as a float32 matrix, transposed if `tensor` is column-major."""
    if tensor.ndim == 2 and not tensor.is_contiguous():
        tensor = tensor.t()
    rows: NDArray[np.float32] = tensor.view(len(tensor) if tensor.ndim > 1 else 1, -1).numpy()
    return rows


# numpy's error model, because a check for a divisor of 0 would prevent vectorization.
@njit(cache=True, nogil=True, error_model="numpy")
def update(
    rows: tuple[Singles, Singles, Singles, Singles, NDArray[np.bool_]],
    chosen: NDArray[np.int64],
    constants: tuple[np.float32, np.float32, np.float32, np.float32, np.float32, np.float32],
    low: int,
    high: int,
) -> None:
    """Takes one step of Adam on rows `low` to `high`.

    Args:
        rows: The weight, shape (n_rows, width), its gradient, its moments, and whether all moments of a row are 0,
            shape (n_rows,): such a row is skipped if its gradient is 0. All but the gradient are updated.
        chosen: Distinct rows, int64, if the gradient has only these; empty if it has all.
        constants: L2 penalty (if it is not 0, no row is skipped), 1 - beta1, 1 - beta2, learning rate divided by the
            first moment's bias correction, 1 / the square root of the second moment's bias correction, and epsilon.
        low: First row.
        high: Past the last row.
    """
    weight, grad, mean, square, unmoved = rows
    decay, mean_share, square_share, step_size, inverse_root, eps = constants
    width = weight.shape[1]
    for place in range(low, high):
        i = chosen[place] if len(chosen) > 0 else place
        w, g, m, v = weight[i], grad[place], mean[i], square[i]
        if unmoved[i] and decay == _ZERO:
            # Comparing bits, not values, lets the loop vectorize. -0.0 counts as a gradient, which is also correct.
            bits, given = g.view(np.int32), np.int32(0)
            for j in range(width):
                given |= bits[j]
            if given == 0:
                continue
        unmoved[i] = False
        for j in range(width):
            slope = g[j] + decay * w[j]
            m[j] += (slope - m[j]) * mean_share
            v[j] += (slope * slope - v[j]) * square_share
            w[j] -= step_size * m[j] / (np.sqrt(v[j]) * inverse_root + eps)


def warm_up() -> None:
    """Compiles the kernel or loads it from numba's cache."""
    one, row = np.float32(1), np.zeros((1, 1), dtype=np.float32)
    rows = (row, row, row.copy(), row.copy(), np.ones(1, dtype=np.bool_))
    update(rows, _NO_ROWS, (one, one, one, one, one, one), 0, 1)

"""Batch norms that meet a single row in training: they take their running statistics, as built-in ones do."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

#: How torch's error of such a row begins; it has no type of its own.
_TORCH_SAYS = "Expected more than 1 value per channel when training"


def take_single_rows(module: nn.Module) -> None:
    """Has each batch norm of `module` take its running statistics for a single row in training, which has no variance.

    Nothing else changes: not the rows of larger mini-batches, nor the names of weights.
    """
    for norm in module.modules():
        if isinstance(norm, _BatchNorm) and norm.track_running_stats:
            single = _Single()
            norm.register_forward_pre_hook(single.begin)
            norm.register_forward_hook(single.end, always_call=True)


def is_single_row(error: ValueError) -> bool:
    """Returns whether `error` is torch's refusal to train a norm on a single row."""
    return str(error).startswith(_TORCH_SAYS)


class _Single:
    """Sets a norm to evaluation while it is called with a single row in training."""

    def __init__(self) -> None:
        self._set = False

    def begin(self, norm: nn.Module, given: tuple[Any, ...]) -> None:
        if norm.training and given and isinstance(given[0], Tensor) and _values_per_channel(given[0]) == 1:
            norm.training, self._set = False, True

    def end(self, norm: nn.Module, given: Any, out: Any) -> None:
        if self._set:
            norm.training, self._set = True, False


def _values_per_channel(x: Tensor) -> int:
    return x.numel() // x.size(1) if x.ndim >= 2 and x.size(1) else 0

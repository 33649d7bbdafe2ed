"""`set_autocast`: runs a model's forward pass under torch's autocast to bfloat16."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

_entered = threading.local()


def set_autocast(model: nn.Module, on: bool) -> None:
    """Makes calls of `model` in training run under autocast to bfloat16 and return float32, or undoes that.

    Two hooks of the model do so, which are copied and pickled with it.
    """
    for hooks in (model._forward_pre_hooks, model._forward_hooks):
        for key in [key for key, hook in hooks.items() if hook in (_enter, _leave)]:
            del hooks[key]
            model._forward_hooks_always_called.pop(key, None)
    if on:
        model.register_forward_pre_hook(_enter, prepend=True)
        model.register_forward_hook(_leave, always_call=True)


def is_own() -> bool:
    """Returns whether autocast is that of `set_autocast`: layers then pass bfloat16 on, where PyG's would widen it."""
    return bool(_stack()) and isinstance(_stack()[-1], torch.autocast)


def _stack() -> list[AbstractContextManager[Any]]:
    if not hasattr(_entered, "stack"):
        _entered.stack = []
    found: list[AbstractContextManager[Any]] = _entered.stack
    return found


def _enter(module: nn.Module, _: Any) -> None:
    context = torch.autocast("cpu", torch.bfloat16) if module.training else nullcontext()
    context.__enter__()
    _stack().append(context)


def _leave(_: nn.Module, __: Any, output: Any) -> Any:
    _stack().pop().__exit__(None, None, None)
    return tree_map_only(Tensor, lambda one: one.float() if one.dtype is torch.bfloat16 else one, output)

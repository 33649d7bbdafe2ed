"""`accelerate`: computes the PyG layers of a user's model by compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeVar

from torch import fx, nn

from a3gnn.errors import UsageError

Model = TypeVar("Model", bound=nn.Module)


class LayerReport(NamedTuple):
    """Where a layer is computed."""

    name: str  # the layer's name in the model; empty for the model itself
    layer: str  # the name of its class
    reason: str | None  # why PyG computes it, or ran its last call; None if the kernels do


def accelerate(model: Model, dtype: Literal["float32", "bfloat16"] | None = None, report: bool = False) -> Model:
    """Returns `model` itself, changed so that compiled kernels compute its PyG convolutions.

    Parameters, names, hooks and the state dict stay. Outputs and gradients equal PyG's up to rounding. Layers and calls
    that the kernels don't support still run PyG's code; `layers` has the reasons.

    Examples:
        >>> model = accelerate(model)
        >>> out = model(batch.x, batch.edge_index)[: batch.batch_size]

    Args:
        model: A module with PyG's convolutions, on the CPU.
        dtype: bfloat16 computes under `torch.autocast` and returns float32; parameters stay float32. None or float32
            computes in the parameters' type.
        report: Whether to print where each convolution is computed, and why not by kernels.

    Raises:
        UsageError: `model` is no module, or there is no such dtype.
    """
    from a3gnn.acceleration.autocast import set_autocast
    from a3gnn.acceleration.hetero import NATIVE
    from a3gnn.acceleration.programs import join_program

    if not isinstance(model, nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, got {model!r}")
    if dtype not in (None, "float32", "bfloat16"):
        raise UsageError(f"dtype must be 'bfloat16', 'float32' or None, got {dtype!r}")
    for _, layer, compiled in _convolutions(model):
        if not compiled and type(layer) in NATIVE:
            layer.__class__ = NATIVE[type(layer)]
    for _, part, compiled in _parts(model):
        if not compiled and isinstance(part, fx.GraphModule):
            join_program(part)
    set_autocast(model, dtype == "bfloat16")
    if report:
        for one in layers(model):
            print(f"{one.name or 'model'}: {one.layer}: {'native' if one.reason is None else f'PyG, {one.reason}'}")
    return model


def layers(model: nn.Module) -> list[LayerReport]:
    """Returns where each convolution of `model` is computed."""
    return [
        LayerReport(name, type(one).__name__, _reason(one, compiled)) for name, one, compiled in _convolutions(model)
    ]


def _reason(layer: Any, compiled: bool) -> str | None:
    """Returns why PyG computes `layer`, or None."""
    from a3gnn.acceleration.calls import Replaced
    from a3gnn.acceleration.hetero import NATIVE

    if compiled:
        return "a module compiled by torch.compile"
    if isinstance(layer, Replaced):
        return layer.unsupported() or layer.refused
    base = next((one.__name__ for one in NATIVE if isinstance(layer, one)), None)
    return "no native form of this class" if base is None else f"a subclass of {base}"


def _convolutions(model: nn.Module) -> Iterator[tuple[str, nn.Module, bool]]:
    """Yields the name and module of each PyG convolution in `model`, and whether torch.compile runs it."""
    from torch_geometric.nn import HeteroConv, MessagePassing

    from a3gnn.acceleration.programs import ModuleDict

    for name, module, compiled in _parts(model):
        if isinstance(module, MessagePassing | HeteroConv | ModuleDict):
            yield name, module, compiled


def _parts(model: nn.Module) -> Iterator[tuple[str, nn.Module, bool]]:
    """Yields the name of each module in `model`, the module, and whether torch.compile runs it."""
    compiled: list[str] = []
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            compiled.append(name)
        yield name, module, any(not one or name == one or name.startswith(f"{one}.") for one in compiled)

"""What a model reads of a mini-batch, from its modules: how far an output depends on other rows.

PyG's modules are recognized by name, so that nothing is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from a3gnn.errors import UsageError
from a3gnn.sampling.exact_share import Reach

#: PyG's convolutions that compute a row from the row and its in-neighbors, one hop away, and from nothing else.
_BY_ROW = frozenset(
    (
        "SAGEConv",
        "GraphConv",
        "GINConv",
        "GINEConv",
        "GATConv",
        "GATv2Conv",
        "TransformerConv",
        "ResGatedGraphConv",
        "GENConv",
        "NNConv",
        "HGTConv",
    )
)
#: Those that also read the degree of each in-neighbor.
_BY_DEGREE = frozenset(["GCNConv"])
_CONVOLUTIONS = "torch_geometric.nn.conv"
#: Modules that mix the rows of a mini-batch: always, or in training.
_ALWAYS_MIXING = frozenset(
    ["GraphNorm", "GraphSizeNorm", "PairNorm", "MeanSubtractionNorm", "HeteroLayerNorm", "DiffGroupNorm", "GPSConv"]
)
_IN_TRAINING = frozenset(
    ["BatchNorm", "HeteroBatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LazyBatchNorm1d"]
)


def reach_of(modules: Iterable[nn.Module], calls: int = 0) -> Reach:
    """Returns what the outputs of a model at the seeds depend on.

    Args:
        modules: The model, or all of its modules that were called; inner modules count too.
        calls: How many layers of convolutions were called in one pass, if that is known (`layers_of`).
    """
    everything = [*_all_of(modules)]
    convolutions = [module for module in everything if is_convolution(module)]
    names = [_native_name(module) for module in convolutions]
    if not all(name in _BY_ROW or name in _BY_DEGREE for name in names):
        return Reach(None, degrees=True)
    layers = layers_of(everything, dict.fromkeys(convolutions, 1))
    return Reach(max(calls, layers), degrees=not _BY_DEGREE.isdisjoint(names))


def layers_of(modules: Iterable[nn.Module], calls: Mapping[nn.Module, int]) -> int:
    """Returns how many layers the `calls` of convolutions are, one after the other.

    Convolutions of several relations in a `HeteroConv`, or in a dict of a model by `to_hetero`, are one layer. Those in
    a dict of the user's own may be called one after the other.

    Args:
        modules: All modules of the model.
        calls: How often each convolution and each `HeteroConv` was called.
    """
    layer: dict[nn.Module, nn.Module] = {}
    everything = [*modules]
    by_to_hetero = {*_all_of(one for one in everything if type(one).__name__.startswith("GraphModule"))}
    for module in everything:
        inner = getattr(module, "convs", None) if _native_name(module) == "HeteroConv" else module
        joined = inner is not module or module in by_to_hetero
        if joined and isinstance(inner, nn.ModuleDict) and all(name.count("__") > 1 for name in inner._modules):
            layer |= dict.fromkeys(inner.children(), inner) | {module: inner}
    most: dict[nn.Module, int] = {}
    for module, number in calls.items():
        key = layer.get(module, module)
        most[key] = max(most.get(key, 0), number)
    return sum(most.values())


def mixing_module(modules: Iterable[nn.Module]) -> str | None:
    """Returns the class of a module that mixes the rows of a mini-batch, so that shares differ from it; None if none.

    Batch norms mix rows in training. PyG's `LayerNorm` does unless its mode is node.
    """
    for module in _all_of(modules):
        name = type(module).__name__
        mixes = name in _ALWAYS_MIXING or (name in _IN_TRAINING and module.training)
        if name in ("BatchNorm1d", "InstanceNorm"):
            mixes = module.training or not module.track_running_stats
        if name == "LayerNorm" and type(module).__module__.startswith("torch_geometric"):
            mixes = getattr(module, "mode", "node") != "node"
        if mixes or (is_convolution(module) and getattr(module, "flow", "source_to_target") != "source_to_target"):
            return name
    return None


def is_convolution(module: nn.Module) -> bool:
    """Returns whether `module` is one of PyG's `MessagePassing`."""
    return any(kind.__name__ == "MessagePassing" and _is_pygs(kind) for kind in type(module).__mro__)


def width_of(model: nn.Module) -> int:
    """Returns the widest row that the weights of `model` make or take; tables of embeddings don't count."""
    weights = (
        weight
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for weight in module.parameters(recurse=False)
        if not isinstance(weight, nn.UninitializedParameter) and weight.dim() > 1
    )
    return max((max(weight.shape[-2:]) for weight in weights), default=1)


class ModelWatch:
    """Sees the modules that a user's loop calls while it is entered, and refuses a share that they need more than.

    Args:
        reach: The part of the mini-batch that the share contains.
        learned: Called at the end with the modules that were called, and the layers of convolutions in one pass.
        is_cut: Whether it was cut. If not, everything is allowed.
        model: The user's model, if it is known; its modules have been checked.
    """

    def __init__(
        self,
        reach: Reach,
        learned: Callable[[Iterable[nn.Module], int], None],
        *,
        is_cut: bool,
        model: nn.Module | None,
    ) -> None:
        self._reach, self._learned, self._is_cut, self._model = reach, learned, is_cut, model
        self._handles: list[Any] = []
        self._depth = self._layers = self._most_layers = 0
        self._calls = WeakKeyDictionary[nn.Module, int]()
        self._called: WeakSet[nn.Module] = WeakSet()

    def __enter__(self) -> Self:
        after = register_module_forward_hook(self._leave, always_call=True)
        self._handles = [register_module_forward_pre_hook(self._enter), after]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._learned(self._called, self._most_layers)

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._called.add(module)
        if not self._depth:
            self._calls.clear()
            self._layers = 0
        if is_convolution(module) or _native_name(module) == "HeteroConv":
            self._calls[module] = self._calls.get(module, 0) + 1
            self._layers = layers_of(_all_of(self._called), self._calls)
            self._most_layers = max(self._most_layers, self._layers)
        self._depth += 1
        if self._is_cut:
            self._check()

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def _check(self) -> None:
        """Checks the modules so far.

        Raises:
            UsageError: The share lacks rows that they read.
        """
        known = self._model is not None
        name = None if known else mixing_module(self._called)
        if name is not None:
            raise UsageError(f"{cannot_cut(name)} Or pass model=model to Loader, which then keeps mini-batches whole")
        read = reach_of([] if known else self._called, self._layers)
        most = self._reach.layers
        if most is not None and (read.layers is None or read.layers > most):
            found = "one that may read rows of any distance" if read.layers is None else f"{read.layers}"
            raise UsageError(
                f"a share for {most} convolutions needs a model with as many, got {found}; "
                + ("call each convolution once" if known else "pass model=model to Loader, which then cuts for it")
            )


def cannot_cut(name: str) -> str:
    """Returns the reason why mini-batches of a model with a module `name` are not cut."""
    return (
        f"mini-batches of this model can't be cut, because {name} computes from all rows of a mini-batch. Replace it "
        "by a norm of single rows, such as torch.nn.LayerNorm, or allow more memory."
    )


def _all_of(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    seen: set[int] = set()
    for module in modules:
        for inner in module.modules():
            if id(inner) not in seen:
                seen.add(id(inner))
                yield inner


def _is_pygs(kind: type) -> bool:
    return kind.__module__.startswith(_CONVOLUTIONS)


def _native_name(module: nn.Module) -> str | None:
    """Returns the name of PyG's class of `module`; None for a class of the user's own, which may compute otherwise."""
    for kind in type(module).__mro__:
        if _is_pygs(kind):
            return kind.__name__
        if not kind.__module__.startswith("a3gnn."):
            return None
    return None

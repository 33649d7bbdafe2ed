"""`Accelerated`: decides whether kernels support a call of a convolution, and `Call`, its checked arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch_geometric.nn import aggr as pyg_aggr
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from a3gnn.acceleration.autocast import is_own
from a3gnn.acceleration.dropping import split
from a3gnn.acceleration.graph import EdgeGraph, graph_of, size_reason
from a3gnn.acceleration.lazy_rows import LazyRows, first_rows, joined, may_wait
from a3gnn.models.layers.compiled import is_traced
from a3gnn.pipeline.known_edges import known_edges

_FLOATS = (torch.float32, torch.float64)
_AGGREGATIONS = {
    "mean": pyg_aggr.MeanAggregation,
    "sum": pyg_aggr.SumAggregation,
    "add": pyg_aggr.SumAggregation,
    "max": pyg_aggr.MaxAggregation,
}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
#: Methods of `MessagePassing` that a user can replace on one layer.
_METHODS = {
    "aggregate",
    "edge_update",
    "edge_updater",
    "explain_message",
    "forward",
    "message",
    "message_and_aggregate",
    "propagate",
    "update",
}
#: Hooks of all modules, by their names in `torch.nn.modules.module`. torch 2.5 has no function for that.
_GLOBAL_HOOKS = tuple(f"_global{hooks}" for hooks in _HOOKS)
_MESSAGE_HOOKS = [
    f"_{part}_forward{kind}hooks"
    for part in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for kind in ("_", "_pre_")
]

#: Takes the layer, a graph, the sources' and the targets' rows, the output's type and a tensor of the edges, or None.
Rows = Callable[[Any, EdgeGraph, Tensor, Tensor | None, torch.dtype, Tensor | None], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of a convolution, checked.

    Attributes:
        x: The sources' rows, shape (num_src, width).
        own: The targets' rows, or None.
        dtype: Type of products and, unless `adds_float32`, of the output: of the rows, or bfloat16 under autocast.
        known: How many targets later layers need, which are the first; the others wait. None computes all.
        adds_float32: Whether PyG's code adds or multiplies by float32 after its linear maps, so that its output is
            float32 under autocast to bfloat16.
    """

    graph: EdgeGraph
    x: Tensor
    own: Tensor | None
    dtype: torch.dtype
    known: int | None = None
    adds_float32: bool = False

    @classmethod
    def of(cls, edge_index: Tensor, x: Tensor, own: Tensor | None, num_dst: int, dtype: torch.dtype) -> Call | None:
        """Returns the call, or None if `edge_index` has nodes out of range."""
        graph = graph_of(edge_index, len(x), num_dst)
        if graph is None:
            return None
        if own is x and may_wait():
            sizes = known_edges(edge_index).hop_sizes
            hops = len(sizes) - 1 - _level(x)
            if hops > 0 and sizes[-1] == len(x):
                return cls(graph, x, own, dtype, known=sizes[hops - 1])
        whole = _whole(x)
        return cls(graph, whole, whole if own is x else _whole(own), dtype)

    @property
    def num_src(self) -> int:
        """Number of sources."""
        return self.graph.num_src

    @property
    def weight_dtype(self) -> torch.dtype:
        """Type of edge weights: float32 for bfloat16."""
        return torch.float32 if self.dtype is torch.bfloat16 else self.dtype

    def looped(self) -> Call:
        """Returns the call with exactly one self loop per node."""
        return replace(self, graph=self.graph.looped)

    def run(self, conv: Accelerated, rows: Rows, edges: Tensor | None = None) -> Tensor:
        """Returns the output of `rows`, shape (num_dst, width).

        Args:
            conv: The layer.
            rows: Returns the output of the targets of a graph, which may be the first of all.
            edges: Weights or attributes of the edges.
        """
        if self.known is None:
            return self._of(conv, rows, self.x, self.own, self.graph, edges)
        known = self.graph.num_dst if conv.reads_all() else self.known
        graph = self.graph.first(known)
        if isinstance(self.x, LazyRows) and graph.num_src > len(self.x.first):
            x = self.x.whole()
            return self._of(conv, rows, x, x, self.graph, edges)
        given = first_rows(self.x, graph.num_src)
        first = self._of(conv, rows, *split(given, known), graph, edges)
        tensors = conv.read_by_rows()
        kept = _copy_of(conv, {})

        def all_rows(inputs: list[Any], others: list[Any]) -> Tensor:
            given = {id(one): other for one, other in zip(tensors, others[1:], strict=True)}
            return self._of(_copy_of(kept, given), rows, inputs[0], inputs[0], self.graph, others[0])

        return joined(
            first,
            self.graph.num_dst,
            all_rows,
            [self.x],
            [edges, *_without_unused(tensors, first, (given, edges))],
            _level(self.x) + 1,
            conv.note_read,
        )

    def _of(
        self, conv: Any, rows: Rows, x: Tensor, own: Tensor | None, graph: EdgeGraph, edges: Tensor | None
    ) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            out = rows(conv, graph, x, own, self.dtype, edges)
        return out.to(torch.promote_types(self.dtype, torch.float32)) if self.adds_float32 else out


def _without_unused(tensors: list[Tensor], out: Tensor, inputs: Iterable[Tensor | None]) -> list[Tensor]:
    """Returns `tensors`, detached where `out`, which is computed from them and `inputs`, doesn't depend on them.

    Otherwise torch would run their hooks, without a gradient.
    """
    seen: set[Any] = {None, *(one.grad_fn for one in inputs if one is not None)}
    pending: list[Any] = [out.grad_fn]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(before for before, _ in node.next_functions)
    leaves = {id(getattr(node, "variable", None)) for node in seen}
    return [one if id(one) in leaves or (one.grad_fn and one.grad_fn in seen) else one.detach() for one in tensors]


def _level(x: Any) -> int:
    return x.level if isinstance(x, LazyRows) else 0


def _whole(x: Any) -> Any:
    return x.whole() if isinstance(x, LazyRows) else x


def _copy_of(module: Any, tensors: dict[int, Tensor]) -> Any:
    """Returns `module` with its present attributes and parts, and with other parameters and buffers, by their id."""
    made = object.__new__(type(module))
    for name, value in module.__dict__.items():
        if name in ("_parameters", "_buffers"):
            value = {key: tensors.get(id(one), one) for key, one in value.items()}
        elif name == "_modules":
            value = {key: None if one is None else _copy_of(one, tensors) for key, one in value.items()}
        made.__dict__[name] = value
    return made


class Replaced:
    """What layers in place of PyG's note about their calls."""

    __dict__: dict[str, Any]
    training: bool

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        raise NotImplementedError

    def refuse(self, reason: str) -> Call | None:
        """Notes why a call runs PyG's code, and returns None."""
        self.__dict__["_a3gnn_refused"] = reason
        return None

    def accept(self) -> None:
        """Notes that a call runs natively."""
        self.__dict__.pop("_a3gnn_refused", None)

    @property
    def refused(self) -> str | None:
        """Why the last call ran PyG's code; None if it ran natively or there was none."""
        found: str | None = self.__dict__.get("_a3gnn_refused")
        return found

    def _reads(self, output: str) -> list[int]:
        """In the present mode, how many calls in a row had all rows read, and how often the last one had."""
        found: list[int] = self.__dict__.setdefault(f"_a3gnn_reads_{self.training}{output}", [0, 0])
        return found

    def reads_all(self, output: str = "") -> bool:
        """Returns whether all rows of the last two calls were read, so that all are computed at once from now on.

        Args:
            output: Which output, if a call has several.
        """
        reads = self._reads(output)
        if reads[0] < 2:
            reads[:] = [reads[0] + 1 if reads[1] else 0, 0]
        return reads[0] >= 2

    def note_read(self, output: str = "") -> None:
        """Notes that all rows of the last call are read."""
        self._reads(output)[1] += 1


class Accelerated(MessagePassing, Replaced):  # type: ignore[misc]  # PyG's classes have no types
    """A convolution of PyG whose calls run natively where they can.

    Attributes:
        linear_names: Attributes with the linear maps that kernels apply themselves.
        source_maps: Those that are applied to rows of sources, or to their sums.
        target_maps: Those that are applied to rows of targets.
        aggregations: PyG's names of supported aggregations.
        adds_float32: See `Call`.
    """

    linear_names: ClassVar[tuple[str, ...]] = ()
    source_maps: ClassVar[tuple[str, ...]] = ()
    target_maps: ClassVar[tuple[str, ...]] = ()
    aggregations: ClassVar[tuple[str, ...]] = ()
    adds_float32: ClassVar[bool] = False

    def read_by_rows(self) -> list[Tensor]:
        """Returns the parameters and buffers that rows are computed from."""
        return [*self.parameters(), *self.buffers()]

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        return next(_reasons(self), None)

    def call(self, x: Any, edge_index: Any, size: Any = None, *, weights: Any = None) -> Call | None:
        """Returns the checked arguments of a call, or None if PyG's code must run it.

        Args:
            x: PyG's `x`: rows, or a pair of the sources' and the targets' rows.
            edge_index: PyG's `edge_index`.
            size: PyG's `size`.
            weights: A weight per edge, or None.
        """
        if is_traced():
            return None
        reason = self.unsupported()
        found = reason or _checked(self, x, edge_index, size, weights)
        if isinstance(found, str):
            self.refuse(found)
            return None
        self.accept()
        return replace(found, adds_float32=self.adds_float32 and not is_own())

    def __prepare_scriptable__(self) -> MessagePassing:
        # torch.jit.script asks for it: it compiles PyG's own code.
        plain = copy.copy(self)
        plain.__class__ = pyg_class(type(self))
        return plain

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        # PyG generates code for a class. A copy must find the code of PyG's class, which its explainers replace.
        mine = type(self)
        self.__class__ = pyg_class(mine)
        try:
            MessagePassing._set_jittable_templates(self, raise_on_error)
        finally:
            self.__class__ = mine


def pyg_class(native: type) -> type:
    """Returns the class of PyG that `native` replaces."""
    return next(one for one in native.__mro__ if not issubclass(one, Accelerated))


def is_plain(lin: nn.Module) -> bool:
    """Returns whether `lin` is a linear map without hooks or parametrizations, whose weight exists."""
    if type(lin) not in (Linear, nn.Linear) or "forward" in lin.__dict__:
        return False
    return not has_hooks(lin)


def _reasons(conv: Accelerated) -> Iterator[str]:
    """Yields why no call of `conv` can run natively."""
    if conv.flow != "source_to_target":
        yield f"flow={conv.flow!r}"
    if conv.node_dim not in (-2, 0):
        yield f"node_dim={conv.node_dim}"
    if conv.aggr not in conv.aggregations:
        yield f"aggr={conv.aggr!r}"
    elif type(conv.aggr_module) is not _AGGREGATIONS[conv.aggr] or has_hooks(conv.aggr_module):
        yield "a changed aggregation"
    if conv.explain:
        yield "explain=True"
    if conv.decomposed_layers > 1:
        yield f"decomposed_layers={conv.decomposed_layers}"
    yield from _replaced_parts(conv)


def _replaced_parts(conv: Accelerated) -> Iterator[str]:
    """Yields what a user has replaced or hooked inside `conv`."""
    mine = conv.__dict__
    for name in () if mine.keys().isdisjoint(_METHODS) else _METHODS & mine.keys():
        # PyG itself replaces `propagate` of one layer during and after explanations.
        known = getattr(type(conv), "_jinja_propagate", None)
        if name != "propagate" or getattr(mine[name], "__func__", None) is not known:
            yield f"a method {name} of its own"
    if any(map(mine.__getitem__, _MESSAGE_HOOKS)):
        yield "hooks of message passing"
    if any(map(torch_module.__dict__.__getitem__, _GLOBAL_HOOKS)):
        yield "global hooks of modules"
    for name in conv.linear_names:
        lin = conv._modules.get(name, mine.get(name))
        if lin is not None and not is_plain(lin):
            yield f"{name} has hooks, or is no plain linear map"


def has_hooks(module: nn.Module) -> bool:
    """Returns whether `module` has hooks of its own."""
    return any(map(module.__dict__.__getitem__, _HOOKS))


def all_hooks(conv: nn.Module) -> list[Any]:
    """Returns the hooks of `conv`, of its parts, and of all modules."""
    found = [torch_module.__dict__[name] for name in _GLOBAL_HOOKS] + [conv.__dict__[name] for name in _MESSAGE_HOOKS]
    return found + [part.__dict__[name] for part in conv.modules() for name in _HOOKS]


def _checked(conv: Accelerated, x: Any, edge_index: Any, size: Any, weights: Any) -> Call | str:
    """Returns the call, or why PyG's code must run it."""
    pair = isinstance(x, tuple | list)
    if pair and len(x) != 2:
        return "x of another form"
    source, own = x if pair else (x, x)
    reason = rows_reason(source) or (None if own is None else rows_reason(own)) or edges_reason(edge_index)
    if reason is not None:
        return reason
    if not (_fit(conv, conv.source_maps, source) and (own is None or _fit(conv, conv.target_maps, own))):
        return f"x has {source.shape[1]} columns"
    dtype = _compute_dtype(conv, source, own)
    if dtype is None:
        return f"x of {source.dtype} with other parameters, or under autocast"
    num_dst = _num_targets(source, own, size)
    if num_dst is None:
        return f"size={size!r}"
    reason = size_reason(edge_index.shape[1], len(source), num_dst)
    if reason is not None:
        return reason
    found = Call.of(edge_index, source, own, num_dst, dtype)
    if found is None:
        return "edge_index is out of range"
    if weights is not None and not _are_weights(weights, edge_index, found.weight_dtype):
        return "edge_weight of another type or shape"
    return found


def rows_reason(x: Any) -> str | None:
    """Returns why kernels can't read `x`, the rows of sources or targets, or None."""
    if type(x) not in (Tensor, nn.Parameter, LazyRows) or x.layout is not torch.strided or x.device.type != "cpu":
        return "x is no dense tensor on the CPU"
    return None if x.ndim == 2 else f"x has {x.ndim} dimensions"


def _fit(conv: Accelerated, names: tuple[str, ...], rows: Tensor) -> bool:
    """Returns whether the linear maps called `names` take `rows`."""
    maps = [getattr(conv, name, None) for name in names]
    return all(lin is None or lin.weight.shape[1] == rows.shape[1] for lin in maps)


def edges_reason(edge_index: Any) -> str | None:
    """Returns why kernels can't read `edge_index`, or None; its ends are not checked."""
    if type(edge_index) is not Tensor or edge_index.layout is not torch.strided or edge_index.device.type != "cpu":
        return "edge_index is no dense tensor on the CPU"
    right = edge_index.dtype in (torch.int64, torch.int32) and edge_index.ndim == 2 and edge_index.shape[0] == 2
    return None if right else "edge_index has another dtype or shape"


def _are_weights(weights: Any, edge_index: Tensor, dtype: torch.dtype) -> bool:
    """Returns whether `weights` are one number of `dtype` per edge."""
    if type(weights) not in (Tensor, nn.Parameter) or weights.dtype is not dtype or weights.layout is not torch.strided:
        return False
    return bool(weights.shape == edge_index.shape[1:]) and weights.device.type == "cpu"


def _num_targets(source: Tensor, own: Tensor | None, size: Any) -> int | None:
    """Returns the number of targets, or None if `size` contradicts the rows."""
    num_src, num_dst = (None, None) if size is None else size
    if num_src is not None and num_src != len(source):
        return None
    if own is None:
        return len(source) if num_dst is None else int(num_dst)
    return len(own) if num_dst is None or num_dst == len(own) else None


def _compute_dtype(conv: Accelerated, source: Tensor, own: Tensor | None) -> torch.dtype | None:
    """Returns the output's type, or None if kernels don't support the rows' and parameters' types."""
    found = {one.dtype for one in (source, own) if one is not None}
    weights = {one.dtype for one in conv.parameters()}
    if torch.is_autocast_enabled("cpu"):
        narrow = torch.get_autocast_dtype("cpu") is torch.bfloat16
        fits = found <= {torch.float32, torch.bfloat16} and weights <= {torch.float32}
        return torch.bfloat16 if narrow and fits else None
    if len(found) != 1 or not found <= set(_FLOATS) or not weights <= found:
        return None
    return found.pop()

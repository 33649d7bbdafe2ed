"""PyG's `HeteroConv` with one aggregation of all relations into a type; see `a3gnn.acceleration.convs`.

The output of a type is the sum over its relations of a linear map of each target's aggregate, and of a linear map of
its own row. All non-empty rows of the relations are one CSR over the joint rows of the sources, which is aggregated in
one pass. The maps of own rows are added up before they are applied, and so are the biases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.nn import conv as pyg
from torch_geometric.nn.module_dict import ModuleDict

from a3gnn.acceleration import convs
from a3gnn.acceleration.calls import Replaced, edges_reason, has_hooks, rows_reason
from a3gnn.acceleration.dropping import split
from a3gnn.acceleration.functions import neighbor_sum
from a3gnn.acceleration.graph import EdgeGraph, size_reason
from a3gnn.acceleration.lazy_rows import LazyRows, joined, may_wait
from a3gnn.acceleration.sparse_inputs import sparse_rows
from a3gnn.acceleration.twice import is_traced, mapped
from a3gnn.kernels.edges import join_relations, order_of
from a3gnn.models.layers.compiled import array_of, gradients
from a3gnn.models.layers.layer import LayerShapes
from a3gnn.pipeline.known_edges import known_edges

#: Supported convolutions, and their linear maps of aggregates and of own rows.
JOINED: dict[type, tuple[str, str]] = {convs.SAGEConv: ("lin_l", "lin_r"), convs.GraphConv: ("lin_rel", "lin_root")}
_ARGUMENTS = ("x_dict", "edge_index_dict")
_NO_SLOTS = np.empty(0, dtype=np.int32)


class _Matrix(NamedTuple):
    """Rows of sources or targets, and facts about them, which are read once per call: `LazyRows` take long to tell.

    Attributes:
        rows: The rows.
        reason: Why kernels can't read them, or None. Then the rest is unknown.
        is_sparse: Whether they are mostly zeros.
    """

    rows: Any
    reason: str | None
    num_rows: int = 0
    width: int = 0
    dtype: torch.dtype | None = None
    needs_gradient: bool = False
    is_sparse: bool = False

    @classmethod
    def of(cls, rows: Any) -> _Matrix:
        """Returns the facts about `rows`."""
        reason = rows_reason(rows)
        if reason is not None or rows.dtype not in (torch.float32, torch.float64):
            return cls(rows, reason or f"x of {rows.dtype}")
        is_sparse = not isinstance(rows, LazyRows) and sparse_rows(rows) is not None
        num_rows, width = rows.shape
        return cls(rows, None, num_rows, width, rows.dtype, rows.requires_grad, is_sparse)


class _Relation(NamedTuple):
    """A checked call of a relation's convolution.

    Attributes:
        source: The sources' rows.
        own: The targets' rows.
        edge_index: The edges.
        aggr: PyG's name of the aggregation.
        weight: Map of the aggregates.
        bias: Bias, or None.
        root: Map of own rows, or None.
    """

    source: _Matrix
    own: _Matrix
    edge_index: Tensor
    aggr: str
    weight: Tensor
    bias: Tensor | None
    root: Tensor | None


class Addend(NamedTuple):
    """A call of a convolution whose output is added to others.

    Attributes:
        kind: The output's name: the type of the targets.
        name: The relation's name.
        conv: The convolution.
        given: Its arguments.
    """

    kind: str
    name: str
    conv: Any
    given: list[Any]


class Joining(Replaced):
    """What modules that add up the outputs of several convolutions have in common."""

    def joined(self, calls: list[Addend], mean: bool, least: int) -> Any:
        """Returns the sum, or with `mean` the mean, of the outputs of each kind.

        It is None if fewer than `least` calls can be joined, or if an end is out of range.
        """
        if torch.is_autocast_enabled("cpu"):
            return self.refuse("autocast")
        types, alone = self._relations(calls)
        if sum(map(len, types.values())) < least:
            return self.refuse(self.refused or "fewer than two relations")
        factors, outs = dict.fromkeys(types, 1.0), dict.fromkeys(types)
        for kind, relations in types.items():
            if mean:
                factors[kind] = 1 / (len(relations) + sum(one.kind == kind for one in alone))
            if relations:
                outs[kind] = self._output(kind, relations, factors[kind])
                if outs[kind] is None:
                    return self.refuse("edge_index is out of range, or has too many edges")
        for one in alone:
            out, before = _times(one.conv(*one.given), factors[one.kind]), outs[one.kind]
            if before is not None and before.shape != out.shape:
                torch.stack([before, out])  # raises PyG's error
            outs[one.kind] = out if before is None else before + out
        return outs

    def _relations(self, calls: list[Addend]) -> tuple[dict[str, list[_Relation]], list[Addend]]:
        """Returns the relations that are joined, by kind, and the calls of others."""
        types: dict[str, list[_Relation]] = {}
        alone: list[Addend] = []
        matrices: dict[int, _Matrix] = {}
        for one in calls:
            others = types.setdefault(one.kind, [])
            relation = _checked(one.conv, one.given, others, matrices)
            if isinstance(relation, str):
                self.refuse(f"{one.name}: {relation}")
                alone.append(one)
            else:
                others.append(relation)
                one.conv.accept()
        return types, alone

    def _output(self, kind: str, relations: list[_Relation], factor: float) -> Any:
        """Returns `factor` times the sum of `relations` into the type `kind`; None if an end is out of range."""
        rows, tensors, target = _joint(relations, factor)
        level = max(one.level if isinstance(one, LazyRows) else 0 for one in rows)
        known = _known(relations[0].edge_index, level, target.num_dst) if may_wait() else None
        if known is not None:
            limit = target.num_dst if self.reads_all(kind) else known
            target = target.copied()
            if limit:
                out = target.output([one.part if isinstance(one, LazyRows) else one for one in rows], tensors, limit)
            else:
                out = _NoRows.apply(relations[0].weight.shape[0], *rows, *tensors)  # type: ignore[no-untyped-call]
            if out is not None:
                note_read = partial(self.note_read, kind)
                return joined(out, target.num_dst, target.output, rows, tensors, level + 1, note_read)
        return target.output([one.whole() if isinstance(one, LazyRows) else one for one in rows], tensors)


class HeteroConv(pyg.HeteroConv, Joining):  # type: ignore[misc]  # PyG's classes have no types
    """PyG's `HeteroConv`."""

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        return None if self.aggr in ("sum", "mean") else f"aggr={self.aggr!r}"

    def forward(self, *args_dict: Any, **kwargs_dict: Any) -> dict[str, Tensor]:
        """Returns the output of each type; arguments as for PyG's."""
        outs = None
        if not is_traced():
            self.accept()
            outs = self._outputs(args_dict, kwargs_dict)
        return super().forward(*args_dict, **kwargs_dict) if outs is None else outs  # type: ignore[no-any-return]

    def _outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the output of each type, or None if no relations are joined."""
        reason = self.unsupported()
        if len(args) + len(kwargs) != 2 or set(kwargs) != {*_ARGUMENTS[len(args) :]}:
            reason = reason or "arguments other than x_dict and edge_index_dict"
        if reason is not None:
            return self.refuse(reason)
        dicts, calls = [*args, *(kwargs[name] for name in _ARGUMENTS[len(args) :])], []
        for key, conv in self.convs._modules.items():
            edge_type = _edge_type(key)
            given = _arguments(edge_type, dicts)
            if given is not None:
                calls.append(Addend(edge_type[2], "__".join(edge_type), conv, given))
        return self.joined(calls, self.aggr == "mean", least=2)


class _Group(NamedTuple):
    """Relations into one type that are aggregated together.

    Attributes:
        aggr: PyG's name of the aggregation.
        sources: For each relation, the place of its source among the rows.
        edges: All edges, in one tensor per relation or in one for all.
        sizes: For each relation, its number of edges.
    """

    aggr: str
    sources: list[int]
    edges: list[Tensor]
    sizes: list[int]

    def plan(self, num_src: list[int], rows: list[Tensor], limits: tuple[int, int], out_channels: int) -> Any:
        """Returns the plan for the first targets, built once for unchanged edges; None if it can't be.

        Args:
            num_src: Number of rows in all, for each of `rows`.
            rows: The rows, or first rows.
            limits: Number of targets, and of those in the plan.
            out_channels: Width of the output.
        """
        each = zip(self.sizes, self.sources, strict=True)
        table = np.array([(size, one, num_src[one], rows[one].shape[0]) for size, one in each], dtype=np.int64)
        if size_reason(sum(self.sizes) + table[:, 3].sum(), 0, limits[0] * len(self.sizes)) is not None:
            return None
        x, trains = rows[self.sources[0]], torch.is_grad_enabled()
        costs = _costs(x.shape[1], out_channels, trains, trains and x.requires_grad, self.aggr != "max")
        first, *others = map(known_edges, self.edges)
        key = self.aggr, table.tobytes(), limits, costs, x.dtype
        held, plan = first.derived.get(key, ((), None))
        if plan is None or any(one is not other for one, other in zip(held, others, strict=True)):
            plan = _plan_of(self, table, len(rows), limits, costs, array_of(x[:0]).dtype)
            first.derived[key] = others, plan
        return plan


class _Joint(NamedTuple):
    """Relations into one type.

    Attributes:
        num_dst: Number of targets.
        num_src: For each matrix of rows, its number of rows.
        groups: The relations, by kind.
    """

    num_dst: int
    num_src: list[int]
    groups: list[_Group]

    def copied(self) -> _Joint:
        """Returns this with copies of the edges, which nobody changes."""
        return self._replace(groups=[one._replace(edges=[torch.cat(one.edges, dim=1)]) for one in self.groups])

    def output(self, rows: list[Any], tensors: Sequence[Any], limit: int | None = None) -> Any:
        """Returns the output of the first `limit` targets, or of all; None if an end is out of range.

        Args:
            rows: The sources' rows, one matrix after another, and the targets' own; the first rows may do.
            tensors: Each group's maps, shape (num_relations, out_channels, in_channels); then the map of own rows and
                the bias, or None.
            limit: Number of targets.
        """
        limit, rows = self.num_dst if limit is None else limit, list(rows)
        *weights, root, bias = tensors
        own: Any = rows.pop() if root is not None else None
        for place, one in enumerate(rows):
            if one is own:
                rows[place], own = split(one, limit)
        parts = []
        for group, weight in zip(self.groups, weights, strict=True):
            plan = group.plan(self.num_src, rows, (self.num_dst, limit), weight.shape[1])
            if plan is None:
                return None
            parts.append(plan.output(rows, group.aggr, weight))
        if own is not None:
            parts.append(mapped(own if own.shape[0] == limit else own[:limit], root, bias))
        elif bias is not None:
            parts.append(bias)
        return reduce(Tensor.add_, parts)


def _joint(relations: list[_Relation], factor: float) -> tuple[list[Tensor], list[Any], _Joint]:
    """Returns the rows and tensors of `_Joint.output`, and what it is a method of, for `factor` times the output."""
    kinds: dict[Any, list[_Relation]] = {}
    for one in relations:
        kinds.setdefault((one.aggr, one.source.width, one.source.needs_gradient), []).append(one)
    matrices: list[_Matrix] = []
    tensors: list[Any] = []
    places, groups = {}, []
    for (aggr, _, _), of_kind in kinds.items():
        for one in of_kind:
            if id(one.source) not in places:
                places[id(one.source)] = len(matrices)
                matrices.append(one.source)
        edges = [one.edge_index for one in of_kind]
        sources = [places[id(one.source)] for one in of_kind]
        groups.append(_Group(aggr, sources, edges, [one.shape[1] for one in edges]))
        tensors.append(_times(torch.stack([one.weight for one in of_kind]), factor))
    own = relations[0].own
    target = _Joint(own.num_rows, [one.num_rows for one in matrices], groups)
    roots = [one.root for one in relations if one.root is not None]
    biases = [one.bias for one in relations if one.bias is not None]
    tensors += [_times(_Sum.apply(*some), factor) if some else None for some in (roots, biases)]  # type: ignore[no-untyped-call]
    return [one.rows for one in matrices + [own] * bool(roots)], tensors, target


def _times(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


def _known(edge_index: Tensor, level: int, num_dst: int) -> int | None:
    """Returns how many targets later layers need, which are the first, in a mini-batch of `Loader`; None if unknown.

    Args:
        edge_index: A relation's.
        level: How many convolutions its rows come from.
        num_dst: Number of targets.
    """
    sizes = known_edges(edge_index).target_sizes
    hops = len(sizes) - 1 - level
    return sizes[hops - 1] if hops > 0 and sizes[-1] == num_dst else None


@cache
def _edge_type(key: str) -> Any:
    """Returns the relation of a name in PyG's `ModuleDict`."""
    return ModuleDict.to_external_key(key)


def _arguments(edge_type: tuple[str, str, str], dicts: Sequence[Any]) -> list[Any] | None:
    """Returns the arguments of a relation's convolution as PyG finds them; None if it has no edges and isn't called."""
    source, _, target = edge_type
    found, is_called = [], False
    for values in dicts:
        if edge_type in values:
            is_called = True
            found.append(values[edge_type])
        elif source == target and source in values:
            found.append(values[source])
        elif source in values or target in values:
            found.append((values.get(source), values.get(target)))
    return found if is_called else None


def _checked(conv: Any, given: list[Any], others: list[_Relation], matrices: dict[int, _Matrix]) -> _Relation | str:
    """Returns the call of `conv` with `given`, or why it can't be joined.

    Args:
        conv: The convolution.
        given: Its arguments.
        others: Calls that it is joined with.
        matrices: All matrices so far, by their id.
    """
    if type(conv) not in JOINED:
        return f"{type(conv).__name__} is not joined"
    if len(given) != 2 or conv._compiled_call_impl is not None or has_hooks(conv):
        return "hooks, torch.compile or other arguments"
    if conv.__dict__.get("normalize") or conv.__dict__.get("project"):
        return "normalize or project"
    x = given[0] if isinstance(given[0], tuple | list) else (given[0], given[0])
    if len(x) != 2 or x[1] is None:
        return "no rows of targets"
    for one in x:
        if id(one) not in matrices:
            matrices[id(one)] = _Matrix.of(one)
    source, own = (matrices[id(one)] for one in x)
    reason = conv.unsupported() or source.reason or own.reason or edges_reason(given[1])
    if reason is not None or source.is_sparse:
        return reason or "x of mostly zeros"
    for_source, for_own = JOINED[type(conv)]
    weight, bias = _parameters(conv._modules[for_source])
    root = _parameters(getattr(conv, for_own))[0] if conv.__dict__.get("root_weight", True) else None
    widths = weight.shape[1], own.width if root is None else root.shape[1]
    if widths != (source.width, own.width):
        return f"x has {source.width} columns"
    if not source.dtype is own.dtype is weight.dtype or any(
        one is not None and one.dtype is not weight.dtype for one in (bias, root)
    ):
        return f"x of {source.dtype} with other parameters"
    if others and (own is not others[0].own or weight.shape[0] != others[0].weight.shape[0]):
        return "other targets or columns than those of another relation into the type"
    return _Relation(source, own, given[1], "sum" if conv.aggr == "add" else conv.aggr, weight, bias, root)


def _parameters(lin: Any) -> tuple[Tensor, Tensor | None]:
    """Returns the weight and bias of a linear map, in less time than its attributes take."""
    found = lin._parameters
    return (found["weight"], found["bias"]) if "weight" in found else (lin.weight, lin.bias)


@cache
def _costs(width: int, out_channels: int, trains: bool, needs_input: bool, is_linear: bool) -> tuple[float, ...]:
    """Returns the costs of `join_relations`; only a linear aggregation may come after the map."""
    units = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    source, target, edge = (LayerShapes(*one, False, trains, needs_input) for one in units)
    first = [one.map_first(width, out_channels) if is_linear else math.inf for one in (source, edge)]
    return *map(float, first), *(float(one.aggregate_first(width, out_channels)) for one in (source, target, edge))


@dataclass(frozen=True, eq=False)
class _Plan:
    """How relations into one type are summed; see `join_relations`.

    Attributes:
        joint: The matrices whose rows are joined.
        sums: From joint rows to sums, relation after relation.
        mapped: The matrices whose rows are mapped.
        places: For each relation, its matrix among `mapped`, or -1 if its sums are mapped.
        sizes: For each relation, its number of mapped rows.
        slots: From mapped rows to targets.
        weights: The weight of each slot; None for ones.
    """

    joint: list[int]
    sums: EdgeGraph
    mapped: list[int]
    places: list[int]
    sizes: list[int]
    slots: EdgeGraph
    weights: Tensor | None

    def output(self, rows: list[Tensor], aggr: str, weight: Tensor) -> Tensor:
        """Returns the sum of the targets' mapped rows, shape (num_dst, out_channels).

        Args:
            rows: Matrices of sources' rows.
            aggr: PyG's name of the aggregation.
            weight: Maps of the relations, shape (num_relations, out_channels, in_channels).
        """
        x = rows[self.joint[0]] if self.joint else rows[self.mapped[0]].detach()[:0]
        if len(self.joint) > 1:
            x = torch.cat([rows[place] for place in self.joint])
        sums = convs.aggregate(self.sums, x, aggr, None, x.dtype) if self.joint else x
        args = self, weight, sums, *(rows[place] for place in self.mapped)
        mapped: Tensor = _Mapped.apply(*args)  # type: ignore[no-untyped-call]
        return neighbor_sum(self.slots, mapped, self.weights)

    def parts(self, sums: Tensor, rows: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yields the rows that each relation maps: its sums, or its sources' rows."""
        of_sums = iter(
            torch.split(sums, [size for size, place in zip(self.sizes, self.places, strict=True) if place < 0])
        )
        return (next(of_sums) if place < 0 else rows[place] for place in self.places)


def _plan_of(
    group: _Group, table: NDArray[np.int64], matrices: int, limits: tuple[int, int], costs: Any, dtype: np.dtype[Any]
) -> _Plan | None:
    """Returns the plan of `_Group.plan`; `table`, `limits` and `costs` are arguments of `join_relations`."""
    both = group.edges[0] if len(group.edges) == 1 else torch.cat(group.edges, dim=1)
    ends, size = tuple(both[i].contiguous().numpy() for i in range(2)), both.shape[1]
    indptr, indices, nodes, mapped = (np.empty(size + one, dtype=np.int32) for one in (1, 0, 0, 0))
    weights, bases = np.empty(size, dtype=dtype), np.empty(matrices, dtype=np.int64)
    maps_first, table = np.empty(len(table), dtype=np.bool_), table.copy()
    present, averages = table[:, 3].copy(), group.aggr == "mean"
    written = (indptr, indices, bases), (nodes, mapped, weights), maps_first
    sums, slots = join_relations(ends, table, limits, costs, averages, *written)
    if sums < 0:
        return None
    starts, order = order_of(nodes[:slots], limits[1])
    joint = [place for place in np.argsort(bases, kind="stable").tolist() if bases[place] >= 0]
    num_src = sum(int(present[group.sources.index(place)]) for place in joint)
    sources = list(dict.fromkeys(one for one, first in zip(group.sources, maps_first, strict=True) if first))
    return _Plan(
        joint,
        EdgeGraph(indptr[: sums + 1], indices[: indptr[sums]], _NO_SLOTS, num_src),
        sources,
        [sources.index(one) if first else -1 for one, first in zip(group.sources, maps_first, strict=True)],
        table[:, 3].tolist(),
        EdgeGraph(starts, mapped[order], order, int(table[:, 3].sum())),
        torch.from_numpy(weights[:slots]) if sources and averages else None,
    )


class _Mapped(torch.autograd.Function):
    """The mapped rows of all relations."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, weights: Tensor, sums: Tensor, *rows: Tensor) -> Tensor:
        ctx.plan = plan
        ctx.save_for_backward(weights, sums, *rows)
        out = sums.new_empty(sum(plan.sizes), weights.shape[1])
        for x, weight, part in zip(plan.parts(sums, rows), weights, torch.split(out, plan.sizes), strict=True):
            if x.shape[0]:
                torch.mm(x, weight.t(), out=part)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plan, inputs, needed = ctx.plan, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            return None, *gradients(partial(_mapped_by_torch, plan), inputs, needed, grad)
        weights, sums, *rows = inputs
        by_weights = torch.zeros_like(weights) if needed[0] else None
        by_rows = [torch.zeros_like(one) if asked else None for one, asked in zip(inputs[1:], needed[1:], strict=True)]
        # Sums without a gradient stand for themselves, and aren't written.
        written = [x if by_x is None else by_x for x, by_x in zip(inputs[1:], by_rows, strict=True)]
        each = (
            torch.split(grad, plan.sizes),
            weights,
            plan.parts(sums, rows),
            plan.parts(written[0], written[1:]),
            plan.places,
        )
        for i, (part, weight, x, by_x, place) in enumerate(zip(*each, strict=True)):
            if not x.shape[0]:
                continue
            if by_weights is not None:
                torch.mm(part.t(), x, out=by_weights[i])
            if by_rows[place + 1] is not None:  # sources may be mapped by several relations
                by_x.addmm_(part, weight, beta=float(place >= 0))
        return None, by_weights, *by_rows


def _mapped_by_torch(plan: _Plan, weights: Tensor, sums: Tensor, *rows: Tensor) -> Tensor:
    """Returns `_Mapped`."""
    return torch.cat([x @ weight.t() for x, weight in zip(plan.parts(sums, rows), weights, strict=True)])


class _Sum(torch.autograd.Function):
    """The sum of some parameters. Each has a gradient of its own, because loops add to gradients in place."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        return torch.stack(inputs).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(grad.clone() if needed else None for needed in ctx.needs_input_grad)


class _NoRows(torch.autograd.Function):
    """No rows of an output, whose gradients are zeros."""

    @staticmethod
    def forward(ctx: Any, width: int, *inputs: Any) -> Tensor:
        ctx.shapes = [None if one is None else one.shape for one in inputs]
        return torch.empty(0, width, dtype=inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        asked = zip(ctx.shapes, ctx.needs_input_grad[1:], strict=True)
        return None, *(grad.new_zeros(shape) if needed else None for shape, needed in asked)


#: The class that replaces each of PyG's.
NATIVE: dict[type, Any] = {**convs.NATIVE, pyg.HeteroConv: HeteroConv}

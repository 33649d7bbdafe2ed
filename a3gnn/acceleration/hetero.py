"""PyG's `HeteroConv` with one aggregation of all relations into a type; see `a3gnn.acceleration.convs`.

The output of a type is the sum over its relations of a linear map of each target's aggregate, and of a linear map of
its own row. All non-empty rows of the relations are one CSR over the joint rows of the sources, which is aggregated in
one pass. The maps of own rows are added up before they are applied, and so are the biases.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.nn import conv as pyg
from torch_geometric.nn.module_dict import ModuleDict

from a3gnn.acceleration import convs
from a3gnn.acceleration.calls import Replaced, all_hooks, edges_reason, has_hooks, rows_reason
from a3gnn.acceleration.functions import maxima, maxima_gradient, neighbor_sum, write_sums
from a3gnn.acceleration.graph import EdgeGraph, size_reason
from a3gnn.acceleration.lazy_rows import LazyRows, joined, may_wait
from a3gnn.acceleration.sparse_inputs import sparse_rows
from a3gnn.acceleration.twice import mapped
from a3gnn.kernels.edges import join_relations, order_of
from a3gnn.models.layers.compiled import gradients, is_traced, sum_dtype
from a3gnn.models.layers.layer import LayerShapes
from a3gnn.pipeline.known_edges import known_edges

#: Supported convolutions, and their linear maps of aggregates and of own rows.
JOINED: dict[type, tuple[str, str]] = {convs.SAGEConv: ("lin_l", "lin_r"), convs.GraphConv: ("lin_rel", "lin_root")}
_ARGUMENTS = ("x_dict", "edge_index_dict")
_OTHER = "hooks, torch.compile or other arguments"
_NO_SLOTS = np.empty(0, dtype=np.int32)


class _Matrix(NamedTuple):
    """Rows of sources or targets, and facts about them, which are read once per call: `LazyRows` take long to tell."""

    rows: Any
    reason: str | None  # why kernels can't read them, or None. Then the rest is unknown
    num_rows: int = 0
    width: int = 0
    dtype: torch.dtype | None = None
    needs_gradient: bool = False
    is_sparse: bool = False  # whether they are mostly zeros

    @classmethod
    def of(cls, rows: Any) -> _Matrix:
        """Returns the facts about `rows`."""
        reason = rows_reason(rows)
        if reason is not None or rows.dtype not in (torch.float32, torch.float64, torch.bfloat16):
            return cls(rows, reason or f"x of {rows.dtype}")
        is_sparse = not isinstance(rows, LazyRows) and sparse_rows(rows) is not None
        num_rows, width = rows.shape
        return cls(rows, None, num_rows, width, rows.dtype, rows.requires_grad, is_sparse)


class _Relation(NamedTuple):
    """A checked call of a relation's convolution."""

    source: _Matrix  # the sources' rows
    own: _Matrix  # the targets' rows
    edge_index: Tensor
    aggr: str  # PyG's name of the aggregation
    weight: Tensor  # map of the aggregates
    bias: Tensor | None  # bias, or None
    root: Tensor | None  # map of own rows, or None


class Addend(NamedTuple):
    """A call of a convolution whose output is added to others."""

    kind: str  # the output's name: the type of the targets
    name: str  # the relation's name
    conv: Any  # the convolution
    given: list[Any]  # its arguments


class Joining(Replaced):
    """What modules that add up the outputs of several convolutions have in common."""

    def joined(self, calls: list[Addend], mean: bool, least: int) -> Any:
        """Returns the sum, or with `mean` the mean, of the outputs of each kind.

        It is None if fewer than `least` calls can be joined, or if an end is out of range.
        """
        narrow = torch.get_autocast_dtype("cpu")
        if torch.is_autocast_enabled("cpu") and narrow is not torch.bfloat16:
            return self.refuse(f"autocast to {narrow}")
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
        seen = _seen.setdefault(self, {})
        for one in calls:
            others = types.setdefault(one.kind, [])
            known = _seen_of(one.conv, seen, one.name)
            relation = known if isinstance(known, str) else _checked(known, one.given, others, matrices)
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
                width = relations[0].weight.shape[0]
                out = _NoRows.apply(width, target.dtype, *rows, *tensors)  # type: ignore[no-untyped-call]
            if out is not None:
                note_read = partial(self.note_read, kind)
                return joined(out, target.num_dst, target.output, rows, tensors, level + 1, note_read, is_fresh=True)
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
    """Relations into one type that are aggregated together."""

    aggr: str  # PyG's name of the aggregation
    sources: list[int]  # for each relation, the place of its source among the rows
    edges: list[Tensor]  # all edges, in one tensor per relation or in one for all
    sizes: list[int]  # for each relation, its number of edges
    is_copy: bool = False  # whether nobody else has the edges, so that no plan is kept

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
        if self.is_copy:
            return _plan_of(self, table, len(rows), limits, costs, sum_dtype(x))
        first, *others = map(known_edges, self.edges)
        key = self.aggr, table.tobytes(), limits, costs, x.dtype
        held, plan = first.derived.get(key, ((), None))
        if plan is None or any(one is not other for one, other in zip(held, others, strict=True)):
            plan = _plan_of(self, table, len(rows), limits, costs, sum_dtype(x))
            first.derived[key] = others, plan
        return plan


class _Joint(NamedTuple):
    """Relations into one type."""

    num_dst: int
    num_src: list[int]  # for each matrix of rows, its number of rows
    groups: list[_Group]  # the relations, by kind
    own: int | None  # the place of the targets' own rows among the matrices, or None
    dtype: torch.dtype  # type of the output

    def copied(self) -> _Joint:
        """Returns this with copies of the edges, which nobody changes."""
        groups = [one._replace(edges=[torch.cat(one.edges, dim=1)], is_copy=True) for one in self.groups]
        return self._replace(groups=groups)

    def output(self, rows: list[Any], given: Sequence[Any], limit: int | None = None) -> Any:
        """Returns the output of the first `limit` targets, or of all; None if an end is out of range.

        Args:
            rows: The sources' rows, one matrix after another, and the targets' own; the first rows may do.
            given: Each group's maps, shape (num_relations, out_channels, in_channels); then the map of own rows and
                the bias, or None.
            limit: Number of targets.
        """
        limit, plans = self.num_dst if limit is None else limit, []
        rows = [one.to(self.dtype) for one in rows]
        tensors: list[Any] = [None if one is None else one.to(self.dtype) for one in given]
        for group, weight in zip(self.groups, tensors, strict=False):
            plan = group.plan(self.num_src, rows, (self.num_dst, limit), weight.shape[1])
            if plan is None:
                return None
            plans.append(plan)
        *tensors, root, bias = tensors
        own = None if self.own is None else rows[self.own]
        by_entries = own is not None and sparse_rows(own) is not None
        inputs = *rows, *tensors, None if by_entries else root, bias
        out: Tensor = _Total.apply(_Steps(plans, self.own, limit), *inputs)  # type: ignore[no-untyped-call]
        return out.add_(mapped(own[:limit], root)) if own is not None and by_entries else out


def _joint(relations: list[_Relation], factor: float) -> tuple[list[Tensor], list[Any], _Joint]:
    """Returns the rows and tensors of `_Joint.output`, and what it is a method of, for `factor` times the output."""
    kinds: dict[Any, list[_Relation]] = {}
    for one in relations:
        kinds.setdefault((one.aggr, one.source.width, one.source.needs_gradient), []).append(one)
    places: dict[int, int] = {}
    matrices: list[_Matrix] = []

    def place(matrix: _Matrix) -> int:
        if id(matrix) not in places:
            places[id(matrix)] = len(matrices)
            matrices.append(matrix)
        return places[id(matrix)]

    tensors: list[Any] = []
    groups = []
    for (aggr, _, _), of_kind in kinds.items():
        edges, sources = [one.edge_index for one in of_kind], [place(one.source) for one in of_kind]
        groups.append(_Group(aggr, sources, edges, [one.shape[1] for one in edges]))
        tensors.append(_times(torch.stack([one.weight for one in of_kind]), factor))
    first = relations[0]
    roots = [one.root for one in relations if one.root is not None]
    biases = [one.bias for one in relations if one.bias is not None]
    tensors += [None if one is None else _times(one, factor) for one in _Sums.apply(len(roots), *roots, *biases)]  # type: ignore[no-untyped-call]
    own = place(first.own) if roots else None
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else first.weight.dtype
    num_src = [one.num_rows for one in matrices]
    return [one.rows for one in matrices], tensors, _Joint(first.own.num_rows, num_src, groups, own, dtype)


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


class _Seen(NamedTuple):
    """A convolution that can be joined, for as long as it holds the same objects."""

    held: list[Any]  # what it and its parts hold
    hooks: list[Any]  # all hooks that must stay empty
    aggr: str  # PyG's name of the aggregation
    lin: Any  # the linear map of aggregates
    own: Any  # the linear map of own rows, or None


#: By the module that adds up the outputs, and by the relation's name.
_seen: MutableMapping[Any, dict[str, _Seen]] = weakref.WeakKeyDictionary()


def _held(conv: Any) -> list[Any]:
    """Returns the attributes of a module and its parts; another one differs after any was replaced."""
    held = [conv, type(conv), *conv.__dict__.values()]
    for part in conv.__dict__["_modules"].values():
        held += () if part is None else (part, type(part), *part.__dict__.values())
    return held


def _seen_of(conv: Any, seen: dict[str, _Seen], name: str) -> _Seen | str:
    """Returns what is known of `conv`, which was `seen` before or is from now on; or why it can't be joined."""
    held, known = _held(conv), seen.get(name)
    if known and len(held) == len(known.held) and all(map(is_, held, known.held)) and not any(known.hooks):
        return known
    if type(conv) not in JOINED:
        return f"{type(conv).__name__} is not joined"
    if conv._compiled_call_impl is not None or has_hooks(conv):
        return _OTHER
    if conv.__dict__.get("normalize") or conv.__dict__.get("project"):
        return "normalize or project"
    reason: str | None = conv.unsupported()
    if reason is not None:
        return reason
    for_source, for_own = JOINED[type(conv)]
    own = getattr(conv, for_own) if conv.__dict__.get("root_weight", True) else None
    aggr = "sum" if conv.aggr == "add" else conv.aggr
    seen[name] = _Seen(held, all_hooks(conv), aggr, conv._modules[for_source], own)
    return seen[name]


def _checked(conv: _Seen, given: list[Any], others: list[_Relation], matrices: dict[int, _Matrix]) -> _Relation | str:
    """Returns the call of a convolution with `given`, or why it can't be joined.

    Args:
        conv: What is known of the convolution, which could be joined in another call.
        given: Its arguments.
        others: Calls that it is joined with.
        matrices: All matrices so far, by their id.
    """
    if len(given) != 2:
        return _OTHER
    x = given[0] if isinstance(given[0], tuple | list) else (given[0], given[0])
    if len(x) != 2 or x[1] is None:
        return "no rows of targets"
    for one in x:
        if id(one) not in matrices:
            matrices[id(one)] = _Matrix.of(one)
    source, own = (matrices[id(one)] for one in x)
    reason = source.reason or own.reason or edges_reason(given[1])
    if reason is not None or source.is_sparse:
        return reason or "x of mostly zeros"
    weight, bias = _parameters(conv.lin)
    root = None if conv.own is None else _parameters(conv.own)[0]
    channels, width = weight.shape
    if width != source.width or (root is not None and root.shape[1] != own.width):
        return f"x has {source.width} columns"
    if not _fit(source, own, (weight, bias, root)):
        return f"x of {source.dtype} with other parameters"
    if others and (own is not others[0].own or channels != others[0].weight.shape[0]):
        return "other targets or columns than those of another relation into the type"
    return _Relation(source, own, given[1], conv.aggr, weight, bias, root)


def _fit(source: _Matrix, own: _Matrix, parameters: tuple[Any, ...]) -> bool:
    """Returns whether kernels support the types of rows and parameters together; see `_Matrix` and `Joining.joined`."""
    wanted = parameters[0].dtype
    for one in parameters:
        if one is not None and one.dtype is not wanted:
            return False
    if torch.is_autocast_enabled("cpu"):
        return wanted is torch.float32 and torch.float64 not in (source.dtype, own.dtype)
    return source.dtype is own.dtype is wanted is not torch.bfloat16


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
    """How relations into one type are summed; see `join_relations`."""

    aggr: str  # PyG's name of the aggregation
    joint: list[int]  # the matrices whose rows are joined
    present: list[int]  # the number of rows of each of them
    sums: EdgeGraph  # from joint rows to sums, relation after relation
    mapped: list[int]  # the matrices whose rows are mapped
    places: list[int]  # for each relation, the matrix whose rows are mapped, or -1 if its sums are
    sizes: list[int]  # for each relation, its number of mapped rows
    slots: EdgeGraph  # from mapped rows to targets
    weights: Tensor | None  # the weight of each slot; None for ones
    nodes: Tensor | None  # the target of each mapped row, if each has one; else None

    def joined(self, rows: Sequence[Tensor]) -> Tensor:
        """Returns the joint rows of some of the matrices."""
        if len(self.joint) == 1:
            return rows[self.joint[0]]
        return torch.cat([rows[place] for place in self.joint]) if self.joint else rows[self.mapped[0]].detach()[:0]

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sums, or maxima, of joint rows; without autograd."""
        if not self.joint:
            return x
        if self.aggr == "max":
            return maxima(self.sums, x.float() if x.dtype is torch.bfloat16 else x).to(x.dtype)
        sums = x.new_empty(self.sums.num_dst, x.shape[1])
        write_sums(self.sums, x, None, convs.SCALINGS[self.aggr], sums)
        return sums

    def by_rows(self, x: Tensor | None, sums: Tensor, grad: Tensor) -> Tensor:
        """Returns the gradient by joint rows for one by their sums; `x` and `sums` are read for maxima."""
        if x is not None:
            wide = [one.float() if one.dtype is torch.bfloat16 else one for one in (x, sums, grad)]
            return maxima_gradient(self.sums, *wide).to(x.dtype)
        by_x = grad.new_empty(self.sums.num_src, grad.shape[1])
        write_sums(self.sums, grad, None, convs.SCALINGS[self.aggr], by_x, backward=True)
        return by_x

    def by_mapped(self, grad: Tensor) -> Tensor:
        """Returns the gradient by mapped rows for one by the targets' sums of them."""
        if self.nodes is not None:
            return grad.index_select(0, self.nodes)
        out = grad.new_empty(self.slots.num_src, grad.shape[1])
        write_sums(self.slots, grad, self.weights, "sum", out, backward=True)
        return out

    def parts(self, sums: Tensor, rows: Sequence[Any]) -> Iterator[Any]:
        """Yields the rows that each relation maps: its sums, or its sources' rows."""
        each = [*zip(self.sizes, self.places, strict=True)]
        of_sums = iter(torch.split(sums, [size for size, place in each if place < 0]))
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
    counts = [int(present[group.sources.index(place)]) for place in joint]
    sources = list(dict.fromkeys(one for one, first in zip(group.sources, maps_first, strict=True) if first))
    return _Plan(
        group.aggr,
        joint,
        counts,
        EdgeGraph(indptr[: sums + 1], indices[: indptr[sums]], _NO_SLOTS, sum(counts)),
        sources,
        [one if first else -1 for one, first in zip(group.sources, maps_first, strict=True)],
        table[:, 3].tolist(),
        EdgeGraph(starts, mapped[order], order, int(table[:, 3].sum())),
        torch.from_numpy(weights[:slots]) if sources and averages else None,
        None if sources else torch.from_numpy(nodes[:slots]),
    )


class _Steps(NamedTuple):
    """How the output of a type is computed."""

    plans: list[_Plan]  # how relations are summed, by group
    own: int | None
    limit: int  # number of targets

    def parts(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], Any, Any]:
        """Returns the rows, the maps of each group, the map of own rows and the bias in the inputs of `_Total`."""
        count = len(inputs) - 2 - len(self.plans)
        return [*inputs[:count]], [*inputs[count:-2]], inputs[-2], inputs[-1]

    def read(self) -> set[int]:
        """Returns the matrices of rows that gradients read."""
        found = {one for plan in self.plans for one in plan.mapped + plan.joint * (plan.aggr == "max")}
        return found if self.own is None else found | {self.own}


class _Total(torch.autograd.Function):
    """The sum of all relations into a type, of the targets' own mapped rows, and of the bias."""

    @staticmethod
    def forward(ctx: Any, steps: _Steps, *inputs: Any) -> Tensor:
        rows, weights, root, bias = steps.parts(inputs)
        out, kept = None, []
        for plan, weight in zip(steps.plans, weights, strict=True):
            x = plan.joined(rows)
            sums = plan.sum(x)
            mapped = sums.new_empty(sum(plan.sizes), weight.shape[1])
            parts = plan.parts(sums, rows), weight.transpose(1, 2), torch.split(mapped, plan.sizes)
            for part, matrix, written in zip(*parts, strict=True):
                if part.shape[0]:
                    torch.mm(part, matrix, out=written)
            total = mapped.new_empty(steps.limit, mapped.shape[1])
            write_sums(plan.slots, mapped, plan.weights, "sum", total)
            out = total if out is None else out.add_(total)
            kept += [x if plan.aggr == "max" and plan.joint else None, sums]
        assert out is not None, "there is a relation"
        if root is not None:
            out.addmm_(rows[steps.own][: steps.limit], root.t())  # type: ignore[index]
        if bias is not None:
            out += bias
        read = steps.read()
        ctx.steps = steps
        # Others may change before the backward pass; only second derivatives read them.
        ctx.rows = [None if i in read else (one, _version(one)) for i, one in enumerate(rows)]
        held = [one if i in read else None for i, one in enumerate(rows)]
        ctx.save_for_backward(*held, *inputs[len(rows) :], *kept)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        steps, needed = ctx.steps, ctx.needs_input_grad[1:]
        saved = ctx.saved_tensors
        inputs, kept = saved[: len(needed)], saved[len(needed) :]
        if torch.is_grad_enabled():
            if any(one is not None and _version(one[0]) != one[1] for one in ctx.rows):
                raise RuntimeError("rows of a convolution were changed in place before a gradient that reads them")
            whole = [one if other is None else other[0] for one, other in zip(inputs, ctx.rows, strict=False)]
            inputs = *whole, *inputs[len(whole) :]
            return None, *gradients(partial(_total_by_torch, steps), inputs, needed, grad)
        rows, weights, root, bias = steps.parts(inputs)
        by_rows: list[Any] = [None] * len(rows)
        grad, by_weights, by_root = grad.contiguous(), [], None
        for i, (plan, weight) in enumerate(zip(steps.plans, weights, strict=True)):
            asked = needed[len(rows) + i], needed[: len(rows)]
            by_weights.append(_by_group(plan, weight, rows, kept[2 * i : 2 * i + 2], grad, asked, by_rows))
        if root is not None:
            own, place = rows[steps.own], steps.own
            by_root = _product(grad.t(), own[: steps.limit]) if needed[-2] else None
            if needed[place]:
                _add_product(by_rows, place, grad, root, len(own))
        return None, *by_rows, *by_weights, by_root, grad.sum(0) if bias is not None and needed[-1] else None


def _by_group(
    plan: _Plan, weights: Tensor, rows: list[Any], kept: Sequence[Any], grad: Tensor, asked: Any, by_rows: list[Any]
) -> Tensor | None:
    """Returns the gradient by the maps of a group, and adds the ones by its rows to `by_rows`.

    Args:
        plan: How the group is summed.
        weights: The maps.
        rows: Matrices of rows; None for those that gradients don't read.
        kept: Joint rows of maxima, or None, and the sums.
        grad: Gradient by the targets' output.
        asked: Whether a gradient by the maps is needed, and by each of `rows`.
        by_rows: Gradients by `rows` so far; None for zeros.
    """
    (x, sums), (asks_weights, asks_rows) = kept, asked
    by_weights = torch.empty_like(weights) if asks_weights else None
    written_weights = repeat(None) if by_weights is None else by_weights.unbind()
    by_sums = torch.empty_like(sums) if any(asks_rows[one] for one in plan.joint) else None
    of_sums = plan.parts(sums if by_sums is None else by_sums, rows)
    parts = torch.split(plan.by_mapped(grad), plan.sizes), weights.unbind(), plan.parts(sums, rows)
    each = zip(*parts, of_sums, written_weights, plan.sizes, plan.places, strict=False)
    for part, weight, read, written, by_weight, size, place in each:
        if by_weight is not None:
            torch.mm(part.t(), read, out=by_weight) if size else by_weight.zero_()
        if size and place < 0 and by_sums is not None:
            torch.mm(part, weight, out=written)
        elif size and place >= 0 and asks_rows[place]:
            _add_product(by_rows, place, part, weight, size)
    if by_sums is not None:
        for place, part in zip(plan.joint, torch.split(plan.by_rows(x, sums, by_sums), plan.present), strict=True):
            _add(by_rows, place, part)
    return by_weights


def _version(rows: Tensor) -> int:
    return -1 if rows.is_inference() else rows._version


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Returns `a @ b` in their own type, under autocast too."""
    return torch.mm(a, b, out=a.new_empty(a.shape[0], b.shape[1]))


def _add(found: list[Any], place: int, rows: Tensor) -> None:
    """Adds `rows`, which nobody else has, to an entry, where None stands for zeros."""
    found[place] = rows if found[place] is None else found[place].add_(rows)


def _add_product(found: list[Any], place: int, a: Tensor, b: Tensor, num_rows: int) -> None:
    """Adds `a @ b` to the first rows of an entry, which has `num_rows`; None stands for zeros."""
    if found[place] is not None:
        found[place][: len(a)].addmm_(a, b)
        return
    found[place] = a.new_empty(num_rows, b.shape[1])
    found[place][len(a) :].zero_()
    torch.mm(a, b, out=found[place][: len(a)])


def _total_by_torch(steps: _Steps, *inputs: Any) -> Tensor:
    """Returns `_Total`."""
    rows, weights, root, bias = steps.parts(inputs)
    total: Any = 0 if bias is None else bias
    for plan, weight in zip(steps.plans, weights, strict=True):
        x = plan.joined(rows)
        sums = convs.aggregate(plan.sums, x, plan.aggr, None, x.dtype) if plan.joint else x
        parts = zip(plan.parts(sums, rows), weight, strict=True)
        mapped = torch.cat([part @ matrix.t() for part, matrix in parts])
        total = total + neighbor_sum(plan.slots, mapped, plan.weights)
    if root is not None:
        total = total + rows[steps.own][: steps.limit] @ root.t()  # type: ignore[index]
    return total  # type: ignore[no-any-return]


class _Sums(torch.autograd.Function):
    """The sum of some parameters, and that of others; None for none.

    Each has a gradient of its own, because loops add to gradients in place.
    """

    @staticmethod
    def forward(ctx: Any, first: int, *inputs: Tensor) -> tuple[Tensor | None, ...]:
        ctx.sizes = first, len(inputs) - first
        each = inputs[:first], inputs[first:]
        sums = (torch.stack(some).sum(0) if len(some) > 1 else some[0].clone() if some else None for some in each)
        return (*sums,)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        each = zip(grads, ctx.sizes, strict=True)
        return None, *(one for grad, size in each if size for one in grad.repeat(size, *[1] * grad.ndim).unbind())


class _NoRows(torch.autograd.Function):
    """No rows of an output, whose gradients are zeros."""

    @staticmethod
    def forward(ctx: Any, width: int, dtype: torch.dtype, *inputs: Any) -> Tensor:
        ctx.facts = [None if one is None else (one.shape, one.dtype) for one in inputs]
        return torch.empty(0, width, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        asked = zip(ctx.facts, ctx.needs_input_grad[2:], strict=True)
        zeros = (grad.new_zeros(one[0], dtype=one[1]) if needed else None for one, needed in asked)
        return None, None, *zeros


#: The class that replaces each of PyG's.
NATIVE: dict[type, Any] = {**convs.NATIVE, pyg.HeteroConv: HeteroConv}

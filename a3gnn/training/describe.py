"""`described`: adds a description of the user's model (`own`) to a task."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from a3gnn.errors import ModelError, UsageError
from a3gnn.features.row_table import AGGREGATORS, input_width
from a3gnn.graphs.edge_values import num_edge_columns
from a3gnn.graphs.graph import Graph
from a3gnn.models.input_rows import InputRows
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.inputs import Extent, Inputs, squared
from a3gnn.models.own.sources import Sources
from a3gnn.models.own.user_model import UserModel, ValuedEdges
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.csr_tensor import csr
from a3gnn.task import Aggregates, OwnCost, OwnModel, Task
from a3gnn.training.own_loop import accelerated

#: Bytes of an edge in edge_index: two int64. An adjacency takes about as many: one int64 and a float32.
_EDGE_BYTES = 16
#: Bytes of an edge for kernels: edge_index, and two int32 of its CSR.
_KERNEL_EDGE_BYTES = 24.0
#: Accelerated convolutions that only sum rows over edges.
_SUMS = ("SAGEConv", "GraphConv", "GINConv", "GCNConv")
#: Seeds of the mini-batch for the cost counts. Guess.
SEEDS = 256


def described(task: Task, graph: Graph) -> Task:
    """Returns `task` with a current `own`: imports, builds and accelerates the model, and calls it on a mini-batch.

    A task of a built-in model is returned unchanged.

    Raises:
        UsageError: There is no such factory.
        ModelError: The model can't be imported, built or called by the contract in `docs/reference/own_models.md`; the
            message has the traceback.
    """
    if not task.is_own:
        return task
    factory, imported = Factory.of(task.model), set(sys.modules)
    module = factory.build_for(task, graph.in_channels, graph.num_classes)
    outputs = graph.num_classes if graph.links is None else 0  # rows of any width
    model = UserModel.of(factory.name, module, graph.target_type).on(graph.edge_values)
    subgraph = _sampled(task, graph, model)
    inputs, extent = squared(graph, subgraph, model.takes, torch.device("cpu"), model.edge_values)
    inputs = inputs.taken_by(module)
    try:
        with torch.random.fork_rng(devices=[]):
            cost = counted(model, inputs, extent, subgraph.num_seeds, outputs)
            found = accelerated(model)
            if found and all(layer.reason is None and layer.layer in _SUMS for layer in found):
                cost = by_kernels(cost)
            aggregates = _table(model, inputs, subgraph.num_seeds, outputs)
    except ModelError:
        raise
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        call = ", ".join(("x", model.takes, *model.edge_values))
        raise ModelError(f"{factory.name}: calling forward({call}) raised an exception:\n{trace}") from error
    sources = Sources.of(factory.module)
    sources.check(imported)
    native = sum(layer.reason is None for layer in found)
    own = OwnModel(
        sources.hash,
        model.shapes,
        model.takes,
        aggregates,
        cost,
        native=native,
        edge_values=model.edge_values,
        edge_dim=num_edge_columns(graph.edge_values, model.edge_values),
    )
    return dataclasses.replace(task, own=own)


def _sampled(task: Task, graph: Graph, model: UserModel) -> Subgraph:
    """Returns a mini-batch of train seeds, with times of the last ones after all edges."""
    edges = graph.placed_edges if model.edge_values else graph.edges
    times = edges.times is not None
    sampler = Sampler(edges, task.fanouts, seed=task.seed, disjoint=times, last=times)
    seeds = graph.nodes_of(graph.train_ids[-SEEDS:] if times else graph.train_ids[:SEEDS])
    until = np.full(len(seeds), len(edges.times.distinct), dtype=np.int32) if edges.times is not None else None
    return sampler.sample(seeds, 0, 0, until)


def redescribed(task: Task, graph: Graph) -> Task:
    """Returns `task` with a description of the model that a search's arguments make; others are returned unchanged."""
    if task.own is None or task.own.shapes:
        return task
    found = described(task, graph)
    assert found.own is not None
    own = dataclasses.replace(
        found.own, repeats=task.own.repeats, sampled=task.own.sampled, pass_bytes=task.own.pass_bytes
    )
    return dataclasses.replace(found, own=own)


def by_kernels(cost: OwnCost) -> OwnCost:
    """Returns the cost of a model all of whose convolutions are sums by kernels, from its cost by PyG's code.

    Kernels read the rows that PyG's code writes for each edge.
    """
    read = max(cost.edge_bytes - _KERNEL_EDGE_BYTES, 0)
    return dataclasses.replace(
        cost, edge_bytes=min(cost.edge_bytes, _KERNEL_EDGE_BYTES), edge_reads=round(cost.edge_reads + read, 3)
    )


def _table(model: UserModel, inputs: Inputs, seeds: int, classes: int) -> Aggregates | None:
    """Returns the aggregation of the table that the model can read in place of `x`, by a trial; None if it can't.

    A model that takes adjs declares it.
    """
    if model.takes == "adjs" or model.target:
        return model.aggregates
    nodes, features = inputs.x.shape
    edges = inputs.structure.edge_index if isinstance(inputs.structure, ValuedEdges) else inputs.structure
    for aggregator in AGGREGATORS:
        rows = InputRows.of(torch.zeros(nodes, input_width(aggregator, features)), aggregator, edges)
        with suppress(UsageError):
            model.outputs(rows, inputs.structure, seeds, classes)
            return aggregator
    return None


def counted(model: UserModel, inputs: Inputs, extent: Extent, seeds: int, classes: int) -> OwnCost:
    """Returns the cost of a forward pass of `model`, from two passes: with all edges of `inputs`, and with half.

    The cost is modeled as linear in nodes and edges; constant work per pass is charged to the nodes. Counts come from
    the operations' shapes and not from timings, so that they are the same wherever the same versions run.

    Args:
        model: On the device of the inputs.
        inputs: The inputs for a mini-batch.
        extent: The mini-batch's nodes and edges.
        seeds: Number of nodes whose outputs are computed.
        classes: Columns of the outputs.
    """
    halved = inputs._replace(structure=_halved(inputs.structure))
    whole, half = (_counts(model, one, seeds, classes) for one in (inputs, halved))
    removed = max(extent.edges - _edges(halved.structure), 1)
    by_edge = [max(all_ - fewer, 0) / removed for all_, fewer in zip(whole, half, strict=True)]
    by_node = [max(all_ - one * extent.edges, 0) / extent.nodes for all_, one in zip(whole, by_edge, strict=True)]
    return OwnCost(
        parameters=model.num_parameters,
        node_flops=round(by_node[0], 3),
        edge_flops=round(by_edge[0], 3),
        node_bytes=round(by_node[1] + inputs.nbytes / extent.nodes, 3),
        edge_bytes=round(by_edge[1] + _EDGE_BYTES, 3),
        edge_reads=round(by_edge[2], 3),
    )


@torch.no_grad()
def _counts(model: UserModel, inputs: Inputs, seeds: int, classes: int) -> tuple[int, int, int]:
    """Returns the counts of `_Counter` in a forward pass in evaluation mode: flops, bytes written, bytes read."""
    training = model.module.training
    model.module.eval()
    try:
        with _Counter() as counter:
            model.outputs(*inputs, seeds, classes)
    finally:
        model.module.train(training)
    return counter.flops, counter.written, counter.read


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts flops of dense products, bytes that operations write, and bytes that sparse products read."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.written = self.read = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        written = [one for one in tree_leaves(found) if isinstance(one, Tensor) and one.layout is torch.strided]
        known = {one.untyped_storage().data_ptr() for one in given if one.layout is torch.strided}
        self.written += sum(one.nbytes for one in written if one.untyped_storage().data_ptr() not in known)
        matrices = [one for one in given if one.layout is torch.sparse_csr]
        if not matrices:
            count = flop_registry.get(getattr(func, "_overloadpacket", None))
            self.flops += 0 if count is None else int(count(*args, **kwargs, out_val=found))
        else:
            width = max((one.shape[1] for one in written if one.ndim == 2), default=0)
            self.read += sum(4 * width * one.values().numel() for one in matrices)
        return found


def _edges(structure: Any) -> int:
    if isinstance(structure, ValuedEdges):
        return _edges(structure.edge_index)
    if isinstance(structure, dict):
        return sum(map(_edges, structure.values()))
    if isinstance(structure, Tensor):
        return int(structure.shape[1])
    return sum(int(one.col_indices().numel()) for one in structure)


def _halved(structure: Any) -> Any:
    """Returns `structure` with only the first half of the edges, by target."""
    if isinstance(structure, ValuedEdges):
        half = _halved(structure.edge_index)
        if isinstance(half, dict):
            of = structure.values.items()
            return ValuedEdges(
                half, {name: {key: one[: half[key].shape[1]] for key, one in part.items()} for name, part in of}
            )
        return ValuedEdges(half, {name: one[: half.shape[1]] for name, one in structure.values.items()})
    if isinstance(structure, dict):
        return {relation: _halved(one) for relation, one in structure.items()}
    if isinstance(structure, Tensor):
        return structure[:, : structure.shape[1] // 2].contiguous()
    kept = []
    for one in structure:
        edges = one.col_indices().numel() // 2
        parts = one.crow_indices().clamp(max=edges), one.col_indices()[:edges], one.values()[:edges]
        kept.append(csr(*parts, tuple(one.shape)))
    return kept

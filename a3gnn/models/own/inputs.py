"""The arguments of a user's model: rows of features, and the edges in the form that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.features.tensors import dense_parts
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.types import Types
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.models.input_rows import InputRows
from a3gnn.models.own.user_model import ValuedEdges
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.known_edges import known_edges, note_target_sizes
from a3gnn.pipeline.pyg_edges import adjacencies, edge_index
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.sampling.typed import TypedSubgraph, by_type
from a3gnn.storage.csr_tensor import csr
from a3gnn.task import Takes


class Inputs(NamedTuple):
    """The arguments of `forward`.

    Attributes:
        x: Features, float32, shape (num_nodes, num_features); with types, a dict of them by type, dense or sparse CSR,
            in which a type without features has the ids of its nodes, int64, shape (num_nodes,).
        structure: edge_index, or every layer's adjacency; with types, a dict of edge_index by relation. If the model
            reads values of edges, `ValuedEdges`; with types, each of its fields has a dict by relation.
    """

    x: Any
    structure: Any

    @property
    def nbytes(self) -> int:
        """Bytes of `x`."""
        rows = self.x.values() if isinstance(self.x, dict) else (self.x,)
        return sum(part.nbytes for one in rows for part in dense_parts(one))

    def taken_by(self, module: nn.Module) -> Inputs:
        """Returns the inputs with dense rows, unless `module` declares that it takes sparse ones (`takes_sparse`)."""
        if not isinstance(self.x, dict) or getattr(module, "takes_sparse", False):
            return self
        return self._replace(x={kind: _dense(one) for kind, one in self.x.items()})

    def to(self, device: torch.device) -> Inputs:
        """Returns the inputs with the tensors of types on `device`; others are there already."""
        if not isinstance(self.x, dict) or device.type == "cpu":
            return self
        x, structure = ({key: one.to(device) for key, one in part.items()} for part in (self.x, _edges(self.structure)))
        if isinstance(self.structure, ValuedEdges):
            values = self.structure.values.items()
            of = {name: {key: one.to(device) for key, one in part.items()} for name, part in values}
            return Inputs(x, ValuedEdges(structure, of))
        return Inputs(x, structure)


class Extent(NamedTuple):
    """Numbers of nodes and edges in a forward pass, as `OwnCost` counts them."""

    nodes: int
    edges: int


def of_batch(batch: MiniBatch, takes: Takes, degrees: Tensor | None = None, types: Types | None = None) -> Inputs:
    """Returns the inputs for a mini-batch of training; `degrees` as for `table_input`, `types` of its graph.

    If its `x` holds rows of a table, a model that takes edge_index gets `InputRows`. For a model that takes adjs, it
    is a table of means, and the input layer's block has one edge per destination, from a source whose row is the mean:
    the mean over one row is the row itself. Sources are the destinations' own rows, then the means.
    """
    if batch.typed is not None:
        return _by_type(batch.typed.view, batch.typed.x, types, batch.edges)
    x = _dense(batch.x)
    if batch.aggregator is None:
        return Inputs(x, _structure(batch.subgraph, batch.indptr, batch.indices, takes, batch.edges))
    if takes == "edge_index":
        edges = edge_index(batch.indptr, batch.indices)
        return Inputs(table_input(batch, edges, degrees), _with_values(edges, batch.edges))
    mean, own = x.chunk(2, dim=1)
    layers = adjacencies(batch.subgraph, batch.indptr, batch.indices)
    return Inputs(torch.cat([own, mean]), [_one_edge_each(len(x), x.device), *layers])


def table_input(batch: MiniBatch, edges: Tensor, degrees: Tensor | None) -> InputRows:
    """Returns the `x` of a mini-batch with rows of a table, and notes the mini-batch's structure with its edges.

    Args:
        batch: Its `x` holds the rows.
        edges: Its `edge_index`.
        degrees: Each node's number of in-neighbors other than itself in the whole graph, if the table is for gcn. Nodes
            without sampled in-neighbors have these degrees, as if their in-neighbors had been sampled in full.
    """
    assert batch.aggregator is not None
    _note(edges, batch.subgraph)
    known = known_edges(edges)
    known.hop_sizes = (*batch.subgraph.hop_sizes, batch.subgraph.num_nodes)  # the input layer's hop adds no nodes
    if degrees is not None:
        last = batch.subgraph.n_id[len(batch.subgraph.indptr) - 1 :]
        known.last_degrees = degrees[torch.from_numpy(last).long()].numpy()
    return InputRows.of(_dense(batch.x), batch.aggregator, edges)


def of_subgraph(
    graph: Graph, subgraph: Subgraph, takes: Takes, device: torch.device, values: Sequence[str] = ()
) -> Inputs:
    """Returns the inputs for a sampled neighborhood in the whole graph, on `device`, with `values` of its edges."""
    if graph.types is not None:
        return of_view(graph, graph.types, by_type(subgraph, graph.types.schema), device, values)
    x = _dense(_rows_of(graph.features, subgraph.n_id, device))
    indptr, indices = (torch.from_numpy(part).to(device) for part in (subgraph.indptr, subgraph.indices))
    found = {name: torch.from_numpy(graph.edge_values[name][subgraph.e_id]).to(device) for name in values}
    return Inputs(x, _structure(subgraph, indptr, indices, takes, found))


def of_graph(graph: Graph, takes: Takes, layers: int, device: torch.device, values: Sequence[str] = ()) -> Inputs:
    """Returns the inputs for the whole graph, as `of_subgraph` does; adjs hold its adjacency once per layer."""
    nodes = graph.num_nodes
    if graph.types is not None:
        ids = np.arange(graph.num_edges, dtype=np.int64) if values else None
        structure = graph.types.rows.astype(np.int32), graph.indices, (nodes,) * 2, ids
        every = Subgraph(np.arange(nodes, dtype=np.int32), *structure)
        return of_view(graph, graph.types, by_type(every, graph.types.schema), device, values)
    rows = FeatureRows(graph.features).read(np.arange(nodes, dtype=np.int32), device)
    x = rows.to_dense() if rows.is_sparse_csr else rows.clone()  # the graph's own memory must not be written
    indptr, indices = (torch.from_numpy(np.array(part)).to(device) for part in (graph.indptr, graph.indices))
    if takes == "edge_index":
        found = {name: torch.from_numpy(np.array(graph.edge_values[name])).to(device) for name in values}
        return Inputs(x, _with_values(edge_index(indptr, indices), found))
    adjacency = csr(indptr, indices.long(), torch.ones(len(indices), device=device), (nodes, nodes))
    return Inputs(x, [adjacency] * layers)


def of_view(graph: Graph, types: Types, view: TypedSubgraph, device: torch.device, values: Sequence[str]) -> Inputs:
    """Returns the inputs for a neighborhood `view` in the whole graph, on `device`, with `values` of its edges."""
    x = [
        None if features is None else _rows_of(features, n_id.astype(np.int32), device)
        for features, n_id in zip(types.features, view.n_id, strict=True)
    ]
    read = {name: torch.from_numpy(graph.edge_values[name][np.concatenate(view.e_id)]) for name in values}
    return _by_type(view, x, types, read).to(device)


def _rows_of(features: DenseFeatures | SparseFeatures, n_id: NDArray[np.int32], device: torch.device) -> Tensor:
    """Returns the rows of distinct `n_id`, in their order, float32, shape (n, num_features), dense or sparse CSR."""
    if isinstance(features, SparseFeatures):
        return FeatureRows(features).read(n_id, device)
    order = np.argsort(n_id)
    x = torch.empty((len(order), features.shape[1]), device=device)
    if len(order):
        x[torch.from_numpy(order).to(device)] = FeatureRows(features).read(n_id[order], device)
    return x


def _dense(rows: Tensor) -> Tensor:
    return rows.to_dense() if rows.is_sparse_csr else rows


def _by_type(
    view: TypedSubgraph, x: Sequence[Tensor | None], types: Types | None, values: Mapping[str, Tensor]
) -> Inputs:
    """Returns the inputs for a neighborhood `view` with the features `x` of each of `types`.

    `values` are those of its edges, relation by relation, in the columns of the widest one.
    """
    assert types is not None, "there are types"
    schema = types.schema
    each = zip(schema.types, x, view.n_id, strict=True)
    found = {kind: torch.from_numpy(n_id) if rows is None else rows.float() for kind, rows, n_id in each}
    lists = [torch.from_numpy(edges) for edges in view.edge_index]
    note_target_sizes(lists, view, schema)
    relations, sizes = [tuple(one) for one in schema.relations], [one.shape[1] for one in lists]
    edges, of = dict(zip(relations, lists, strict=True)), dict[str, Any]()
    for name, rows in values.items():
        parts = zip(relations, types.edge_columns[name], torch.split(rows, sizes), strict=True)
        of[name] = {one: part[:, :width] if part.ndim == 2 else part for one, width, part in parts if width}
    return Inputs(found, ValuedEdges(edges, of) if of else edges)


def _edges(structure: Any) -> Any:
    """Returns the edges of `Inputs.structure`, without values."""
    return structure.edge_index if isinstance(structure, ValuedEdges) else structure


def squared(
    graph: Graph, subgraph: Subgraph, takes: Takes, device: torch.device, values: Sequence[str] = ()
) -> tuple[Inputs, Extent]:
    """Returns the inputs for a pass that computes every layer on all nodes of a sampled neighborhood, and its extent.

    A pass over the whole graph also does so, while adjs of mini-batches have fewer destinations than sources.
    """
    if takes == "edge_index":
        return of_subgraph(graph, subgraph, takes, device, values), extent_of(subgraph, takes)
    layers, nodes, edges = subgraph.num_layers, subgraph.num_nodes, subgraph.num_edges
    indptr = np.concatenate([subgraph.indptr, np.full(nodes + 1 - len(subgraph.indptr), edges)])
    rows, columns = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (indptr, subgraph.indices))
    adjacency = csr(rows, columns, torch.ones(edges, device=device), (nodes, nodes))
    x = of_subgraph(graph, subgraph, takes, device).x
    return Inputs(x, [adjacency] * layers), Extent(layers * nodes, layers * edges)


def extent_of(subgraph: Subgraph, takes: Takes) -> Extent:
    """Returns the nodes and edges in a forward pass on `subgraph`; for adjs an upper bound, which counts sources."""
    if takes == "edge_index":
        return Extent(subgraph.num_nodes, subgraph.num_edges)
    blocks = [subgraph.block(layer) for layer in range(subgraph.num_layers)]
    return Extent(sum(block.num_src for block in blocks), sum(len(block.indices) for block in blocks))


def _structure(subgraph: Subgraph, indptr: Tensor, indices: Tensor, takes: Takes, values: Mapping[str, Tensor]) -> Any:
    if takes == "adjs":
        return adjacencies(subgraph, indptr, indices)
    edges = edge_index(indptr, indices)
    _note(edges, subgraph)
    return _with_values(edges, values)


def _with_values(edges: Tensor, values: Mapping[str, Tensor]) -> Tensor | ValuedEdges:
    return ValuedEdges(edges, dict(values)) if values else edges


def _note(edges: Tensor, subgraph: Subgraph) -> None:
    """Notes the CSR and the hops of `edges` for accelerated layers."""
    if edges.device.type == "cpu":
        known = known_edges(edges)
        known.csr, known.hop_sizes = (subgraph.indptr, subgraph.indices), subgraph.hop_sizes


def _one_edge_each(count: int, device: torch.device) -> Tensor:
    """Returns the adjacency in which destination i has only the source `count` + i, shape (count, 2 count)."""
    places = torch.arange(count + 1, device=device)
    return csr(places, count + places[:-1], torch.ones(count, device=device), (count, 2 * count))

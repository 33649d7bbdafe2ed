"""A graph as a PyG `Data`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch_geometric.nn import SAGEConv

from a3gnn.graphs.features import features_from
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled
from a3gnn.loader.loader import Loader

KINDS = ["tiny_graph", "tiny_folder_graph", "sparse_graph", "labels_graph", "values_graph", "unbalanced_graph"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_graph_comes_back(kind: str, request: pytest.FixtureRequest) -> None:
    graph: Graph = request.getfixturevalue(kind)
    known = graph.test_ids[is_labeled(graph.labels[graph.test_ids])]  # others are refused in a mask
    graph = dataclasses.replace(graph, test_ids=known, known=None)
    data = graph.to_pyg()
    data.validate()
    again = Graph.from_pyg(data)
    assert again.content_fingerprint() == graph.content_fingerprint()
    assert (again.target, again.num_classes) == (graph.target, graph.num_classes)


def test_it_has_what_pyg_calls_it(tiny_folder_graph: Graph) -> None:
    graph, data = tiny_folder_graph, tiny_folder_graph.to_pyg()
    assert (data.num_nodes, data.num_edges, data.num_features) == (300, graph.num_edges, 16)
    assert data.edge_index.dtype == data.y.dtype == torch.int64
    node = int(np.diff(graph.indptr).argmax())
    sources = data.edge_index[0][data.edge_index[1] == node]
    assert sources.tolist() == graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
    for mask, ids in (
        (data.train_mask, graph.train_ids),
        (data.val_mask, graph.val_ids),
        (data.test_mask, graph.test_ids),
    ):
        assert mask.dtype == torch.bool
        assert mask.nonzero().view(-1).tolist() == ids.tolist()


def test_what_is_written_to_it_leaves_the_graph_as_it_was(tiny_graph: Graph) -> None:
    before, data = tiny_graph.content_fingerprint(), tiny_graph.to_pyg()
    for tensor in (data.x, data.edge_index, data.y, data.train_mask):
        tensor.zero_()
    assert tiny_graph.content_fingerprint() == before


@pytest.mark.parametrize("kind", ["tiny_graph", "sparse_graph"])
def test_halves_come_as_what_layers_take(kind: str, request: pytest.FixtureRequest) -> None:
    graph: Graph = request.getfixturevalue(kind)
    stored = {name: array.astype(np.float16) for name, array in graph.features.arrays().items() if name[-1] in "xa"}
    half = dataclasses.replace(graph, features=features_from(graph.features.arrays() | stored))
    data = half.to_pyg()
    assert data.x.dtype == torch.float32
    from_data, from_graph = (next(iter(Loader(one, [2], batch_size=8))).x for one in (data, half))
    assert from_data.dtype == from_graph.dtype == torch.float32
    assert torch.equal(from_data.to_dense(), data.x.to_dense()[next(iter(Loader(data, [2], batch_size=8))).n_id])
    assert SAGEConv(graph.num_features, 2)(data.x.to_dense(), data.edge_index).isfinite().all()


def test_the_unlabeled_stay_unlabeled(labels_graph: Graph) -> None:
    y = labels_graph.to_pyg().y
    assert y.shape == (300, 4)
    assert (y[labels_graph.test_ids[::10]] == -1).all()

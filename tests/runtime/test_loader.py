import numpy as np
import pytest
import torch
from torch_geometric.nn import GraphSAGE

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.loader import Loader

CONFIG = TrainConfig(batch_size=50)


def test_a_pyg_model_learns_from_it(tiny_graph: Graph) -> None:
    torch.manual_seed(0)
    model = GraphSAGE(tiny_graph.num_features, 32, num_layers=2, out_channels=tiny_graph.num_classes)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    loader, losses = Loader(tiny_graph, CONFIG, (5, 5)), []
    for _ in range(8):
        total = 0.0
        for batch in loader:
            data = batch.to_pyg()
            data.validate(raise_on_error=True)
            logits = model(data.x, data.edge_index)[: data.batch_size]
            loss = torch.nn.functional.cross_entropy(logits, data.y[: data.batch_size])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        losses.append(total)
    assert losses[-1] < losses[0] / 2


def test_data_is_what_neighbor_loader_gives(tiny_graph: Graph) -> None:
    edges = {
        (int(s), v) for v in range(300) for s in tiny_graph.indices[tiny_graph.indptr[v] : tiny_graph.indptr[v + 1]]
    }
    for batch in Loader(tiny_graph, CONFIG, (4, 3)):
        data = batch.to_pyg()
        assert {"x", "y", "edge_index", "n_id", "batch_size"} <= set(data.keys())
        assert data.edge_index.dtype == data.n_id.dtype == torch.int64
        assert data.batch_size == batch.num_seeds
        assert np.array_equal(data.x.numpy(), tiny_graph.features.array[data.n_id])
        assert np.array_equal(data.y.numpy(), tiny_graph.labels[data.n_id])
        sources, targets = data.n_id[data.edge_index].tolist()
        found = list(zip(sources, targets, strict=True))
        assert set(found) <= edges
        assert len(set(found)) == len(found) == batch.subgraph.num_edges


def test_sparse_features_are_dense_for_pyg(sparse_graph: Graph) -> None:
    batch = next(iter(Loader(sparse_graph, CONFIG, (4, 3))))
    assert batch.x.is_sparse_csr
    assert torch.equal(batch.to_pyg().x, batch.x.to_dense())


def test_batches_keep_their_own_memory(tiny_graph: Graph) -> None:
    batches = list(Loader(tiny_graph, TrainConfig(batch_size=20, parallel_mode="mode1", num_workers=2), (4, 3)))
    for batch in batches:
        assert np.array_equal(batch.x.numpy(), tiny_graph.features.array[batch.subgraph.n_id])
    assert len({batch.x.data_ptr() for batch in batches}) == len(batches)


def test_each_iteration_is_the_next_epoch(tiny_graph: Graph) -> None:
    loader, again = Loader(tiny_graph, CONFIG, (4, 3), seed=1), Loader(tiny_graph, CONFIG, (4, 3), seed=1)
    nodes = lambda batches: [batch.subgraph.n_id.tolist() for batch in batches]  # noqa: E731
    first, second = nodes(loader), nodes(loader)
    assert len(first) == len(loader)
    assert first != second
    assert [first, second] == [nodes(again), nodes(again)]


@pytest.mark.parametrize("as_mask", [True, False])
def test_input_nodes_can_be_ids_or_a_mask(as_mask: bool, tiny_graph: Graph) -> None:
    ids = tiny_graph.val_ids[:30]
    nodes = np.isin(np.arange(300), ids) if as_mask else ids.astype(np.int64)
    loader = Loader(tiny_graph, TrainConfig(batch_size=8), (4,), input_nodes=nodes, shuffle=False)
    seeds = np.concatenate([batch.subgraph.n_id[: batch.num_seeds] for batch in loader])
    assert np.array_equal(seeds, ids)


@pytest.mark.parametrize("nodes", [[], [1, 1], [-1], [300], [0.5], [[1]]])
def test_wrong_input_nodes_are_refused(nodes: list, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match="input_nodes must be"):
        Loader(tiny_graph, CONFIG, (4,), input_nodes=np.array(nodes))

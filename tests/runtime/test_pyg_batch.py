import pytest
import torch
from torch_geometric.nn import GATConv, GINConv, GraphConv, GraphSAGE, SAGEConv

from a3gnn.graphs.graph import Graph
from a3gnn.runtime.loader import Loader


def test_trimming_and_adjs_give_the_same_seeds(tiny_graph: Graph) -> None:
    torch.manual_seed(0)
    model = GraphSAGE(tiny_graph.num_features, 32, num_layers=2, out_channels=4).eval()
    batch = next(iter(Loader(tiny_graph, [5, 5], batch_size=50, adjs=True)))
    whole = model(batch.x, batch.edge_index)[:50]
    hops = {f"{name}_per_hop": batch[name] for name in ("num_sampled_nodes", "num_sampled_edges")}
    short = model(batch.x, batch.edge_index, **hops)[:50]
    torch.testing.assert_close(short, whole)
    x = batch.x
    for layer, (conv, adj) in enumerate(zip(model.convs, batch.adjs, strict=True)):
        x = conv((x, x[: adj.size(0)]), adj)
        x = x.relu() if layer == 0 else x
    torch.testing.assert_close(x, whole)


@pytest.mark.parametrize(
    "conv",
    [SAGEConv(16, 8), GATConv((16, 16), 8, add_self_loops=False), GINConv(torch.nn.Linear(16, 8)), GraphConv(16, 8)],
    ids=repr,
)
def test_convolutions_take_adjs(conv: torch.nn.Module, tiny_graph: Graph) -> None:
    batch = next(iter(Loader(tiny_graph, [5], batch_size=50, adjs=True)))
    (adj,) = batch.adjs
    targets = (batch.x, batch.x[: adj.size(0)])
    torch.testing.assert_close(conv(targets, adj), conv(targets, batch.edge_index))


def test_sparse_features_are_dense_for_pyg(sparse_graph: Graph) -> None:
    loader, again = (Loader(sparse_graph, [4, 3], batch_size=50) for _ in range(2))
    batch = next(loader.minibatches())
    assert batch.x.is_sparse_csr
    assert torch.equal(next(iter(again)).x, batch.x.to_dense())

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GATConv, GATv2Conv, GINConv, GraphConv, GraphSAGE, SAGEConv, TransformerConv

from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader


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


#: Every one that docs/howto/loader.md lists, as wide as a hidden layer is: kernels differ below 16 columns.
CONVS = {
    "SAGEConv": lambda: SAGEConv(16, 64),
    "GINConv": lambda: GINConv(torch.nn.Linear(16, 64)),
    "GraphConv": lambda: GraphConv(16, 64),
    "TransformerConv": lambda: TransformerConv(16, 64, heads=2),
    "GATConv": lambda: GATConv((16, 16), 64, heads=2, add_self_loops=False),
    "GATv2Conv": lambda: GATv2Conv((16, 16), 64, heads=2, add_self_loops=False),
}


@pytest.mark.parametrize("name", CONVS)
def test_convolutions_take_adjs(name: str, tiny_graph: Graph) -> None:
    torch.manual_seed(0)
    conv = CONVS[name]()
    batch = next(iter(Loader(tiny_graph, [5, 5], batch_size=50, adjs=True)))
    hop_edges = sum(batch.num_sampled_edges[:1])
    for adj, edges in zip(batch.adjs, (batch.edge_index, batch.edge_index[:, :hop_edges]), strict=True):
        outs, grads = [], []
        for form in (adj, edges):
            x = batch.x[: adj.size(1)].clone().requires_grad_()
            outs.append(conv((x, x[: adj.size(0)]), form))
            grads.append(torch.autograd.grad(outs[-1].square().mean(), [x, *conv.parameters()]))
        torch.testing.assert_close(*outs)
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)


def test_the_list_of_convolutions_is_that_of_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto" / "loader.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"`SAGEConv`.* take these adjacencies\. So do .*", text)
    assert set(re.findall(r"\w+Conv", listed)) == set(CONVS)


def test_sparse_features_are_dense_for_pyg(sparse_graph: Graph) -> None:
    loader, again = (Loader(sparse_graph, [4, 3], batch_size=50) for _ in range(2))
    batch = next(loader.minibatches())
    assert batch.x.is_sparse_csr
    assert torch.equal(next(iter(again)).x, batch.x.to_dense())

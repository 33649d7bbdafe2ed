import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, SGConv

from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.exact_share import Reach, exact_share
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.share import cut
from a3gnn.sampling.subgraph import Subgraph

PLAIN, DEGREES, ALL = Reach(2, degrees=False), Reach(2, degrees=True), Reach(None, degrees=True)


@pytest.fixture(scope="module")
def whole(tiny_graph: Graph) -> Subgraph:
    """A mini-batch of 60 seeds with loops and repeated edges; most of its last hop's nodes are in earlier ones."""
    rng = np.random.default_rng(0)
    targets = np.repeat(np.arange(tiny_graph.num_nodes), np.diff(tiny_graph.indptr))
    loops = np.arange(0, tiny_graph.num_nodes, 3)
    again = rng.integers(0, len(targets), 200)
    sources = np.concatenate([tiny_graph.indices, loops, tiny_graph.indices[again]])
    edges = Edges.of(sources, np.concatenate([targets, loops, targets[again]]), tiny_graph.num_nodes)
    return Sampler(edges, (5, 4), seed=0).sample(np.arange(60, dtype=np.int32), 0, 0)


def edge_index(subgraph: Subgraph) -> torch.Tensor:
    targets = np.repeat(np.arange(len(subgraph.indptr) - 1), np.diff(subgraph.indptr))
    return torch.from_numpy(np.stack([subgraph.indices, targets])).long()


class Stack(nn.Module):
    def __init__(self, *convolutions: nn.Module) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.double()

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        more = () if weights is None else (weights,)
        for convolution in self.convolutions:
            x = convolution(x, edges, *more).tanh()
        return x


def gin(width: int) -> GINConv:
    return GINConv(nn.Linear(width, 6))


MODELS = {
    "sage": (PLAIN, lambda: Stack(SAGEConv(16, 6), SAGEConv(6, 6))),
    "sage max": (PLAIN, lambda: Stack(SAGEConv(16, 6, aggr="max"), SAGEConv(6, 6, aggr="max"))),
    "gat": (PLAIN, lambda: Stack(GATConv(16, 6), GATConv(6, 6))),
    "gin": (PLAIN, lambda: Stack(gin(16), gin(6))),
    "gcn": (DEGREES, lambda: Stack(GCNConv(16, 6), GCNConv(6, 6))),
    "one layer": (DEGREES, lambda: Stack(GCNConv(16, 6))),
    "three layers": (Reach(3, degrees=False), lambda: Stack(SAGEConv(16, 6), SAGEConv(6, 6), SAGEConv(6, 6))),
    "three by degree": (Reach(3, degrees=True), lambda: Stack(GCNConv(16, 6), GCNConv(6, 6), GCNConv(6, 6))),
    "five hops": (ALL, lambda: Stack(SGConv(16, 6, K=5))),
}


def gradients(model: nn.Module, parts: list[tuple[Subgraph, torch.Tensor]], seeds: int) -> list[torch.Tensor]:
    """The outputs at the seeds, and the gradients of their mean loss, summed over the parts."""
    model.zero_grad()
    outs = []
    for part, x in parts:
        out = model(x, edge_index(part))[: part.num_seeds]
        (out.square().sum() / seeds).backward()
        outs.append(out.detach())
    return [torch.cat(outs), *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)]


def parts_of(whole: Subgraph, reach: Reach, ends: list[int]) -> list[Subgraph]:
    return [exact_share(whole, low, high, reach) for low, high in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("ends", [[60], [1, 60], [20, 40, 60]])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_shares_add_up(name: str, ends: list[int], whole: Subgraph) -> None:
    reach, made = MODELS[name]
    torch.manual_seed(0)
    model, x = made(), torch.randn(300, 16, dtype=torch.float64)
    parts = [(part, x[torch.from_numpy(part.n_id).long()]) for part in parts_of(whole, reach, ends)]
    found = gradients(model, parts, 60)
    expected = gradients(model, [(whole, x[torch.from_numpy(whole.n_id).long()])], 60)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["gcn", "three layers", "five hops"])
def test_a_share_for_fewer_needs_differs(name: str, whole: Subgraph) -> None:
    """Without these forms of shares, the models above would compute something else."""
    torch.manual_seed(0)
    model, x = MODELS[name][1](), torch.randn(300, 16, dtype=torch.float64)
    parts = [(part, x[torch.from_numpy(part.n_id).long()]) for part in parts_of(whole, PLAIN, [20, 40, 60])]
    found = gradients(model, parts, 60)[0]
    expected = gradients(model, [(whole, x[torch.from_numpy(whole.n_id).long()])], 60)[0]
    assert (found - expected).abs().max() > 1e-3


def test_weights_of_edges_follow(whole: Subgraph) -> None:
    torch.manual_seed(0)
    model, x = MODELS["gcn"][1](), torch.randn(300, 16, dtype=torch.float64)
    weights = torch.rand(5000, dtype=torch.float64)

    def outputs(part: Subgraph) -> torch.Tensor:
        assert part.e_id is not None
        of_edges = weights[torch.from_numpy(part.e_id)]
        return model(x[torch.from_numpy(part.n_id).long()], edge_index(part), of_edges)[: part.num_seeds]

    found = torch.cat([outputs(part) for part in parts_of(whole, DEGREES, [7, 60])])
    assert torch.allclose(found, outputs(whole), rtol=0, atol=1e-12)


def test_a_usual_share_is_a_cut(whole: Subgraph) -> None:
    ours, theirs = exact_share(whole, 10, 30, PLAIN), cut(whole, 10, 30)
    for name in ("n_id", "indptr", "indices", "e_id"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.hop_sizes == theirs.hop_sizes


def test_every_node_keeps_its_degree_and_ids(whole: Subgraph) -> None:
    share = exact_share(whole, 10, 30, DEGREES)
    assert share.share is not None
    assert share.e_id is not None
    assert whole.e_id is not None
    rows = np.zeros(whole.num_nodes, dtype=np.int64)
    rows[: len(whole.indptr) - 1] = np.diff(whole.indptr)
    ours = np.zeros(share.num_nodes, dtype=np.int64)
    ours[: len(share.indptr) - 1] = np.diff(share.indptr)
    assert np.array_equal(ours, rows[share.share.places])
    assert share.num_edges > cut(whole, 10, 30).num_edges
    for row in range(len(share.indptr) - 1):
        place = share.share.places[row]
        mine = share.e_id[share.indptr[row] : share.indptr[row + 1]]
        theirs = whole.e_id[whole.indptr[place] : whole.indptr[place + 1]] if place < len(whole.indptr) - 1 else []
        assert np.array_equal(mine, theirs)


def test_a_share_of_a_mini_batch_without_ids(whole: Subgraph) -> None:
    share = exact_share(dataclasses.replace(whole, e_id=None), 10, 30, DEGREES)
    assert share.e_id is None
    assert np.array_equal(share.indices, exact_share(whole, 10, 30, DEGREES).indices)

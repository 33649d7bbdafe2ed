"""A loader's shares of mini-batches come to what whole ones come to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch_geometric.nn import GraphSAGE

from a3gnn import Loader
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph

OPTIONS: dict[str, Any] = {"num_neighbors": [4, 3], "batch_size": 64, "shuffle": True, "seed": 3}


def loss_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    out = model(batch.x.double(), batch.edge_index)[: batch.batch_size]
    return F.cross_entropy(out, batch.y[: batch.batch_size].long())


@pytest.mark.parametrize("ranks", [2, 3])
def test_losses_weighted_by_seeds_have_the_gradient_of_the_whole(ranks, tiny_graph):
    torch.manual_seed(0)
    model = GraphSAGE(tiny_graph.num_features, 8, 2, tiny_graph.num_classes).double()
    given = {"input_nodes": tiny_graph.train_ids, **OPTIONS}
    shares = [Loader(tiny_graph, share=(rank, ranks), **given) for rank in range(ranks)]
    whole = Loader(tiny_graph, **given)
    assert len({len(loader) for loader in (whole, *shares)}) == 1
    for batch, *parts in zip(whole, *shares, strict=True):
        expected = torch.autograd.grad(loss_of(model, batch), list(model.parameters()))
        assert sum(part.seed_share for part in parts) == pytest.approx(1)
        assert torch.equal(torch.cat([part.n_id[: part.batch_size] for part in parts]), batch.n_id[: batch.batch_size])
        total = sum(loss_of(model, part) * part.seed_share for part in parts)
        found = torch.autograd.grad(total, list(model.parameters()))
        assert all(torch.allclose(own, other, atol=1e-12) for own, other in zip(found, expected, strict=True))
        unweighted = torch.autograd.grad(sum(loss_of(model, part) for part in parts) / ranks, list(model.parameters()))
        even = len({part.batch_size for part in parts}) == 1
        same = all(torch.allclose(own, other, atol=1e-12) for own, other in zip(unweighted, expected, strict=True))
        assert same == even


def test_a_share_without_seeds_counts_nothing(tiny_graph):
    loader = Loader(tiny_graph, [4, 3], tiny_graph.train_ids[:1], share=(0, 2))
    (batch,) = loader
    assert batch.seed_share == 0.0
    assert batch.batch_size == 1


def test_adjacencies_are_the_shares(tiny_graph):
    (batch,) = Loader(tiny_graph, [4, 3], tiny_graph.train_ids[:20], share=(1, 2), adjs=True)
    assert [tuple(adj.shape) for adj in batch.adjs] == [
        (sum(batch.num_sampled_nodes[:2]), sum(batch.num_sampled_nodes)),
        (10, sum(batch.num_sampled_nodes[:2])),
    ]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"share": (2, 2)}, "rank must be in"),
        ({"share": 2}, "two integers"),
        ({"share": (0, 2), "subgraph_type": "induced"}, "directional"),
        ({"share": (0, 2), "sampler": range(4)}, "the same order in every process"),
    ],
)
def test_what_shares_could_differ_in_is_refused(others, message, tiny_graph: Graph):
    with pytest.raises(UsageError, match=message):
        Loader(tiny_graph, [2], tiny_graph.train_ids, **others)

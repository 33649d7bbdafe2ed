from collections.abc import Iterable

import pytest
import torch
from torch import nn
from torch_geometric.nn import (
    APPNP,
    GAT,
    GCN,
    GIN,
    GATConv,
    GCNConv,
    GraphConv,
    GraphNorm,
    GraphSAGE,
    HeteroConv,
    HGTConv,
    MessagePassing,
    SAGEConv,
    to_hetero,
)
from torch_geometric.nn import BatchNorm as PygBatchNorm
from torch_geometric.nn import LayerNorm as PygLayerNorm

from a3gnn.errors import UsageError
from a3gnn.loader.model_reading import ModelWatch, mixing_module, reach_of, width_of
from a3gnn.sampling.exact_share import Reach

X, EDGES = torch.zeros(3, 4), torch.tensor([[0, 1], [1, 2]])


class Own(SAGEConv):
    """A user's convolution, which may compute anything."""


@pytest.mark.parametrize(
    ("model", "reach"),
    [
        (GraphSAGE(4, 8, num_layers=2), Reach(2, degrees=False)),
        (GAT(4, 8, num_layers=3), Reach(3, degrees=False)),
        (GIN(4, 8, num_layers=2), Reach(2, degrees=False)),
        (GCN(4, 8, num_layers=2), Reach(2, degrees=True)),
        (nn.ModuleList([SAGEConv(4, 8), GCNConv(8, 8)]), Reach(2, degrees=True)),
        (APPNP(K=5, alpha=0.1), Reach(None, degrees=True)),
        (Own(4, 8), Reach(None, degrees=True)),
        (MessagePassing(), Reach(None, degrees=True)),
        (nn.Linear(4, 8), Reach(0, degrees=False)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_reach_of_a_model(model: nn.Module, reach: Reach) -> None:
    assert reach_of([model]) == reach


def test_a_module_counts_once_and_a_call_each_time() -> None:
    model = GraphSAGE(4, 8, num_layers=2)
    assert reach_of([model, model.convs[0], model.convs[1]]) == Reach(2, degrees=False)
    assert reach_of([model.convs[0]], calls=3) == Reach(3, degrees=False)


@pytest.mark.parametrize(
    ("module", "in_training", "in_evaluation"),
    [
        (PygBatchNorm(4), "BatchNorm", None),
        (nn.BatchNorm1d(4), "BatchNorm1d", None),
        (nn.BatchNorm1d(4, track_running_stats=False), "BatchNorm1d", "BatchNorm1d"),
        (GraphNorm(4), "GraphNorm", "GraphNorm"),
        (PygLayerNorm(4), "LayerNorm", "LayerNorm"),
        (PygLayerNorm(4, mode="node"), None, None),
        (nn.LayerNorm(4), None, None),
        (GATConv(4, 4), None, None),
        (SAGEConv(4, 4, flow="target_to_source"), "SAGEConv", "SAGEConv"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_modules_that_mix_rows(module: nn.Module, in_training: str | None, in_evaluation: str | None) -> None:
    model = nn.Sequential(nn.Linear(4, 4), module)
    assert mixing_module([model.train()]) == in_training
    assert mixing_module([model.eval()]) == in_evaluation


def test_the_width_is_the_widest_weight_but_embeddings() -> None:
    assert width_of(nn.ModuleList([nn.Linear(7, 300), nn.Linear(300, 5), nn.Embedding(10_000, 3)])) == 300
    assert width_of(nn.ReLU()) == 1


def watched(model: nn.Module, layers: int | None, *, calls: int = 1, known: bool = False, is_cut: bool = True) -> Reach:
    found = []

    def learned(called: object, most: int) -> None:
        found.append(reach_of(called, most))

    reach = Reach(layers, degrees=True)
    with ModelWatch(reach, learned, is_cut=is_cut, model=model if known else None):
        for _ in range(calls):
            model(X, EDGES)
    return found[0]


def test_a_watch_sees_the_model_of_a_loop() -> None:
    assert watched(GraphSAGE(4, 8, num_layers=2), 2) == Reach(2, degrees=False)
    assert watched(GCN(4, 8, num_layers=2), 2, calls=3) == Reach(2, degrees=True)
    with pytest.raises(UsageError, match="model with as many, got 3; pass model=model"):
        watched(GraphSAGE(4, 8, num_layers=3), 2)
    assert watched(GraphSAGE(4, 8, num_layers=3), 3) == Reach(3, degrees=False)
    with pytest.raises(UsageError, match="rows of any distance"):
        watched(APPNP(K=2, alpha=0.1), 2)
    assert watched(APPNP(K=2, alpha=0.1), None) == Reach(None, degrees=True)


def test_a_watch_refuses_norms_of_a_cut_mini_batch_alone() -> None:
    model = GraphSAGE(4, 8, num_layers=2, norm="batch_norm")
    with pytest.raises(UsageError, match=r"BatchNorm computes from all rows.*model=model"):
        watched(model, 2)
    assert watched(model.eval(), 2) == Reach(2, degrees=False)
    assert watched(model.train(), 2, is_cut=False) == Reach(2, degrees=False)


def test_a_convolution_that_is_called_again_counts_again() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = SAGEConv(4, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.conv(self.conv(self.conv(x, edges), edges), edges)

    with pytest.raises(UsageError, match="got 3"):
        watched(Twice(), 2)
    with pytest.raises(UsageError, match="call each convolution once"):
        watched(Twice(), 2, known=True)
    assert watched(Twice(), 3) == Reach(3, degrees=False)


def test_nothing_is_watched_afterwards() -> None:
    model = GraphSAGE(4, 8, num_layers=3)
    with pytest.raises(UsageError):
        watched(model, 2)
    model(X, EDGES)


KINDS = [("a", "to", "b"), ("b", "to", "a"), ("a", "by", "a")]


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConv(4, 4), GraphConv(4, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.first(x, edges).relu(), edges)
        return out


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("name", ["HeteroConv", "to_hetero", "HGTConv"])
def test_convolutions_of_several_relations_are_one_layer(name: str, twice: bool) -> None:
    x = {"a": torch.rand(3, 4), "b": torch.rand(2, 4)}
    edges = {kind: torch.zeros((2, 1), dtype=torch.int64) for kind in KINDS}
    if name == "to_hetero":
        layers: list[nn.Module] = [to_hetero(TwoLayers(), (["a", "b"], KINDS))]
    elif name == "HGTConv":
        layers = [HGTConv(4, 4, (["a", "b"], KINDS)) for _ in range(2)]
    else:
        layers = [HeteroConv({kind: GraphConv(4, 4) for kind in KINDS}) for _ in range(2)]
    found: list[Reach] = []

    def learned(called: Iterable[nn.Module], calls: int) -> None:
        found.append(reach_of(called, calls))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            for layer in [*self.layers, *([*self.layers] if twice else [])]:
                x = layer(x, edges)
            return x

    model = Model()
    with ModelWatch(Reach(4 if twice else 2, degrees=True), learned, is_cut=True, model=None):
        model(x)
    assert found == [Reach(4 if twice else 2, degrees=False)]
    assert reach_of([model]) == Reach(2, degrees=False)
    short = ModelWatch(Reach(3 if twice else 1, degrees=True), learned, is_cut=True, model=None)
    with short, pytest.raises(UsageError, match="needs a model with as many, got"):
        model(x)

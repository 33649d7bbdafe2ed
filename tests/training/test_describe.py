"""Which table the first layer of a user's model reads, found by a call; and its cost by kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from a3gnn.graphs.graph import Graph
from a3gnn.task import OwnModel, Task
from a3gnn.training.describe import described
from tests.own_models import Package

_MODELS = """
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GAT, GCN, GCNConv, GIN, GINConv, GraphConv, GraphSAGE, Linear, SAGEConv, SGConv


class Two(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Mapped(Two):
    def forward(self, x, edge_index):
        return super().forward(torch.tanh(x), edge_index)


class Dropped(Two):
    def forward(self, x, edge_index):
        return super().forward(F.dropout(x, 0.5) if self.training else x, edge_index)


class Reversed(Two):
    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index.flip(0)).relu(), edge_index)


class Skipping(Two):
    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        return self.second(torch.cat([hidden, x], 1)[:, : hidden.shape[1]], edge_index)


class Mine(SAGEConv):
    pass


def sage(i, o): return GraphSAGE(i, 8, 2, o, dropout=0.5)
def gcn(i, o): return GCN(i, 8, 2, o)
def gin(i, o): return GIN(i, 8, 2, o)
def gat(i, o): return GAT(i, 8, 2, o)
def graph_mean(i, o): return Two(GraphConv(i, 8, aggr="mean"), GraphConv(8, o))
def no_root(i, o): return Two(SAGEConv(i, 8, root_weight=False), SAGEConv(8, o))
def summed(i, o): return Two(SAGEConv(i, 8, aggr="sum"), SAGEConv(8, o))
def projected(i, o): return Two(SAGEConv(i, 8, project=True), SAGEConv(8, o))
def improved(i, o): return Two(GCNConv(i, 8, improved=True), GCNConv(8, o))
def learned_eps(i, o): return Two(GINConv(nn.Linear(i, 8), train_eps=True), GCNConv(8, o))
def some_eps(i, o): return Two(GINConv(nn.Linear(i, 8), eps=0.5), GCNConv(8, o))
def later(i, o): return Two(GAT(i, 8, 1), SAGEConv(8, o))
def mapped(i, o): return Mapped(SAGEConv(i, 8), SAGEConv(8, o))
def dropped(i, o): return Dropped(SAGEConv(i, 8), SAGEConv(8, o))
def turned(i, o): return Reversed(SAGEConv(i, 8), SAGEConv(8, o))
def skipping(i, o): return Skipping(SAGEConv(i, 8), SAGEConv(8, o))
def subclass(i, o): return Two(Mine(i, 8), SAGEConv(8, o))
def foreign(i, o): return Two(SGConv(i, 8), SAGEConv(8, o))
"""


@pytest.fixture(autouse=True)
def generator_is_left_alone() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def own_of(package: Package, graph: Graph, name: str) -> OwnModel:
    package.write("kinds", _MODELS)
    own = described(Task(model=f"{package.name}.kinds:{name}", fanouts=(4, 3)), graph).own
    assert own is not None
    return own


@pytest.mark.parametrize(
    ("name", "aggregates", "native"),
    [
        ("sage", "mean", 2),
        ("gcn", "gcn", 2),
        ("gin", "sum", 2),
        ("graph_mean", "mean", 2),
        ("no_root", "mean", 2),
        ("summed", None, 2),
        ("projected", None, 2),
        ("improved", None, 2),
        ("learned_eps", None, 2),
        ("some_eps", None, 2),
        ("mapped", None, 2),
        ("dropped", None, 2),
        ("turned", None, 2),
        ("skipping", None, 2),
        ("subclass", None, 1),
        ("foreign", None, 1),
    ],
)
def test_the_table_is_that_of_the_layer_that_reads_x(
    name: str, aggregates: str | None, native: int, package: Package, tiny_graph: Graph
) -> None:
    own = own_of(package, tiny_graph, name)
    assert (own.aggregates, own.native, own.reads_a_table) == (aggregates, native, aggregates is not None)


@pytest.mark.parametrize("name", ["gat", "later"])
def test_attention_reads_no_table(name: str, package: Package, tiny_graph: Graph) -> None:
    assert own_of(package, tiny_graph, name).aggregates is None


def test_kernels_read_what_pygs_code_writes_for_each_edge(package: Package, tiny_graph: Graph) -> None:
    native, foreign = own_of(package, tiny_graph, "sage").cost, own_of(package, tiny_graph, "foreign").cost
    assert (native.edge_bytes, foreign.edge_reads) == (24, 0)
    assert foreign.edge_bytes > 4 * tiny_graph.num_features
    assert native.edge_reads >= 4 * tiny_graph.num_features


def test_the_number_of_kernels_belongs_to_the_task_but_not_to_older_ones(package: Package, tiny_graph: Graph) -> None:
    own = own_of(package, tiny_graph, "sage")
    task = Task(model=f"{package.name}.kinds:sage", own=own)
    plain = dataclasses.replace(task, own=dataclasses.replace(own, native=0))
    assert Task.from_dict(task.to_dict()) == task
    assert Task.from_dict(plain.to_dict()) == plain
    assert task.key() != plain.key()
    assert "native" not in plain.to_dict()["own"]
    assert (plain.aggregates, task.aggregates) == (None, "mean")

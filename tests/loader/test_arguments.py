"""What needs to know which edges were sampled, which a device's sampler doesn't."""

import pytest
import torch
from torch_geometric.data import Data

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.arguments import LoaderArguments, edges_of
from a3gnn.loader.pyg_source import source_of
from a3gnn.loader.seeds import InputNodes

EDGES = torch.tensor([[2, 0, 1, 1], [0, 1, 2, 0]])
NOTHING = LoaderArguments(
    replace=False,
    disjoint=False,
    subgraph_type="directional",
    weight_attr=None,
    adjs=False,
    shuffle=False,
    drop_last=False,
    sampler=None,
    batch_sampler=None,
)
ON_DEVICE = TrainConfig(sampling_device="cuda")


@pytest.mark.parametrize(
    ("fields", "asked", "nodes", "name"),
    [
        ({"edge_attr": torch.ones(4)}, {}, None, r"attributes of edges \(edge_attr\)"),
        ({"adj_t": torch.eye(3).to_sparse(), "edge_index": None}, {}, None, r"attributes of edges \(adj_t\)"),
        ({"edge_index": EDGES.repeat(1, 2)}, {}, None, "edges that occur more than once"),
        ({}, {"replace": True}, None, "replace"),
        ({}, {"disjoint": True}, None, "disjoint"),
        ({}, {"subgraph_type": "induced"}, None, "subgraph_type induced"),
        ({}, {"sampler": [0]}, None, "sampler"),
        ({}, {}, [1, 1], "input_nodes that are repeated"),
    ],
)
def test_a_devices_sampler_knows_no_edges(fields: dict, asked: dict, nodes: list | None, name: str) -> None:
    data = Data(**({"x": torch.eye(3), "edge_index": EDGES} | fields))
    source, inputs = source_of(data), InputNodes.of(nodes, 3)
    with pytest.raises(UsageError, match=f"sampling_device must be cpu for {name}, got cuda"):
        edges_of(source, NOTHING._replace(**asked), ON_DEVICE, inputs)
    assert edges_of(source, NOTHING._replace(**asked), TrainConfig(), inputs) is not None


def test_plain_data_is_sampled_on_the_device_and_a_graph_as_ever(tiny_graph: Graph) -> None:
    inputs = InputNodes.of(None, 3)
    assert edges_of(source_of(Data(x=torch.eye(3), edge_index=EDGES)), NOTHING, ON_DEVICE, inputs) is None
    assert edges_of(source_of(tiny_graph), NOTHING, TrainConfig(), inputs) is None
    assert edges_of(source_of(tiny_graph), NOTHING._replace(replace=True), TrainConfig(), inputs) is not None

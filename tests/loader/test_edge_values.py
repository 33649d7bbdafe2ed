"""Values of edges in mini-batches of an a3gnn graph, as in those of the same `Data`."""

from __future__ import annotations

import warnings

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.loader.loader import Loader


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("config", [TrainConfig(), TrainConfig(num_partitions=2)], ids=["whole", "parts"])
def test_a_graph_serves_what_its_data_serves(config, subgraph_type, valued_graph) -> None:
    if subgraph_type == "induced" and config.num_partitions > 1:
        pytest.skip("induced subgraphs have edges of all parts")
    found = []
    for data in (valued_graph, valued_graph.to_pyg()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = Loader(data, [5, 3], config=config, batch_size=200, seed=1, subgraph_type=subgraph_type)
            found.append(list(loader))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert ours.edge_attr.shape == (ours.num_edges, 3)
        for name in ("edge_attr", "edge_weight"):
            assert torch.equal(ours[name], theirs[name])


def test_a_device_samples_no_values(valued_graph) -> None:
    with pytest.raises(
        UsageError, match=r"sampling_device must be cpu for attributes of edges \(edge_attr, edge_weight"
    ):
        Loader(valued_graph, [5, 3], config=TrainConfig(sampling_device="cuda"))

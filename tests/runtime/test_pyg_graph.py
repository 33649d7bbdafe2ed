import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from a3gnn.errors import GraphError, UsageError
from a3gnn.runtime.loader import Loader
from a3gnn.runtime.pyg_graph import graph_of

EDGES = torch.tensor([[2, 0, 1, 1], [0, 1, 2, 0]])


def test_edges_come_in_by_their_targets_and_features_are_shared() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES)
    graph = graph_of(data)
    rows = np.split(graph.indices, graph.indptr[1:-1])
    assert [row.tolist() for row in rows] == [[1, 2], [0], [1]]
    assert np.shares_memory(graph.features.array, data.x.numpy())
    assert graph.labels.tolist() == [-1, -1, -1]


def test_repeated_edges_are_one() -> None:
    graph = graph_of(Data(x=torch.eye(3), edge_index=EDGES.repeat(1, 2)))
    assert graph.num_edges == 4
    assert "duplicates" in " ".join(graph.notes)


@pytest.mark.parametrize("other", [HeteroData(), (1, 2), None])
def test_other_kinds_of_data_are_refused(other: object) -> None:
    with pytest.raises(UsageError, match="data must be a path or spec, an a3gnn Graph or a PyG Data"):
        Loader(other, [4])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "lacks x"),
        ({"edge_index": None}, "lacks edge_index"),
        ({"edge_attr": torch.zeros(3, 1)}, "edge_attr belongs to edges"),
        ({"x": torch.eye(3).to_sparse()}, "x must be a dense tensor"),
        ({"x": torch.eye(3).double()}, r"x must be float32 or float16, got float64; data\.x = data\.x\.float\(\)"),
        ({"x": torch.eye(3).bfloat16()}, r"x must be float32 or float16, got bfloat16; data\.x = data\.x\.float\(\)"),
        ({"x": torch.eye(3).long()}, r"x must be float32 or float16, got int64; data\.x = data\.x\.float\(\)"),
        ({"x": torch.eye(3).bool()}, r"x must be float32 or float16, got bool; data\.x = data\.x\.float\(\)"),
        ({"edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]])}, "edge_index must be in"),
    ],
)
def test_a_data_that_cannot_be_served_is_refused(changes: dict, message: str) -> None:
    fields = {"x": torch.eye(3), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]])} | changes
    with pytest.raises(GraphError, match=message):
        Loader(Data(**fields), [4])

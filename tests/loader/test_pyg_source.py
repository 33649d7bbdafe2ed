"""What a `Loader` makes of its data: edges, their ids, and which x tiers and caches serve."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.loader.pyg_source import source_of

EDGES = torch.tensor([[2, 0, 1, 1], [0, 1, 2, 0]])


def test_edges_come_in_by_their_targets_and_features_are_shared() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES)
    source = source_of(data)
    rows = np.split(source.graph.indices, source.graph.indptr[1:-1])
    assert [row.tolist() for row in rows] == [[1, 2], [0], [1]]
    assert source.edges.ids.tolist() == [3, 0, 1, 2]
    assert source.reads_x
    assert np.shares_memory(source.graph.features.array, data.x.numpy())
    assert source.graph.labels.tolist() == [-1, -1, -1]


def test_repeated_edges_are_sampled_as_often_as_they_are_there() -> None:
    source = source_of(Data(x=torch.eye(3), edge_index=EDGES.repeat(1, 2)))
    assert source.graph.num_edges == 4
    assert len(source.edges.indices) == 8
    assert sorted(source.edges.ids.tolist()) == list(range(8))


@pytest.mark.parametrize(
    "x",
    [
        None,
        torch.eye(3).double(),
        torch.eye(3).bfloat16(),
        torch.eye(3).bool(),
        torch.arange(3),
        torch.rand(3, 2, 4),
        torch.rand(3, 4, dtype=torch.complex64),
        torch.eye(3).to_sparse(),
        torch.tensor([[np.nan], [1.0], [np.inf]]),
        torch.empty(3, 0),
        torch.rand(3, 5).requires_grad_(),
        np.arange(6).reshape(3, 2),
    ],
    ids=lambda x: "none" if x is None else f"{x.dtype}-{tuple(x.shape)}",
)
def test_any_x_is_served_as_it_is(x: torch.Tensor | np.ndarray | None) -> None:
    data = Data(edge_index=EDGES, num_nodes=3) if x is None else Data(x=x, edge_index=EDGES)
    assert source_of(data).reads_x is False
    for batch in Loader(data, [2, 2], batch_size=2):
        assert ("x" in batch) == (x is not None)
        if x is not None:
            given = torch.as_tensor(x)
            taken = given.to_dense()[batch.n_id]
            assert batch.x.dtype == (torch.float32 if given.dtype.itemsize == 2 else given.dtype)
            assert batch.x.requires_grad == given.requires_grad
            taken = taken.to(batch.x.dtype)
            torch.testing.assert_close(batch.x.to_dense(), taken, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("x", [torch.rand(3, 4).half(), torch.rand(4, 3).t(), torch.rand(3, 4).half().numpy()])
def test_tiers_and_caches_serve_x_as_float32(x: torch.Tensor | np.ndarray) -> None:
    data, given = Data(x=x, edge_index=EDGES), torch.as_tensor(x)
    for config in (None, {"cache_bytes": 100}, {"feature_tier": "disk"}, {"num_partitions": 2}):
        for batch in Loader(data, [2], batch_size=2, config=config):
            assert batch.x.dtype == torch.float32
            assert torch.equal(batch.x, given[batch.n_id].float())


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_a_memory_map_stays_on_disk(dtype: type, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12).reshape(3, 4).astype(dtype))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = Data(x=x, edge_index=EDGES)
    assert source_of(data).reads_x == (dtype != np.int16)
    assert isinstance(data.x, np.memmap)
    for batch in Loader(data, [2], batch_size=2, num_workers=1):
        assert isinstance(batch.x, torch.Tensor)
        assert np.array_equal(batch.x.numpy(), x[batch.n_id.numpy()])


@pytest.mark.parametrize("knobs", [{"cache_bytes": 1000}, {"feature_tier": "disk"}, {"num_partitions": 2}])
def test_knobs_of_features_need_x_that_they_can_serve(knobs: dict) -> None:
    (name,) = knobs
    with pytest.raises(UsageError, match=f"{name} must be .* here, got .*: other values need a dense"):
        Loader(Data(x=torch.arange(3), edge_index=EDGES), [2], config=knobs)


def test_learnt_features_get_their_gradient() -> None:
    x = torch.eye(3).requires_grad_()
    batch = Loader(Data(x=x, edge_index=EDGES), [2])([0])
    batch.x.sum().backward()
    assert x.grad is not None
    assert x.grad.sum(dim=1).tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_an_adj_t_is_served_as_one(layout: torch.layout) -> None:
    dense = torch.tensor([[0.0, 0.5, 2.0, 0.0], [3.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 5.0], [0.0, 0.0, 0.0, 0.0]])
    data = Data(x=torch.eye(4), adj_t=dense.to_sparse(layout=layout))
    for batch in Loader(data, [-1], batch_size=2, subgraph_type="induced"):
        assert "edge_index" not in batch
        assert batch.adj_t.layout == layout
        assert torch.equal(batch.adj_t.to_dense(), dense[batch.n_id][:, batch.n_id])
    (batch,) = Loader(data, [-1], [2], batch_size=1)
    assert batch.n_id.tolist() == [2, 1, 3]
    assert batch.adj_t.to_dense().tolist() == [[0.0, 4.0, 5.0], [0.0] * 3, [0.0] * 3]
    assert batch.e_id.tolist() == [3, 4]


@pytest.mark.parametrize(
    "data", [Data(num_nodes=3), Data(x=torch.eye(3)), Data(x=torch.eye(3), edge_index=EDGES[:, :0])]
)
def test_a_graph_may_have_no_edges(data: Data) -> None:
    (batch,) = Loader(data, [-1, 2], batch_size=3)
    assert batch.n_id.tolist() == [0, 1, 2]
    assert batch.edge_index.shape == (2, 0)
    assert batch.num_sampled_nodes == [3, 0, 0]


@pytest.mark.parametrize("edge_index", [torch.tensor(3), torch.arange(4), np.array(3)])
def test_edges_of_other_shapes_are_refused(edge_index: torch.Tensor | np.ndarray) -> None:
    with pytest.raises(GraphError, match="edge_index must be integers of 2 dimensions, got int64 of shape"):
        Loader(Data(x=torch.eye(3), edge_index=edge_index, num_nodes=3), [2])


def test_labels_are_those_of_the_data_whichever_is_given(labels_graph: Graph, values_graph: Graph) -> None:
    for graph in (labels_graph, values_graph):
        given, made = (Loader(one, [2], batch_size=8)([0, 3, 5]) for one in (graph, graph.to_pyg()))
        assert given.y.dtype == made.y.dtype
        assert torch.equal(given.y[:3].nan_to_num(-7), made.y[:3].nan_to_num(-7))


@pytest.mark.parametrize("edge_index", [EdgeIndex(EDGES, sparse_size=(3, 3)), EDGES.short(), EDGES.numpy()])
def test_edges_may_be_of_any_integers(edge_index: torch.Tensor | np.ndarray) -> None:
    for batch in Loader(Data(x=torch.eye(3), edge_index=edge_index), [2, 2], batch_size=2):
        assert batch.edge_index.dtype == batch.n_id.dtype == torch.int64
        assert torch.equal(batch.n_id[batch.edge_index], EDGES[:, batch.e_id])


def stores(layout: str) -> tuple[MyFeatureStore, MyGraphStore, torch.Tensor]:
    """A feature store, a graph store of `layout`, and the edges in the order of their ids."""
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.arange(3) * 10, group_name=None, attr_name="x", index=None)
    features.put_tensor(torch.eye(3), group_name=None, attr_name="code", index=None)
    by_target = EDGES[:, EDGES[1].argsort(stable=True)]
    by_source = EDGES[:, EDGES[0].argsort(stable=True)]
    forms = {
        "coo": (EDGES, tuple(EDGES)),
        "csc": (by_target, (by_target[0], torch.tensor([0, 2, 3, 4]))),
        "csr": (by_source, (torch.tensor([0, 1, 3, 4]), by_source[1])),
    }
    listed, given = forms[layout]
    graph.put_edge_index(given, edge_type=None, layout=layout, size=(3, 3))
    return features, graph, listed


class OwnData(Data):
    """A class of the user's own."""


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_stores_are_asked_for_what_was_sampled(layout: str) -> None:
    features, graph, listed = stores(layout)
    for batch in Loader((features, graph), [-1, 1], torch.tensor([0, 2]), batch_size=1, custom_cls=OwnData):
        assert type(batch) is OwnData
        assert torch.equal(batch.x, batch.n_id * 10)
        assert torch.equal(batch.code, torch.eye(3)[batch.n_id])
        assert batch.num_nodes == len(batch.n_id)
        assert torch.equal(batch.n_id[batch.edge_index], listed[:, batch.e_id])


@pytest.mark.parametrize("other", [(1, 2), None])
def test_other_kinds_of_data_are_refused(other: object) -> None:
    with pytest.raises(UsageError, match="data must be a path or spec, an a3gnn Graph or a PyG Data"):
        Loader(other, [4])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]])}, GraphError, "edge_index must be in"),
        ({"edge_index": torch.tensor([[0.0, 1.0], [1.0, 2.0]])}, GraphError, "edge_index must be integers"),
        ({"edge_index": torch.tensor([0, 1, 2])}, GraphError, "edge_index must be integers of 2 dimensions"),
        ({"adj_t": torch.eye(3)}, GraphError, "adj_t must be a sparse tensor"),
    ],
)
def test_a_data_that_cannot_be_served_is_refused(changes: dict, error: type, message: str) -> None:
    fields = {"x": torch.eye(3), "edge_index": EDGES} | changes
    with pytest.raises(error, match=message):
        Loader(Data(**fields), [4])


def test_weights_are_those_of_a_datas_edges() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, w=torch.tensor([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(UsageError, match="weights must be finite and >= 0, 1 of 4 are not"):
        Loader(data, [1], weight_attr="w")
    with pytest.raises(UsageError, match="weight_attr must name an edge attribute, got 'v'"):
        Loader(data, [1], weight_attr="v")
    with pytest.raises(UsageError, match="weights must be 4 numbers, one per edge"):
        Loader(data, [1], weight_attr="x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 5}, "x must have one row per node, got 3 rows for num_nodes 5. Append rows to x"),
        ({"num_nodes": 5, "x": torch.eye(3).to_sparse_csr()}, "x must have one row per node, got 3 rows for num_nod"),
        ({"num_nodes": 5, "x": torch.eye(3).numpy()}, "x must have one row per node, got 3 rows for num_nodes 5"),
        ({"num_nodes": 2}, "x must have one row per node, got 3 rows for num_nodes 2"),
        ({"pos": torch.rand(2, 2)}, "pos must have one row per node, got 2 rows for num_nodes 3"),
        ({"y": torch.arange(2)}, "y must have one value per node, got 2 for num_nodes 3"),
        ({"x": None, "num_nodes": 5, "y": torch.arange(3)}, "y must have one value per node, got 3 for num_nodes 5"),
        ({"val_mask": torch.ones(5).bool()}, "val_mask must have one value per node, got 5 for num_nodes 3"),
        ({"edge_attr": torch.rand(3, 2)}, "edge_attr must have one row per edge, got 3 rows for 4 edges"),
        ({"edge_weight": torch.rand(5)}, "edge_weight must have one row per edge, got 5 rows for 4 edges"),
    ],
)
def test_attributes_of_another_length_are_never_served_unaligned(changes: dict, message: str) -> None:
    data = Data(**({"x": torch.eye(3), "edge_index": EDGES} | changes))
    with pytest.raises(GraphError, match=message):
        Loader(data, [2])


def test_one_label_of_the_whole_graph_is_served_as_it_is() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, y=torch.tensor([7]))
    assert all(batch.y.tolist() == [7] for batch in Loader(data, [2], batch_size=2))


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (["a", "b", "c"], "list"),
        ([1.0, None, 2.0], "list"),
        ([date(2020, 1, day) for day in (1, 2, 3)], "list"),
        (np.array(["a", "b", "c"]), "dtype <U1"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), r"dtype datetime64\[D\]"),
        (np.array([None, 1, 2], dtype=object), "dtype object"),
        (["a", "b", "c", "d"], "list"),
    ],
    ids=str,
)
def test_an_attribute_that_no_tensor_holds_is_named(value: object, got: str) -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, title=value)
    with pytest.raises(UsageError, match=rf"^title must hold numbers, .* got {got} .* or delete data\.title$"):
        Loader(data, [2])


def test_attributes_of_the_whole_graph_may_be_anything() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, title="a graph", made=date(2020, 1, 1), parts=["a", "b"])
    batch = next(iter(Loader(data, [2], batch_size=2)))
    assert (batch.title, batch.made, batch.parts) == ("a graph", date(2020, 1, 1), ["a", "b"])

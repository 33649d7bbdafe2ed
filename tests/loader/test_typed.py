"""`Loader` on graphs with types and times: mini-batches beside the data that they come from, arguments, and errors."""

from __future__ import annotations

import gc
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphConv, GraphSAGE, HeteroConv, SAGEConv, to_hetero
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from a3gnn import Loader, accelerate
from a3gnn.errors import GraphError, MemoryLimitError, UsageError
from a3gnn.graphs.convert import convert
from a3gnn.loader.limited import CutBatch
from a3gnn.process.heap import trim_heap
from a3gnn.process.memory_guard import host_bytes
from a3gnn.sampling.exact_share import Reach, exact_share

COUNTS = {"paper": 60, "author": 40, "term": 5, "lonely": 3}
RELATIONS = {
    ("author", "writes", "paper"): 150,
    ("paper", "rev_writes", "author"): 150,
    ("paper", "cites", "paper"): 120,
    ("paper", "has", "term"): 90,
    ("term", "unused", "author"): 0,
}


@pytest.fixture
def data() -> HeteroData:
    draw, data = torch.Generator().manual_seed(0), HeteroData()
    for kind, count in COUNTS.items():
        if kind != "lonely":
            data[kind].x = torch.arange(count * 2, dtype=torch.float32).reshape(count, 2)
        data[kind].num_nodes = count
    for (source, name, target), edges in RELATIONS.items():
        ends = [torch.randint(COUNTS[kind], (edges,), generator=draw) for kind in (source, target)]
        data[source, name, target].edge_index = torch.stack(ends)
        data[source, name, target].edge_attr = torch.arange(edges)
        data[source, name, target].weight = torch.rand(edges, generator=draw)
        data[source, name, target].when = torch.randint(20, (edges,), generator=draw)
    data["paper"].year = torch.randint(10, (COUNTS["paper"],), generator=draw)
    data["paper"].y = torch.arange(COUNTS["paper"]) % 4
    data.name = "a graph"
    return data


def check(batch: HeteroData, data: HeteroData) -> None:
    """Checks that each edge and row of a mini-batch is the data's."""
    assert batch.node_types == data.node_types
    assert batch.edge_types == data.edge_types
    assert batch.name == data.name
    for kind in data.node_types:
        store = batch[kind]
        assert store.num_nodes == len(store.n_id)
        for name in data[kind].node_attrs():
            assert torch.equal(store[name], data[kind][name][store.n_id])
    for kind in data.edge_types:
        store = batch[kind]
        ends = torch.stack([batch[kind[0]].n_id[store.edge_index[0]], batch[kind[2]].n_id[store.edge_index[1]]])
        assert torch.equal(ends, data[kind].edge_index[:, store.e_id])
        for name in ("edge_attr", "weight", "when"):
            assert torch.equal(store[name], data[kind][name][store.e_id])


def trees_of(batch: HeteroData, kind: tuple[str, str, str]) -> torch.Tensor:
    """Returns the tree of each edge, after a check that no edge connects two."""
    heads, tails = batch[kind].edge_index
    assert torch.equal(batch[kind[0]].batch[heads], batch[kind[2]].batch[tails])
    return batch[kind[2]].batch[tails]


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
@pytest.mark.parametrize("more", [{}, {"replace": True}, {"disjoint": True}, {"weight_attr": "weight"}])
def test_mini_batches_have_the_rows_and_edges_of_the_data(
    data: HeteroData, subgraph_type: str, more: dict[str, Any]
) -> None:
    if subgraph_type == "induced" and "disjoint" in more:
        pytest.skip("refused, as in PyG")
    loader = Loader(data, [3, 2], "paper", batch_size=16, shuffle=True, subgraph_type=subgraph_type, **more)
    batches = list(loader)
    assert len(batches) == len(loader) == 4
    assert sorted(torch.cat([batch["paper"].input_id for batch in batches]).tolist()) == list(range(60))
    for batch in batches:
        check(batch, data)
        seeds = batch["paper"].batch_size
        assert torch.equal(batch["paper"].n_id[:seeds], batch["paper"].input_id)
        assert ("batch" in batch["paper"]) == ("disjoint" in more)


def test_all_edges_within_the_hops_are_there(data: HeteroData) -> None:
    batch = next(iter(Loader(data, [-1], ("paper", torch.tensor([7, 3])), batch_size=2)))
    assert batch["paper"].n_id[:2].tolist() == [7, 3]
    for kind in data.edge_types:
        targets = data[kind].edge_index[1]
        into = torch.isin(targets, torch.tensor([7, 3])) if kind[2] == "paper" else torch.zeros_like(targets).bool()
        assert sorted(batch[kind].e_id.tolist()) == into.nonzero().flatten().tolist()


def test_types_without_nodes_and_relations_without_edges_are_there(data: HeteroData) -> None:
    batch = next(iter(Loader(data, [2, 2], ("author", [0]), batch_size=1)))
    assert batch["term"].x.shape == (0, 2)
    assert batch["lonely"].num_nodes == 0
    assert batch["paper", "has", "term"].edge_index.shape == (2, 0)
    assert batch["term", "unused", "author"].edge_attr.shape == (0,)
    convs = {kind: SAGEConv((-1, -1), 4) for kind in data.edge_types if "term" not in kind}
    assert HeteroConv(convs)(batch.x_dict, batch.edge_index_dict)["author"].shape == (batch["author"].num_nodes, 4)


def test_a_model_by_to_hetero_equals_itself_on_the_whole_graph(data: HeteroData) -> None:
    for kind in [("paper", "has", "term"), ("term", "unused", "author")]:
        del data[kind]
    for kind in ("term", "lonely"):
        del data[kind]

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GraphConv(2, 8), GraphConv(8, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.conv2(self.conv1(x, edges).relu(), edges)

    model = to_hetero(Net(), data.metadata())
    whole = model(data.x_dict, data.edge_index_dict)["paper"]
    batch = next(iter(Loader(data, [-1, -1], ("paper", [5, 2, 9]), batch_size=3)))
    out = model(batch.x_dict, batch.edge_index_dict)["paper"]
    assert torch.allclose(out[:3], whole[[5, 2, 9]], atol=1e-3, rtol=1e-4)


def content(batch: HeteroData) -> list[Any]:
    return [
        [batch[kind].n_id.tolist() for kind in batch.node_types],
        [(batch[kind].edge_index.tolist(), batch[kind].e_id.tolist()) for kind in batch.edge_types],
        batch["paper"].input_id.tolist(),
    ]


def test_mini_batches_do_not_depend_on_workers_copies_or_modes(data: HeteroData) -> None:
    how = {"input_nodes": "paper", "batch_size": 8, "shuffle": True, "seed": 5}
    first = [content(batch) for batch in Loader(data, [3, 2], **how)]
    for more in ({"num_workers": 2}, {"config": {"parallel_mode": "mode2", "num_workers": 1}}):
        assert [content(batch) for batch in Loader(data, [3, 2], **how, **more)] == first
    loader = pickle.loads(pickle.dumps(Loader(data, [3, 2], **how)))
    assert [content(batch) for batch in loader] == first
    assert [content(batch) for batch in loader] != first  # the next epoch
    assert content(loader([4, 1]))[2] == [4, 1]


def test_a_relation_more_moves_no_other_draw_of_the_seeds(data: HeteroData) -> None:
    before = next(iter(Loader(data, [2], "paper", batch_size=20)))
    data["lonely", "new", "paper"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    after = next(iter(Loader(data, [2], "paper", batch_size=20)))
    for kind in before.edge_types:
        assert torch.equal(before[kind].e_id, after[kind].e_id)
    assert after["lonely", "new", "paper"].e_id.tolist() == [0, 1, 2]


def test_fanouts_by_relation(data: HeteroData) -> None:
    fanouts: dict[Any, list[int]] = {kind: [0, 0] for kind in data.edge_types}
    fanouts["author", "writes", "paper"] = [2, 0]
    fanouts["paper", "rev_writes", "author"] = [0, -1]
    batch = next(iter(Loader(data, fanouts, ("paper", [1, 2, 3]), batch_size=3)))
    assert all(count <= 6 for count in batch["author", "writes", "paper"].num_sampled_edges)
    assert batch["author", "writes", "paper"].num_sampled_edges[1] == 0
    assert batch["paper", "cites", "paper"].edge_index.shape == (2, 0)
    authors = set(batch["author"].n_id.tolist())
    expected = sum(int(target) in authors for target in data["paper", "rev_writes", "author"].edge_index[1])
    assert batch["paper", "rev_writes", "author"].edge_index.shape[1] == expected
    named = {"__".join(kind): value for kind, value in fanouts.items()}
    assert content(next(iter(Loader(data, named, ("paper", [1, 2, 3]), batch_size=3)))) == content(batch)


def test_a_fanout_of_0_samples_nothing_in_a_list_or_a_mapping(data: HeteroData) -> None:
    how: dict[str, Any] = {"input_nodes": ("paper", [1, 2, 3]), "batch_size": 3}
    listed = content(next(iter(Loader(data, [2, 0], **how))))
    assert listed == content(next(iter(Loader(data, {kind: [2, 0] for kind in data.edge_types}, **how))))
    assert listed[:2] != content(next(iter(Loader(data, [2, 1], **how))))[:2]
    alone = next(iter(Loader(data, [0], **how)))
    assert [alone[kind].num_nodes for kind in data.node_types] == [3, 0, 0, 0]
    assert all(alone[kind].edge_index.shape == (2, 0) for kind in data.edge_types)
    with pytest.raises(UsageError, match="num_neighbors must be a list, one fanout per hop, got \\[\\]"):
        Loader(data, [], **how)
    with pytest.raises(UsageError, match="num_neighbors must be integers >= 1, or -1"):
        Loader(Data(x=torch.rand(4, 1), edge_index=torch.zeros((2, 1), dtype=torch.long)), [2, 0])


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0,)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_a_relation_without_edges_may_have_any_shape(
    data: HeteroData, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    expected = content(next(iter(Loader(data, [3, 2], "paper", batch_size=9, seed=2))))
    data["term", "unused", "author"].edge_index = torch.empty(shape, dtype=dtype)
    for name in ("edge_attr", "weight", "when"):
        del data["term", "unused", "author"][name]
    batch = next(iter(Loader(data, [3, 2], "paper", batch_size=9, seed=2)))
    assert content(batch) == expected
    assert batch["term", "unused", "author"].edge_index.dtype == torch.int64
    lone = Data(x=torch.rand(5, 2), edge_index=torch.empty(shape, dtype=dtype))
    assert next(iter(Loader(lone, [2], batch_size=3))).edge_index.shape == (2, 0)


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_seeds_after_the_last_time_see_all_and_seeds_before_the_first_see_nothing(
    data: HeteroData, strategy: str
) -> None:
    for kind in data.edge_types:  # all have times
        data[kind].when = data[kind].when.double()
    how: dict[str, Any] = {"input_nodes": "paper", "time_attr": "when", "temporal_strategy": strategy, "batch_size": 60}
    late, last = (next(iter(Loader(data, [-1, 2], input_time=torch.full((60,), t), **how))) for t in (1e30, 19.0))
    assert content(late) == content(last)
    assert late["author", "writes", "paper"].num_sampled_edges[0] == 150
    early = next(iter(Loader(data, [-1, 2], input_time=torch.full((60,), -1e30), **how)))
    assert [early[kind].num_nodes for kind in data.node_types] == [60, 0, 0, 0]
    assert early["paper"].n_id.tolist() == list(range(60))
    assert not any(early[kind].num_edges for kind in data.edge_types)


def test_a_type_of_a_single_node_is_a_type_like_others(data: HeteroData) -> None:
    data["one"].num_nodes = 1
    data["one", "of", "paper"].edge_index = torch.tensor([[0, 0, 0], [5, 6, 6]])
    data["paper", "rev_of", "one"].edge_index = data["one", "of", "paper"].edge_index.flip(0)
    for seeds in ("one", ("one", [0]), ("one", torch.tensor([True]))):
        batch = next(iter(Loader(data, [-1, -1], seeds)))
        assert sorted(batch["paper", "rev_of", "one"].e_id.tolist()) == [0, 1, 2]
        assert batch["one"].n_id.tolist() == [0]
    with pytest.raises(UsageError, match=r"input_nodes must be ids in \[0, 1\), got 1 from 1 to 1"):
        Loader(data, [-1], ("one", [1]))


@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("replace", [False, True])
def test_no_edge_is_later_than_its_seed(data: HeteroData, strategy: str, replace: bool) -> None:
    times = torch.randint(25, (60,), generator=torch.Generator().manual_seed(1)) - 2
    how = {"temporal_strategy": strategy, "replace": replace, "shuffle": True, "batch_size": 16}
    loader = Loader(data, [3, 2], "paper", times, time_attr="when", **how)
    edges = 0
    for batch in loader:
        check(batch, data)
        assert torch.equal(batch["paper"].seed_time, times[batch["paper"].input_id])
        for kind in data.edge_types:
            tree = trees_of(batch, kind)
            assert (batch[kind].when <= batch["paper"].seed_time[tree]).all()
            edges += len(tree)
    assert edges > 100


def test_no_node_is_later_than_its_seed_and_seeds_have_their_own_times(data: HeteroData) -> None:
    for batch in Loader(data, [-1, -1], "paper", time_attr="year", batch_size=16):
        check(batch, data)
        papers = batch["paper"]
        later = papers.year[papers.batch_size :] > papers.year[papers.batch[papers.batch_size :]]
        assert not later.any()
        assert "seed_time" not in papers


def test_times_of_a_graph_without_types() -> None:
    draw = torch.Generator().manual_seed(0)
    data = Data(x=torch.arange(50.0).unsqueeze(1), edge_index=torch.randint(50, (2, 400), generator=draw))
    data.time = torch.rand(400, generator=draw)
    times = torch.rand(50, generator=draw)
    for batch in Loader(data, [-1, 3], input_time=times, time_attr="time", batch_size=10):
        tree = batch.batch[batch.edge_index[1]]
        assert (batch.time <= batch.seed_time[tree]).all()
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        seen = (data.edge_index[1] == batch.n_id[0]) & (data.time <= batch.seed_time[0])
        first = batch.edge_index[1] == 0
        assert sorted(batch.e_id[first].tolist()) == seen.nonzero().flatten().tolist()


def test_both_ways_between_two_types(data: HeteroData) -> None:
    del data["term", "unused", "author"]
    with pytest.warns(UserWarning, match="leaves paper__has__term as it is: a relation back must be named 'rev_has'"):
        batch = next(iter(Loader(data, [2, 2], "paper", batch_size=16, subgraph_type="bidirectional")))
    there, back = batch["author", "writes", "paper"], batch["paper", "rev_writes", "author"]
    pairs = {tuple(pair) for pair in there.edge_index.t().tolist()}
    assert pairs == {tuple(pair) for pair in back.edge_index.flip(0).t().tolist()}
    assert "e_id" not in there
    assert "edge_attr" not in back
    cites = {tuple(pair) for pair in batch["paper", "cites", "paper"].edge_index.t().tolist()}
    assert cites == {(target, source) for source, target in cites}


def test_stores_of_several_types(data: HeteroData) -> None:
    features, graph = MyFeatureStore(), MyGraphStore()
    for kind in ("paper", "author", "term"):
        features.put_tensor(data[kind].x, group_name=kind, attr_name="x", index=None)
    for kind in data.edge_types:
        size = (COUNTS[kind[0]], COUNTS[kind[2]])
        graph.put_edge_index(tuple(data[kind].edge_index), edge_type=kind, layout="coo", size=size)
    batch = next(iter(Loader((features, graph), [-1, -1], ("paper", range(10)), batch_size=10)))
    for kind in ("paper", "author", "term"):
        assert torch.equal(batch[kind].x, data[kind].x[batch[kind].n_id])
    for kind in data.edge_types:
        heads, tails = batch[kind].edge_index
        ends = torch.stack([batch[kind[0]].n_id[heads], batch[kind[2]].n_id[tails]])
        assert torch.equal(ends, data[kind].edge_index[:, batch[kind].e_id])


def unknown_type(data: HeteroData) -> None:
    data["paper", "by", "robot"].edge_index = torch.zeros((2, 1), dtype=torch.int64)


def other_ids(data: HeteroData) -> None:
    data["author", "writes", "paper"].edge_index[1, 0] = 60


def missing_time(data: HeteroData) -> None:
    data["paper", "cites", "paper"].when = torch.full((120,), float("nan"))


@pytest.mark.parametrize(
    ("change", "more", "error", "message"),
    [
        (unknown_type, {}, GraphError, "paper__by__robot names 'robot'; the types are paper, author"),
        (other_ids, {}, GraphError, r"targets of author__writes__paper must be in \[0, 60\).*got 0 to 60"),
        (None, {"input_nodes": "book"}, UsageError, "one of 'paper', 'author', 'term', 'lonely', got 'book'"),
        (None, {"input_nodes": None}, UsageError, "input_nodes must be a type"),
        (None, {"input_nodes": ("author", [40])}, UsageError, r"must be ids in \[0, 40\)"),
        (None, {"num_neighbors": {("paper", "cites", "paper"): [2]}}, UsageError, "for every relation, .* has none"),
        (None, {"num_neighbors": {"nothing": [2]}}, UsageError, "a relation must be one of .*got 'nothing'"),
        (None, {"weight_attr": "none"}, UsageError, "no relation has it"),
        (None, {"time_attr": "none"}, UsageError, "bounds nothing"),
        (None, {"time_attr": "when"}, UsageError, "input_time must be given"),
        (missing_time, {"time_attr": "when", "input_time": torch.zeros(60)}, UsageError, "times must be known, 120 of"),
        (None, {"time_attr": "when", "input_time": torch.zeros(3)}, UsageError, "60 numbers, one per seed"),
        (None, {"time_attr": "when", "input_time": [None] * 60}, UsageError, "60 numbers, one per seed, got object"),
        (
            None,
            {"time_attr": "when", "input_time": torch.full((60,), torch.nan)},
            UsageError,
            "input_time must be known, 60 of 60 are missing .* leave such seeds out",
        ),
        (None, {"input_time": torch.zeros(60)}, UsageError, "give time_attr, too"),
        (None, {"temporal_strategy": "last"}, UsageError, "needs time_attr"),
        (None, {"temporal_strategy": "lats", "time_attr": "when"}, UsageError, "did you mean 'last'"),
        (None, {"adjs": True}, UsageError, "adjs must be False for a graph with types"),
        (None, {"config": {"cache_policy": "access", "cache_bytes": 999}}, UsageError, "cache_policy must be 'degree'"),
        (None, {"config": {"num_partitions": 2}}, UsageError, "num_partitions must be 1 for a graph"),
        (None, {"config": {"seed_order": "proximity"}, "shuffle": True}, UsageError, "seed_order must be 'random'"),
    ],
)
def test_what_can_not_be_is_refused(
    data: HeteroData,
    change: Callable[[HeteroData], None] | None,
    more: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    if change is not None:
        change(data)
    with pytest.raises(error, match=message):
        Loader(data, **{"num_neighbors": [2], "input_nodes": "paper", **more})


def test_other_lengths_of_fanouts_are_a_value_error(data: HeteroData) -> None:
    fanouts = {kind: [1, 1] for kind in data.edge_types} | {("paper", "cites", "paper"): [1]}
    with pytest.raises(ValueError, match="hops must be the same across all"):
        Loader(data, fanouts, "paper")


def test_memory_maps_and_half_precision(data: HeteroData, tmp_path: Any) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(60, 3))
    rows[:] = np.arange(180).reshape(60, 3)
    data["paper"].x = np.load(tmp_path / "x.npy", mmap_mode="r")
    data["author"].x = data["author"].x.half()
    batch = next(iter(Loader(data, [2, 2], "paper", batch_size=16)))
    assert np.array_equal(batch["paper"].x.numpy(), rows[batch["paper"].n_id.numpy()])
    assert batch["author"].x.dtype == torch.float32


def test_a_file_of_several_types_is_taken(tmp_path: Any) -> None:
    arrays = {
        "node_types": np.array(["a", "b"]),
        "num_nodes": np.array([3, 2]),
        "x__a": np.arange(6, dtype=np.float32).reshape(3, 2),
        "edge_types": np.array(["a__to__b"]),
        "edge_index__a__to__b": np.array([[0, 1, 2], [0, 1, 1]]),
    }
    np.savez(tmp_path / "typed.npz", **arrays)
    loader = Loader(str(tmp_path / "typed.npz"), [-1], ("b", [1]))
    (tmp_path / "typed.npz").unlink()
    for batch in (next(iter(loader)), next(iter(pickle.loads(pickle.dumps(loader))))):
        assert batch["a"].x.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_inference_by_layers_is_refused_with_times() -> None:
    data = Data(x=torch.rand(30, 3), edge_index=torch.randint(30, (2, 90)), t=torch.arange(30))
    with pytest.raises(UsageError, match="got a time_attr"):
        GraphSAGE(3, 8, 2, 2).eval().inference(Loader(data, [-1], time_attr="t", batch_size=7))


def test_times_of_edges_that_are_as_many_as_nodes_are_of_edges() -> None:
    data = Data(x=torch.rand(30, 3), edge_index=torch.randint(30, (2, 30)), edge_time=torch.arange(30))
    for batch in Loader(data, [-1], input_time=torch.full((30,), 14), time_attr="edge_time", batch_size=30):
        assert sorted(batch.e_id.tolist()) == list(range(15))


@pytest.mark.parametrize("other", ["gradient", "narrower", "shorter", "double"])
def test_an_x_that_has_changed_is_read_as_it_is(data: HeteroData, other: str) -> None:
    loader = Loader(data, [2], "paper", batch_size=60)
    x = data["paper"].x
    if other == "gradient":
        x.requires_grad_()
    else:
        x.data = {"narrower": x[:, :1].clone(), "shorter": x[:50].clone(), "double": x.double()}[other]
    if other == "shorter":
        with pytest.raises(GraphError, match="x of 'paper' must have one row per node, got 50 rows"):
            next(iter(loader))
        return
    batch = next(iter(loader))
    assert torch.equal(batch["paper"].x, x[batch["paper"].n_id])
    assert batch["paper"].x.requires_grad == (other == "gradient")


def test_missing_times_of_nodes_are_said_of_nodes(data: HeteroData) -> None:
    data["paper"].year = torch.where(torch.arange(60) < 3, float("nan"), torch.arange(60.0))
    with pytest.raises(UsageError, match=r"times must be known, 3 of 60 .* leave such nodes out"):
        Loader(data, [2], "paper", time_attr="year")
    data["paper"].year = torch.ones(60, dtype=torch.bool)
    with pytest.raises(UsageError, match="times must be 60 numbers, one per node, got bool"):
        Loader(data, [2], "paper", time_attr="year")


def test_features_of_more_nodes_are_refused(data: HeteroData) -> None:
    data["paper"].x = torch.rand(61, 2)
    with pytest.raises(GraphError, match="x of 'paper' must have one row per node, got 61 rows for num_nodes 60"):
        Loader(data, [2], "paper")


@pytest.fixture
def wide() -> HeteroData:
    """Two types with features of other widths, one with sparse ones, and one without."""
    draw, data = torch.Generator().manual_seed(3), HeteroData()
    for kind, count, width in (("paper", 900, 40), ("author", 600, 8), ("term", 200, 0), ("venue", 50, 12)):
        if width:
            data[kind].x = torch.randn(count, width, generator=draw)
        data[kind].num_nodes = count
    data["venue"].x = data["venue"].x.relu().to_sparse_csr()
    data["paper"].y = torch.randint(3, (900,), generator=draw)
    data["paper"].year = torch.randint(10, (900,), generator=draw)
    for source, name, target, edges in (
        ("author", "writes", "paper", 4000),
        ("paper", "rev_writes", "author", 4000),
        ("paper", "cites", "paper", 3000),
        ("venue", "has", "paper", 900),
        ("term", "in", "paper", 500),
    ):
        ends = [torch.randint(data[kind].num_nodes, (edges,), generator=draw) for kind in (source, target)]
        data[source, name, target].edge_index = torch.stack(ends)
    return data


def x_of(data: HeteroData) -> dict[str, torch.Tensor]:
    return {kind: x.to_dense() for kind, x in data.x_dict.items()}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"feature_tier": "disk"},
        {"feature_tier": "disk", "cache_bytes": 60_000},
        {"feature_tier": "disk", "cache_bytes": 10_000_000, "bias_rate": 4.0},
        {"parallel_mode": "mode1", "num_workers": 2},
        {"feature_tier": "disk", "parallel_mode": "mode2", "num_workers": 1},
    ],
)
def test_features_of_every_type_come_from_tiers_and_one_cache(wide: HeteroData, config: dict[str, Any]) -> None:
    loader, rows = Loader(wide, [5, 5], "paper", batch_size=100, config=config), x_of(wide)
    store = loader._pipeline.store
    assert store.cache_bytes <= config.get("cache_bytes", 0)
    for batch in loader:
        assert {*batch.x_dict} == {*rows}
        for kind, x in rows.items():
            assert torch.equal(batch[kind].x, x[batch[kind].n_id])
    if "cache_bytes" in config:
        held = store.cached
        assert 0 < len(held) <= 1550
        assert store.stats.hits > 0
        if config["cache_bytes"] > 1_000_000:  # all rows of the three types, and no node of terms
            assert held.tolist() == [*range(1500), *range(1700, 1750)]


def test_a_cache_holds_the_rows_that_are_sampled_most_per_byte(wide: HeteroData) -> None:
    config = {"feature_tier": "disk", "cache_bytes": 40_000}
    held = Loader(wide, [5], "paper", config=config)._pipeline.store.cached
    first = {"paper": 0, "author": 900, "term": 1500, "venue": 1700}
    entries, sizes = np.zeros(1750), np.zeros(1750)
    for kind in wide.edge_types:
        np.add.at(entries, first[kind[0]] + wide[kind].edge_index[0].numpy(), 1)
    sizes[:900], sizes[900:1500] = 4 * 40, 4 * 8
    sizes[1700:] = 8 * wide["venue"].x.crow_indices().diff().numpy() + 8
    per_byte = np.divide(entries, sizes, where=sizes > 0, out=np.zeros(1750))
    others = np.setdiff1d(np.arange(1750), held)
    assert {int(np.searchsorted([900, 1500, 1700], node, side="right")) for node in held} == {0, 1, 3}
    assert per_byte[held].min() >= per_byte[others].max()
    taken = sizes[held].sum() + 4 * (900 + 600 + 50)
    assert 39_000 < taken <= 40_000


def test_half_precision_halves_the_rows_of_every_type(wide: HeteroData) -> None:
    whole, half = (Loader(wide, [5], "paper", config={"feature_dtype": dtype}) for dtype in ("float32", "float16"))
    one, other = next(iter(whole)), next(iter(half))
    for kind, x in other.x_dict.items():
        assert x.dtype == torch.float32
        assert torch.equal(x, one[kind].x.half().float())


def test_a_cache_of_half_precision_holds_more_rows(wide: HeteroData) -> None:
    config = {"feature_tier": "disk", "cache_bytes": 80_000}
    stores = [
        Loader(wide, [5], "paper", config={**config, "feature_dtype": dtype})._pipeline.store
        for dtype in ("float32", "float16")
    ]
    for store in stores:
        assert 79_000 < store.cache_bytes <= 80_000
    assert len(stores[1].cached) > len(stores[0].cached) + 200


def test_an_x_that_is_no_feature_stays_an_attribute(wide: HeteroData) -> None:
    wide["author"].x[3] = float("nan")
    wide["paper"].x = wide["paper"].x.long()
    batch = next(iter(Loader(wide, [5, 5], "paper", batch_size=100)))
    for kind in ("author", "paper"):
        assert torch.equal(batch[kind].x.nan_to_num(), wide[kind].x[batch[kind].n_id].nan_to_num())
        assert batch[kind].x.dtype == wide[kind].x.dtype


def test_an_x_in_shared_memory_is_followed(wide: HeteroData) -> None:
    loader = Loader(wide, [5, 5], "paper", batch_size=100)
    next(iter(loader))
    wide["author"].x.share_memory_()
    wide["author"].x[:] = 7.0
    batch = next(iter(loader))
    assert (batch["author"].x == 7).all()
    assert torch.equal(batch["paper"].x, wide["paper"].x[batch["paper"].n_id])


class Relational(torch.nn.Module):
    def __init__(self, kinds: list[tuple[str, str, str]], width: int = 64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.terms = torch.nn.Embedding(200, 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # types that are only sources
            self.first = HeteroConv({kind: SAGEConv((-1, -1), width) for kind in kinds})
            self.second = HeteroConv(
                {kind: GraphConv((width, width), 3) for kind in kinds if kind[1] in ("writes", "cites")}
            )

    def forward(self, batch: HeteroData) -> torch.Tensor:
        x = {**batch.x_dict, "term": self.terms(batch["term"].n_id)}
        x = {kind: rows.relu() for kind, rows in self.first(x, batch.edge_index_dict).items()}
        out: torch.Tensor = self.second(x, batch.edge_index_dict)["paper"]
        return out[: batch["paper"].batch_size]


def gradients(model: torch.nn.Module, batch: HeteroData, weight: float = 1.0) -> torch.Tensor:
    """Adds the gradients of the loss, and returns the outputs at the seeds."""
    out = model(batch)
    (torch.nn.functional.cross_entropy(out, batch["paper"].y[: len(out)]) * weight).backward()
    return out.detach()


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@pytest.mark.parametrize("reach", [Reach(2, degrees=False), Reach(2, degrees=True), Reach(4, False), Reach(None, True)])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("more", [{}, {"time_attr": "year"}, {"disjoint": True}])
def test_shares_within_a_memory_limit_add_up(
    wide: HeteroData, reach: Reach, more: dict[str, Any], joined: bool
) -> None:
    how = {"num_neighbors": [4, 3], "input_nodes": "paper", "batch_size": 300, **more}
    model = Relational(wide.edge_types)
    expected = []
    for batch in Loader(wide, **how):
        model.zero_grad()
        out = gradients(model, batch)
        expected.append((batch["paper"].input_id, out, flat(model)))
    model.zero_grad()
    model = accelerate(model) if joined else model
    loader = Loader(wide, memory_limit=1 << 50, **how)
    assert loader.limited is not None
    for batch, (input_id, outs, grads) in zip(loader, expected, strict=True):
        model.zero_grad()
        ids, found = [], []
        loop = batch.shares
        whole = loop.batch.subgraph
        parts = [exact_share(whole, low, min(low + 70, 300), reach) for low in range(0, 300, 70)]
        for part, low in zip(parts, range(0, 300, 70), strict=True):
            share = loader.limited._share(loop, part, loop.seeds.within(low, min(low + 70, 300)))
            assert share["paper"].batch_size == part.num_seeds
            found.append(gradients(model, share, share.seed_share))
            ids.append(share["paper"].input_id)
        assert torch.equal(torch.cat(ids), input_id)
        assert torch.allclose(torch.cat(found), outs, atol=1e-5)
        assert torch.allclose(flat(model), grads, atol=1e-5)


def test_a_mini_batch_above_the_limit_is_cut(wide: HeteroData) -> None:
    model = Relational(wide.edge_types, width=512)
    with torch.no_grad():
        model(next(iter(Loader(wide, [4, 3], "paper", batch_size=4))))
    gc.collect()
    trim_heap()
    limit = host_bytes() + (20 << 20)
    loader = Loader(wide, [20, 20], "paper", batch_size=900, memory_limit=limit, model=model)
    assert loader.limited is not None
    seeds = 0
    for batch in loader:
        with pytest.raises(MemoryLimitError, match="paper is in the shares of this mini-batch"):
            CutBatch(batch.shares)["paper"]
        for share in batch.shares():
            gradients(model, share, share.seed_share)
            seeds += share["paper"].batch_size
    assert seeds == 900
    assert loader.limited.shares > 1


@pytest.mark.parametrize("more", [{}, {"time_attr": "year"}])
def test_ranks_take_shares_of_each_mini_batch(wide: HeteroData, more: dict[str, Any]) -> None:
    model, how = Relational(wide.edge_types), {"input_nodes": "paper", "batch_size": 300, "shuffle": True, **more}
    ranks = [Loader(wide, [4, 3], share=(rank, 2), **how) for rank in range(2)]
    for whole, *shares in zip(Loader(wide, [4, 3], **how), *ranks, strict=True):
        model.zero_grad()
        out = gradients(model, whole)
        expected = flat(model)
        model.zero_grad()
        outs = [gradients(model, share, share.seed_share) for share in shares]
        assert torch.allclose(torch.cat(outs), out, atol=1e-5)
        assert torch.allclose(flat(model), expected, atol=1e-5)


def test_features_of_a_folder_are_read_from_its_files(
    wide: HeteroData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    torch.save(wide, tmp_path / "wide.pt")
    convert(str(tmp_path / "wide.pt"), tmp_path / "folder")
    rows = 4 * (900 * 40 + 600 * 8)
    for tier, held in (("ram", rows), ("disk", 0)):
        loader = Loader(str(tmp_path / "folder"), [5, 5], "paper", batch_size=100, config={"feature_tier": tier})
        stores = loader._pipeline.store._stores
        assert sum(one.host_bytes for one in stores[:2]) == held
        for batch in loader:
            for kind, x in x_of(wide).items():
                assert torch.equal(batch[kind].x, x[batch[kind].n_id])
    copied = [path for path in (tmp_path / "cache").rglob("*.npy") if path.stat().st_size > 4 * 600 * 8]
    assert copied == []  # of the dense features


def test_features_stay_on_disk_if_they_would_take_the_memory(tmp_path: Path) -> None:
    data = HeteroData()
    data["a"].x = torch.rand(40_000, 200)  # 31 MiB
    data["a", "to", "a"].edge_index = torch.randint(40_000, (2, 1000))
    data["b"].num_nodes = 1
    torch.save(data, tmp_path / "a.pt")
    convert(str(tmp_path / "a.pt"), tmp_path / "folder")
    del data
    Loader(str(tmp_path / "folder"), [2], ("a", [0]), memory_limit="64GiB")  # imports and kernels
    gc.collect()
    trim_heap()
    loader = Loader(str(tmp_path / "folder"), [2], ("a", [0, 1]), memory_limit=host_bytes() + (48 << 20))
    assert loader._pipeline.store.host_bytes == 0
    assert loader._pipeline.store._stores[0] is not None
    loader = Loader(str(tmp_path / "folder"), [2], ("a", [0, 1]), memory_limit="64GiB")
    assert loader._pipeline.store.host_bytes == 40_000 * 200 * 4


def test_a_mini_batch_shares_no_store_with_others(data: HeteroData) -> None:
    loader = Loader(data, [2], ("paper", [1, 2, 3]), batch_size=3)
    first = next(iter(loader))
    assert all(store._parent() is first for store in first.stores)
    first.name, first["paper"].x, first["paper"].new = "changed", None, 1
    del first["author", "writes", "paper"]
    batch = next(iter(loader))
    check(batch, data)
    assert "new" not in batch["paper"]
    assert "new" not in data["paper"]


def test_a_class_with_a_copy_of_its_own_is_copied_by_it() -> None:
    class Named(HeteroData):
        def __copy__(self) -> HeteroData:
            out = super().__copy__()
            out.copies = getattr(self, "copies", 0) + 1
            return out

    data = Named()
    data["a"].x = torch.arange(4.0).unsqueeze(1)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    batch = next(iter(Loader(data, [-1], "a", batch_size=4)))
    assert type(batch) is Named
    assert batch.copies > 1
    assert batch["a"].x.flatten().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_type_without_nodes_keeps_its_x(wide: HeteroData) -> None:
    wide["none"].x = torch.empty(0, 5)
    wide["none", "to", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    for config in ({}, {"feature_tier": "disk", "cache_bytes": 50_000}):
        for batch in Loader(wide, [2, 2], "paper", batch_size=300, config=config):
            assert batch["none"].x.shape == (0, 5)


def test_an_x_that_is_set_again_and_again_is_followed(wide: HeteroData) -> None:
    loader = Loader(wide, [2, 2], "paper", batch_size=100)
    for width in (40, 7, 3):
        wide["paper"].x.data = torch.randn(900, width)
        batch = next(iter(loader))
        assert torch.equal(batch["paper"].x, wide["paper"].x[batch["paper"].n_id])


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[:1].expand(6, 6)])
def test_a_view_of_a_file_is_no_file(view: Any, tmp_path: Path) -> None:
    data = HeteroData()
    data["a"].x = torch.rand(6, 6)
    data["a", "to", "a"].edge_index = torch.randint(6, (2, 20))
    opened = convert(data, tmp_path / "folder")
    assert isinstance(opened, HeteroData)
    opened["a"].x = view(opened["a"].x)
    for tier in ("ram", "disk"):
        batch = next(iter(Loader(opened, [2], "a", config={"feature_tier": tier})))
        assert torch.equal(batch["a"].x, view(data["a"].x)[batch["a"].n_id])


class InTurn(torch.nn.Module):
    """Its relations are called one after the other, each with the rows of the last."""

    def __init__(self, kinds: list[tuple[str, str, str]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.ModuleDict({"paper": torch.nn.Linear(40, 8), "author": torch.nn.Linear(8, 8)})
        self.convs = torch.nn.ModuleDict({"__".join(kind): SAGEConv((8, 8), 8) for kind in kinds})
        self.kinds = kinds

    def forward(self, batch: HeteroData) -> torch.Tensor:
        x = {kind: layer(batch[kind].x) for kind, layer in self.first.items()}
        for kind in self.kinds:
            ends = x[kind[0]], x[kind[2]]
            x[kind[2]] = self.convs["__".join(kind)](ends, batch[kind].edge_index).relu()
        return x["paper"][: batch["paper"].batch_size]


class Again(torch.nn.Module):
    """Calls one layer several times."""

    def __init__(self, kinds: list[tuple[str, str, str]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.ModuleDict({"paper": torch.nn.Linear(40, 8), "author": torch.nn.Linear(8, 8)})
        self.conv = HeteroConv({kind: SAGEConv((8, 8), 8) for kind in kinds})

    def forward(self, batch: HeteroData) -> torch.Tensor:
        x = {kind: layer(batch[kind].x) for kind, layer in self.first.items()}
        for _ in range(3):
            x |= {kind: rows.relu() for kind, rows in self.conv(x, batch.edge_index_dict).items()}
        return x["paper"][: batch["paper"].batch_size]


@pytest.mark.parametrize("make", [InTurn, Again])
@pytest.mark.parametrize("known", [True, False])
def test_shares_suit_relations_in_turn_and_layers_that_repeat(wide: HeteroData, make: Any, known: bool) -> None:
    kinds = [("paper", "rev_writes", "author"), ("author", "writes", "paper"), ("paper", "cites", "paper")]
    model = make(kinds)
    loader = Loader(wide, [4], "paper", batch_size=300, memory_limit=1 << 50, model=model if known else None)
    limited = loader.limited
    assert limited is not None
    for number, batch in enumerate(loader):
        for share in batch.shares():  # the whole mini-batch, from which the loader learns how the model reads
            model.zero_grad()
            outs = gradients(model, share)
            expected = flat(model)
        if number == 0:
            continue
        model.zero_grad()
        loop, found = batch.shares, []
        whole = loop.batch.subgraph
        for low in range(0, 300, 70):
            high = min(low + 70, 300)
            part = exact_share(whole, low, high, limited._reach_of(whole))
            share = limited._share(loop, part, loop.seeds.within(low, high))
            found.append(gradients(model, share, share.seed_share))
        assert torch.allclose(torch.cat(found), outs, atol=1e-5)
        assert torch.allclose(flat(model), expected, atol=1e-5)

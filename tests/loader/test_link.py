"""`LinkNeighborLoader` beside plain rules: places of pairs, labels, and negatives that depend on their key alone."""

import copy
import math
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import a3gnn
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.link import LinkNeighborLoader

NODES, EDGES = 40, 150
WORD = 2**64 - 1


def random_data(seed: int = 0, nodes: int = NODES, edges: int = EDGES, **more: Any) -> Data:
    draw = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(nodes, 3, generator=draw),
        edge_index=torch.randint(nodes, (2, edges), generator=draw),
        edge_attr=torch.arange(edges),
        **more,
    )


def pairs_of(batch: Data) -> list[tuple[int, int]]:
    """Returns the pairs of a mini-batch as ids in the data."""
    return [(int(u), int(v)) for u, v in batch.n_id[batch.edge_label_index].t()]


def triplets_of(batch: Data) -> list[tuple[int, int, int]]:
    """Returns the source, the target and a negative target of each triplet as ids in the data."""
    n_id, negatives = batch.n_id, batch.dst_neg_index.view(len(batch.src_index), -1)
    sources, targets = n_id[batch.src_index].tolist(), n_id[batch.dst_pos_index].tolist()
    return [(u, v, w) for u, v, row in zip(sources, targets, n_id[negatives].tolist(), strict=True) for w in row]


def content(batches: Iterable[Data]) -> list[dict[str, Any]]:
    names = ("n_id", "edge_index", "e_id", "x", "input_id", "edge_label_index", "edge_label", "dst_neg_index", "batch")
    return [{name: batch[name].tolist() for name in names if name in batch} for batch in batches]


def mixed(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def folded(key: int, word: int) -> int:
    return mixed((key + 0x9E3779B97F4A7C15 * (word + 1)) & WORD)


def side_key(seed: int, epoch: int, batch: int, side: int) -> int:
    """Returns the key of sources (0) or targets (1)."""
    return folded(folded(folded(mixed(seed), epoch), batch), (1 << 31) + side)


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_a_batch_has_the_ends_of_its_pairs_first_then_their_in_neighbors(subgraph_type: str) -> None:
    data = random_data()
    pairs = torch.randint(NODES, (2, 70), generator=torch.Generator().manual_seed(4))
    loader = LinkNeighborLoader(data, [-1], pairs, batch_size=16, shuffle=True, subgraph_type=subgraph_type)
    seen = []
    for batch in loader:
        ends = {node for pair in pairs_of(batch) for node in pair}
        into = [e for e, (_, v) in enumerate(data.edge_index.t().tolist()) if v in ends]
        nodes = ends | set(data.edge_index[0, into].tolist())
        if subgraph_type == "induced":
            into = [e for e, pair in enumerate(data.edge_index.t().tolist()) if set(pair) <= nodes]
        assert sorted(batch.n_id.tolist()) == sorted(nodes)
        assert set(batch.n_id[: len(ends)].tolist()) == ends
        assert sorted(batch.e_id.tolist()) == into
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, batch.e_id)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_label_index], pairs[:, batch.input_id])
        assert batch.edge_label_index.dtype == batch.input_id.dtype == torch.int64
        assert not {"batch_size", "edge_label", "edge_label_time", "batch"} & {*batch.keys()}
        seen += batch.input_id.tolist()
    assert sorted(seen) == list(range(70))
    assert seen != list(range(70))


def test_all_edges_are_the_pairs_by_default_in_the_order_of_the_data(tiny_graph: Graph) -> None:
    data = random_data()
    of_matrix = Data(num_nodes=NODES, adj_t=torch.sparse_coo_tensor(data.edge_index.flip(0), torch.ones(EDGES)))
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graph.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(NODES, NODES))
    targets = np.repeat(np.arange(tiny_graph.num_nodes), np.diff(tiny_graph.indptr))
    by_target = sorted(set(map(tuple, data.edge_index.t().tolist())), key=lambda pair: pair[::-1])
    cases: list[tuple[Any, list[Any]]] = [
        (data, data.edge_index.t().tolist()),
        ((features, graph), data.edge_index.t().tolist()),
        (of_matrix, by_target),
        (tiny_graph, np.stack([tiny_graph.indices, targets]).T.tolist()),
    ]
    for given, expected in cases:
        loader = LinkNeighborLoader(given, [2], batch_size=64)
        assert len(loader) == -(-len(expected) // 64)
        assert [pair for batch in loader for pair in pairs_of(batch)] == list(map(tuple, expected))


def test_edges_of_int32_and_an_empty_list_of_hops_are_taken() -> None:
    data = Data(num_nodes=NODES, edge_index=random_data().edge_index.int())
    for batch in LinkNeighborLoader(data, [], batch_size=20):
        assert batch.edge_index.shape == (2, 0)
        assert sorted(batch.n_id.tolist()) == sorted({node for pair in pairs_of(batch) for node in pair})
    lone = LinkNeighborLoader(Data(num_nodes=5), [], [[0, 4], [4, 4]], neg_sampling="binary", disjoint=True)
    assert next(iter(lone)).n_id.tolist()[:2] == [0, 4]


@pytest.mark.parametrize("amount", [1, 0.5, 2.3])
def test_binary_negatives_have_the_bits_of_their_key(amount: float) -> None:
    data = random_data()
    loader = LinkNeighborLoader(data, [3], neg_sampling=NegativeSampling("binary", amount), batch_size=32, seed=7)
    for epoch in range(2):
        for number, batch in enumerate(loader):
            pairs, count = pairs_of(batch), len(batch.input_id)
            more = math.ceil(count * amount)
            keys = [side_key(7, epoch, number, side) for side in range(2)]
            drawn = [tuple(folded(key, j) * NODES >> 64 for key in keys) for j in range(more)]
            assert pairs == [*map(tuple, data.edge_index[:, batch.input_id].t().tolist()), *drawn]
            assert batch.edge_label.tolist() == [1.0] * count + [0.0] * more
            assert batch.edge_label.dtype == torch.float32


@pytest.mark.parametrize("amount", [1, 3])
@pytest.mark.parametrize("disjoint", [False, True])
def test_triplets_have_the_bits_of_their_key(amount: int, disjoint: bool) -> None:
    data = random_data(edge_label_index=torch.zeros(2, 3), edge_label_time=torch.zeros(3))
    sampling = {"mode": "triplet", "amount": amount}
    loader = LinkNeighborLoader(data, [2], neg_sampling=sampling, batch_size=32, seed=3, disjoint=disjoint)
    for number, batch in enumerate(loader):
        count, key = len(batch.input_id), side_key(3, 0, number, 1)
        pairs = data.edge_index[:, batch.input_id].t().tolist()
        drawn = [folded(key, j) * NODES >> 64 for j in range(count * amount)]
        assert triplets_of(batch) == [(*pairs[j // amount], node) for j, node in enumerate(drawn)]
        assert batch.dst_neg_index.shape == ((count,) if amount == 1 else (count, amount))
        assert not {"edge_label_index", "edge_label", "edge_label_time"} & {*batch.keys()}


@pytest.mark.parametrize("sampling", [None, {"mode": "binary", "amount": 0.5}, {"mode": "triplet", "amount": 2}])
def test_the_ends_of_a_pair_have_trees_of_their_own_that_name_the_pair(sampling: Any) -> None:
    data, size = random_data(), 32
    for batch in LinkNeighborLoader(data, [3, 2], neg_sampling=sampling, batch_size=size, disjoint=True):
        count = len(batch.input_id)
        by_pair = [batch.src_index, batch.dst_pos_index] if "src_index" in batch else [*batch.edge_label_index]
        for places in by_pair:
            assert batch.batch[places].tolist() == [j % count for j in range(len(places))]
        if "src_index" in batch:
            assert batch.batch[batch.dst_neg_index].tolist() == [[j, j] for j in range(count)]
            by_pair.append(batch.dst_neg_index.flatten())
        assert sorted(torch.cat(by_pair).tolist()) == list(range(sum(map(len, by_pair))))  # no two ends share a node
        assert torch.equal(*batch.batch[batch.edge_index])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 1},
        {"num_workers": 3},
        {"num_workers": 2, "config": TrainConfig(parallel_mode="mode2")},
        {"config": TrainConfig(feature_tier="disk")},
        {"config": TrainConfig(cache_bytes=400, bias_rate=1.0)},
    ],
)
@pytest.mark.parametrize("sampling", ["binary", "triplet"])
def test_workers_and_modes_change_nothing(sampling: str, options: dict[str, Any], tiny_graph: Graph) -> None:
    arguments: dict[str, Any] = {"neg_sampling": sampling, "batch_size": 200, "shuffle": True, "avoid_known": True}
    plain, other = (LinkNeighborLoader(tiny_graph, [4, 3], **arguments, **more) for more in ({}, options))
    for _ in range(2):
        assert content(plain) == content(other)


def test_the_seed_decides_every_epoch_and_copies_go_on_with_the_next_one() -> None:
    def loader(seed: int) -> LinkNeighborLoader:
        return LinkNeighborLoader(random_data(), [2], neg_sampling_ratio=2.0, batch_size=50, shuffle=True, seed=seed)

    one, other = loader(1), loader(2)
    first, second = content(one), content(one)
    assert first != second
    assert first != content(other)
    again = loader(1)
    torch.manual_seed(5)
    assert content(again) == first
    for copied in (copy.copy(again), copy.deepcopy(again), pickle.loads(pickle.dumps(again))):
        assert type(copied) is LinkNeighborLoader
        assert content(copied) == second
    assert content([again([3, 5])]) != content([again([3, 5])])
    calls = loader(1), loader(1)
    assert content([calls[0]([3, 5])]) == content([calls[1](torch.tensor([3, 5]))])
    assert pairs_of(calls[0]([-1]))[0] == tuple(random_data().edge_index[:, -1].tolist())


def test_orders_and_sizes_are_those_of_a_loader() -> None:
    data = random_data()
    assert repr(LinkNeighborLoader(data, [2])) == "LinkNeighborLoader()"
    assert len(LinkNeighborLoader(data, [2], batch_size=40)) == 4
    assert [len(batch.input_id) for batch in LinkNeighborLoader(data, [2], batch_size=40, drop_last=True)] == [40] * 3
    lists = [[5, 5, 2], [149], [0, 1]]
    loader = LinkNeighborLoader(data, [2], batch_sampler=lists, input_id=torch.arange(EDGES) * 10, transform=list)
    assert loader.edge_label_index is None
    loader.transform = None
    assert [batch.input_id.tolist() for batch in loader] == [[place * 10 for place in places] for places in lists]
    assert [len(pairs_of(batch)) for batch in loader] == [3, 1, 2]
    assert a3gnn.LinkNeighborLoader is LinkNeighborLoader


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool])
def test_labels_keep_their_type_and_0_is_left_to_negatives(dtype: torch.dtype, least: int) -> None:
    labels = (torch.arange(EDGES) % 2 + least).to(dtype)
    plain = LinkNeighborLoader(random_data(), [2], edge_label=labels.tolist(), batch_size=64)
    assert torch.cat([batch.edge_label for batch in plain]).tolist() == labels.tolist()
    loader = LinkNeighborLoader(random_data(), [2], None, labels, neg_sampling="binary", batch_size=64, shuffle=True)
    for batch in loader:
        count = len(batch.input_id)
        raised = labels + 1 if labels.min() == 0 else labels
        assert torch.equal(batch.edge_label[:count], raised[batch.input_id])
        assert batch.edge_label.dtype == raised.dtype
        assert not batch.edge_label[count:].any()
    rows = torch.ones(EDGES, 3)
    wide = next(iter(LinkNeighborLoader(random_data(), [2], None, rows, neg_sampling="binary", batch_size=10)))
    assert wide.edge_label.shape == (20, 3)


def counted(loader: LinkNeighborLoader, epochs: int) -> np.ndarray:
    """Returns how often each pair was drawn as a negative, shape (NODES, NODES)."""
    counts = np.zeros((NODES, NODES))
    for batch in (batch for _ in range(epochs) for batch in loader):
        if "dst_neg_index" in batch:
            drawn = [(u, w) for u, _, w in triplets_of(batch)]
        else:
            drawn = pairs_of(batch)[len(batch.input_id) :]
        np.add.at(counts, tuple(np.array(drawn).T), 1)
    return counts


def dense_data(free: int) -> Data:
    """Returns a graph that lacks only `free` pairs, all of a few nodes, and one node with edges from all nodes."""
    missing = torch.randperm(8 * NODES, generator=torch.Generator().manual_seed(2))[:free]
    lacking = torch.ones(NODES, NODES, dtype=torch.bool)
    lacking.view(-1)[missing * 5 % (NODES * NODES)] = False
    lacking[:, 9] = True
    return Data(num_nodes=NODES, edge_index=lacking.nonzero().t())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("avoid", [False, True])
@pytest.mark.parametrize("data", [random_data(), dense_data(60)], ids=["sparse", "dense"])
def test_binary_negatives_follow_their_weights_among_the_allowed_pairs(data: Data, avoid: bool, weighted: bool) -> None:
    weights = np.random.default_rng(1).integers(0, 4, size=(2, NODES)).astype(float)
    if not weighted:
        weights[:] = 1
    chances = np.outer(*weights)
    if avoid:
        chances[tuple(data.edge_index)] = 0
    of_ends = {"src_weight": torch.tensor(weights[0]), "dst_weight": weights[1]} if weighted else {}
    loader = LinkNeighborLoader(
        data, [], data.edge_index[:, :50], neg_sampling={"mode": "binary", "amount": 200} | of_ends, avoid_known=avoid
    )
    counts = counted(loader, 3)
    assert not counts[chances == 0].any()
    expected = chances[chances > 0] * counts.sum() / chances.sum()
    assert chisquare(counts[chances > 0], expected).pvalue > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("avoid", [False, True])
def test_triplets_follow_their_weights_among_the_allowed_targets(avoid: bool, weighted: bool) -> None:
    draw = np.random.default_rng(3)
    weights = draw.integers(0, 4, size=NODES).astype(float) if weighted else np.ones(NODES)
    known = draw.random((NODES, NODES)) < np.linspace(0, 0.97, NODES)[:, None]
    known[:, :4], weights[:4] = False, 1.0
    data = Data(num_nodes=NODES, edge_index=torch.tensor(np.stack(known.nonzero())))
    sampling = {"mode": "triplet", "amount": 300, "dst_weight": weights if weighted else None}
    pairs = np.stack([np.arange(NODES), np.zeros(NODES, dtype=np.int64)])
    counts = counted(LinkNeighborLoader(data, [], pairs, neg_sampling=sampling, avoid_known=avoid), 3)
    chances = np.where(known & avoid, 0.0, weights)
    chances[:, 0] = 0.0 if avoid else chances[:, 0]  # the given pairs are known, too
    for source in range(NODES):
        drawn, allowed = counts[source], chances[source] > 0
        assert not drawn[~allowed].any()
        expected = chances[source, allowed] * drawn.sum() / chances[source].sum()
        assert chisquare(drawn[allowed], expected).pvalue > 1e-5


@pytest.mark.parametrize("seed", range(12))
def test_a_negative_is_never_a_known_pair_however_few_are_free(seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes = int(draw.integers(2, 9))
    known = draw.random((nodes, nodes)) < draw.choice([0.2, 0.8, 0.95])
    known[:, draw.integers(nodes)] = True  # a node with edges from all nodes
    free = {(int(u), int(v)) for u, v in np.stack((~known).nonzero()).T}
    edges = np.repeat(np.stack(known.nonzero()), 2, axis=1)  # each edge twice
    data = Data(num_nodes=nodes, edge_index=torch.tensor(draw.permutation(edges, axis=1)))
    pairs = edges[:, :: max(1, edges.shape[1] // 6)]
    loader = LinkNeighborLoader(data, [1], pairs, neg_sampling={"mode": "binary", "amount": 40}, avoid_known=True)
    if not free:
        with pytest.raises(UsageError, match="a negative must be a free pair at its time, got all pairs known"):
            next(iter(loader))
    else:
        assert set(pairs_of(next(iter(loader)))[pairs.shape[1] :]) <= free
    triplets = LinkNeighborLoader(data, [1], pairs, neg_sampling="triplet", avoid_known=True, batch_size=1)
    for place, (source, target) in enumerate(pairs.T):
        if any(u == source for u, _ in free):
            assert {(u, w) for u, _, w in triplets_of(triplets([place]))} <= free
        else:
            message = rf"got all targets of node {source} known, .* for pair {place} of .*, \({source}, {target}\)"
            with pytest.raises(UsageError, match=message):
                triplets([place])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_given_pairs_are_known_and_negatives_are_drawn_as_mini_batches_begin(num_workers: int) -> None:
    data = Data(num_nodes=4, edge_index=torch.tensor([[0, 1], [1, 0]]))
    pairs = torch.tensor([[0] * 8 + [3] * 4, [2] * 8 + [0, 1, 2, 3]])
    loader = LinkNeighborLoader(
        data, [1], pairs, neg_sampling="triplet", avoid_known=True, batch_size=1, num_workers=num_workers
    )
    batches = iter(loader)
    assert {triplets_of(next(batches))[0][2] for _ in range(5)} <= {0, 3}  # nodes 1 and 2 are known targets of 0
    with pytest.raises(UsageError, match="got all targets of node 3 known"):
        list(batches)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"edge_label_index": torch.zeros(3, 2)}, "edge_label_index must be sources and targets"),
    ({"edge_label_index": torch.zeros(2, 3)}, "integers of shape"),
    ({"edge_label_index": torch.zeros(2, 0, dtype=torch.long)}, "at least one pair"),
    (
        {"edge_label_index": [[0, 1], [0, NODES]]},
        rf"edge_label_index must be ids in \[0, {NODES}\), got ids from 0 to {NODES}",
    ),
    ({"edge_label": torch.ones(3)}, f"edge_label must have one entry per pair, {EDGES}, got shape"),
    ({"edge_label": torch.ones(EDGES), "neg_sampling": "triplet"}, "edge_label must be left out with triplet"),
    ({"neg_sampling": "pairs"}, "neg_sampling must be binary, triplet, or a dict"),
    ({"neg_sampling": {"mode": "binary", "ratio": 2}}, "neg_sampling must be binary, triplet, or a dict"),
    ({"neg_sampling": {"mode": "binary", "amount": 0}}, "amount"),
    ({"neg_sampling": {"mode": "triplet", "amount": 0.5}}, "integer"),
    ({"neg_sampling": {"mode": "binary", "amount": float("nan")}}, "the amount of neg_sampling must be positive"),
    ({"neg_sampling": "binary", "neg_sampling_ratio": 1.0}, "neg_sampling_ratio must be left out with neg_sampling"),
    ({"neg_sampling": {"mode": "binary", "src_weight": torch.ones(3)}}, f"src_weight must be {NODES} numbers >= 0"),
    ({"neg_sampling": {"mode": "triplet", "dst_weight": -torch.ones(NODES)}}, "dst_weight must be .* not all 0"),
    ({"neg_sampling": {"mode": "triplet", "dst_weight": torch.zeros(NODES)}}, "dst_weight must be .* not all 0"),
    ({"input_id": [1, 2]}, f"input_id must be {EDGES} integers, one for each of edge_label_index"),
    ({"input_nodes": [1, 2]}, "input_nodes must be None or left out, got .*: give edge_label_index"),
    ({"neg_samplin": "binary"}, "did you mean 'neg_sampling'"),
    ({"memory_limit": "4GiB"}, "memory_limit must be None or left out, got '4GiB'"),
    ({"share": (0, 2)}, "share must be None or left out"),
    ({"avoid_known": 1}, "avoid_known must be True or False"),
    ({"time_attr": "time"}, "'edge_label_time' is not set"),
    ({"edge_label_time": torch.ones(EDGES)}, "'time_attr' is not set"),
    ({"config": TrainConfig(num_partitions=2)}, "num_partitions must be 1 for pairs"),
    ({"config": TrainConfig(seed_order="proximity"), "shuffle": True}, "seed_order must be random for pairs"),
    ({"num_neighbors": [], "config": TrainConfig(input_aggregation="full")}, "num_neighbors must have a hop"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), REFUSED, ids=[str(list(one[0])) + str(i) for i, one in enumerate(REFUSED)]
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LinkNeighborLoader(random_data(), **({"num_neighbors": [2]} | arguments))


def test_what_needs_nodes_or_edges_is_refused() -> None:
    with pytest.raises(UsageError, match="edge_label_index must be given, because data has no edges"):
        LinkNeighborLoader(Data(num_nodes=3), [2])
    loader = LinkNeighborLoader(random_data(), [-1])
    with pytest.raises(UsageError, match="minibatches"):
        loader.minibatches()
    with pytest.raises(UsageError, match="got pairs of nodes as seeds"):
        _ = loader.node_sampler.num_neighbors
    with pytest.raises(UsageError, match=rf"place in \[0, {EDGES}\) among edge_label_index, got 0 to {EDGES}"):
        loader([0, EDGES])


def typed_data() -> HeteroData:
    draw = torch.Generator().manual_seed(5)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.arange(20), torch.arange(100, 130)
    data["user"].time, data["item"].time = torch.arange(20), torch.arange(30)
    for kind, counts, edges in ((("user", "item"), (20, 30), 120), (("item", "user"), (30, 20), 90)):
        ends = [torch.randint(count, (edges,), generator=draw) for count in counts]
        data[kind].edge_index = torch.stack(ends)
    return data


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("sampling", [None, "binary", {"mode": "triplet", "amount": 2}])
@pytest.mark.parametrize("given", [False, True])
def test_places_and_negatives_count_within_each_type(given: bool, sampling: Any, disjoint: bool) -> None:
    data, key = typed_data(), ("user", "to", "item")
    pairs = data[key].edge_index[:, :50] if given else data[key].edge_index
    names: Any = (("user", "item"), pairs) if given else "user__to__item"
    loader = LinkNeighborLoader(
        data, [3, 2], names, neg_sampling=sampling, batch_size=16, disjoint=disjoint, avoid_known=sampling is not None
    )
    known = set(map(tuple, data[key].edge_index.t().tolist()))
    for batch in loader:
        users, items = batch["user"].x, batch["item"].x - 100
        store, count = batch[key], len(batch[key].input_id)
        expected = pairs[:, store.input_id].t().tolist()
        assert "batch_size" not in batch["user"]
        if isinstance(sampling, dict):
            sources, targets = users[batch["user"].src_index], items[batch["item"].dst_pos_index]
            drawn = [(u, w) for u, row in zip(sources, items[batch["item"].dst_neg_index], strict=True) for w in row]
            assert "edge_label_index" not in store
        else:
            sources, targets = users[store.edge_label_index[0]], items[store.edge_label_index[1]]
            drawn = list(zip(sources[count:], targets[count:], strict=True))
            assert len(drawn) == (0 if sampling is None else count)
        assert torch.stack([sources[:count], targets[:count]]).t().tolist() == expected
        assert not {(int(u), int(v)) for u, v in drawn} & known
        if disjoint:
            for kind in data.edge_types:
                ends = batch[kind].edge_index
                assert torch.equal(batch[kind[0]].batch[ends[0]], batch[kind[2]].batch[ends[1]])


@pytest.mark.parametrize("name", [("user", "likes", "item"), "user__likes__item", ("item", "of", "item")])
def test_pairs_may_be_of_a_relation_without_edges(name: Any) -> None:
    data, pairs = typed_data(), torch.tensor([[0, 1, 2], [3, 4, 5]])
    key = tuple(name.split("__")) if isinstance(name, str) else name
    batch = next(iter(LinkNeighborLoader(data, [2], (name, pairs), neg_sampling="binary")))
    ends = [batch[kind].n_id[row] for kind, row in zip(key[::2], batch[key].edge_label_index, strict=True)]
    assert torch.equal(torch.stack(ends)[:, :3], pairs)
    assert batch[key].edge_label.tolist() == [1, 1, 1, 0, 0, 0]


def test_an_end_with_a_single_node_has_no_free_negative_once_it_is_known() -> None:
    data = typed_data()
    data["one"].x = torch.ones(1)
    data["user", "in", "one"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
    arguments: dict[str, Any] = {"edge_label_index": ("user", "in", "one"), "neg_sampling": "triplet"}
    batch = next(iter(LinkNeighborLoader(data, [2], **arguments)))
    assert batch["one"].n_id.tolist() == [0]
    assert batch["one"].dst_neg_index.tolist() == [0, 0, 0]
    message = (
        r"all targets of node 0 known, .* for pair 0 of edge_label_index, \(0, 0\); leave such pairs out, or give avo"
    )
    with pytest.raises(UsageError, match=message):
        next(iter(LinkNeighborLoader(data, [2], **arguments, avoid_known=True)))


@pytest.mark.parametrize("sampling", ["binary", {"mode": "triplet", "amount": 3}])
def test_nothing_in_a_pairs_trees_is_later_than_the_pair(sampling: Any) -> None:
    data = typed_data()
    pairs, times = torch.tensor([[0, 1, 2, 3], [0, 2, 1, 4]]).repeat(1, 5), torch.arange(20) + 4
    arguments: dict[str, Any] = {"edge_label_index": (("user", "item"), pairs), "time_attr": "time"}
    for avoid in (False, True):
        loader = LinkNeighborLoader(
            data, [4, 3], **arguments, edge_label_time=times, neg_sampling=sampling, batch_size=6, avoid_known=avoid
        )
        for batch in loader:
            of_pairs = times[batch["user", "to", "item"].input_id]
            for kind in data.node_types:
                assert (batch[kind].time <= of_pairs[batch[kind].batch]).all()
            if sampling == "binary":
                assert torch.equal(batch["user", "to", "item"].edge_label_time, of_pairs.repeat(2))
            else:
                assert torch.equal(batch["user"].seed_time, of_pairs)
    early = torch.full((20,), -1)
    with pytest.raises(UsageError, match=r"a negative must be a free pair at its time.*for pair 0 of edge_label_index"):
        next(iter(LinkNeighborLoader(data, [4], **arguments, edge_label_time=early, neg_sampling=sampling)))
    batch = next(iter(LinkNeighborLoader(data, [4], **arguments, edge_label_time=early)))
    assert [batch["user"].n_id.tolist(), batch["item"].n_id.tolist()] == pairs.tolist()  # the ends alone
    late, last = (
        next(iter(LinkNeighborLoader(data, [4, 3], **arguments, edge_label_time=torch.full((20,), time))))
        for time in (2**62, 29)
    )
    assert torch.equal(late["item"].n_id, last["item"].n_id)
    assert late["user", "to", "item"].num_edges == last["user", "to", "item"].num_edges > 20
    with pytest.raises(UsageError, match="edge_label_time must be 20 numbers, one per pair, got int64 of shape"):
        LinkNeighborLoader(data, [4], **arguments, edge_label_time=times[:19])
    with pytest.raises(UsageError, match="edge_label_time must be known, 20 of 20 are missing"):
        LinkNeighborLoader(data, [4], **arguments, edge_label_time=torch.full((20,), torch.nan))


def test_types_that_are_not_there_are_refused() -> None:
    data = typed_data()
    pairs, known = torch.zeros((2, 3), dtype=torch.long), "edge_label_index must have ends of the types user, item"
    for names, message in (
        (None, "edge_label_index must be a type of edges"),
        (pairs, "edge_label_index must be a type of edges"),
        ((None, pairs), "edge_label_index must be a type of edges"),
        (("user", "shop"), "a relation must be"),
        (("user", "shop"), known),
        ("user__to__shop", known),
        (("user", "likes", "item"), known),  # without pairs it must have edges
        ((("user", "to", "shop"), pairs), known),
        ((("shop", "user"), pairs), known),
        (("user__to__shop", pairs), known),
        (("to", pairs), "'to'; give all three names"),
    ):
        with pytest.raises(UsageError, match=message):
            LinkNeighborLoader(data, [2], names)
    with pytest.raises(UsageError, match=r"edge_label_index must be ids in \[0, 30\), got ids from 0 to 30"):
        LinkNeighborLoader(data, [2], (("user", "item"), torch.tensor([[0, 1], [0, 30]])))
    data["user", "again", "item"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(UsageError, match=r"\('user', 'item'\); give all three names"):
        LinkNeighborLoader(data, [2], (("user", "item"), pairs))


@pytest.mark.parametrize("sampling", ["binary", {"mode": "triplet", "amount": 2, "dst_weight": np.arange(30)}])
def test_workers_and_copies_change_nothing_where_there_are_types_and_times(sampling: Any) -> None:
    def loader(**more: Any) -> LinkNeighborLoader:
        times = torch.arange(120) % 7 + 3
        arguments = {"time_attr": "time", "edge_label_time": times, "neg_sampling": sampling, "batch_size": 16}
        return LinkNeighborLoader(typed_data(), [3, 2], ("user", "item"), **arguments, shuffle=True, **more)

    def drawn(given: LinkNeighborLoader) -> list[Any]:
        stores = (store for batch in given for store in batch.stores)
        return [{name: value.tolist() for name, value in store.items() if torch.is_tensor(value)} for store in stores]

    plain = loader()
    copied = pickle.loads(pickle.dumps(plain))
    first = drawn(plain)
    assert first != drawn(plain)
    for other in (copied, loader(num_workers=3), loader(num_workers=2, config={"parallel_mode": "mode2"})):
        assert drawn(other) == first

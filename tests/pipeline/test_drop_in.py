"""What PyG's documentation says of `NeighborLoader` on homogeneous data, asked of `Loader`."""

import inspect
import os
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SubsetRandomSampler, WeightedRandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphConv
from torch_geometric.sampler.base import SubgraphType

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader

KINDS = ["directional", "bidirectional", "induced"]


@pytest.fixture(scope="module")
def data() -> Data:
    """A multigraph with attributes of edges in several shapes, its edges in no order."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(60, (2, 400), generator=generator)
    edge_index = torch.cat([edge_index, edge_index[:, :50]], dim=1)
    return Data(
        x=torch.rand(60, 4, generator=generator),
        edge_index=edge_index,
        edge_attr=torch.arange(450).view(-1, 1) * torch.ones(3),
        edge_weight=torch.arange(450) / 450,
        edge_kind=np.arange(450) % 7,
        y=torch.arange(60),
    )


def global_edges(batch: Data) -> torch.Tensor:
    return batch.n_id[batch.edge_index]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_edges_carry_their_ids_and_attributes(kind: str, dtype: torch.dtype, num_workers: int, data: Data) -> None:
    given = data.clone()
    given.edge_index = data.edge_index.to(dtype)
    loader = Loader(given, [3, 3], batch_size=16, subgraph_type=kind, shuffle=True, num_workers=num_workers)
    for batch in loader:
        assert batch.edge_index.dtype == batch.n_id.dtype == dtype
        assert batch.e_id.shape == (batch.num_edges,)
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        assert torch.equal(batch.edge_kind, torch.from_numpy(data.edge_kind)[batch.e_id])
        found, listed = global_edges(batch), given.edge_index[:, batch.e_id]
        if kind == "bidirectional":  # an edge that is not in the data has its reverse's id
            same, reverse = (found == listed).all(dim=0), (found == listed.flip(0)).all(dim=0)
            assert (same | reverse).all()
        else:
            assert torch.equal(found, listed)


def test_bidirectional_edges_are_the_sampled_ones_and_their_reverses(data: Data) -> None:
    one, both = (Loader(data, [4, 2], batch_size=20, subgraph_type=kind) for kind in KINDS[:2])
    for sampled, batch in zip(one, both, strict=True):
        pairs = set(map(tuple, sampled.edge_index.t().tolist()))
        wanted = pairs | {(target, source) for source, target in pairs}
        assert sorted(map(tuple, batch.edge_index.t().tolist())) == sorted(wanted)
        assert torch.equal(sampled.n_id, batch.n_id)
        assert "num_sampled_edges" not in batch


def test_induced_edges_are_all_between_the_nodes(data: Data) -> None:
    for batch in Loader(data, [2, 2], batch_size=10, subgraph_type=SubgraphType.induced):
        inside = torch.isin(data.edge_index, batch.n_id).all(dim=0)
        assert sorted(batch.e_id.tolist()) == inside.nonzero().view(-1).tolist()
    old, new = Loader(data, [2], directed=False), Loader(data, [2], subgraph_type="induced")
    assert torch.equal(next(iter(old)).e_id, next(iter(new)).e_id)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_neighborhoods_give_the_whole_graphs_output(kind: str, data: Data) -> None:
    torch.manual_seed(0)
    whole = data.clone()
    # Edges in both directions with equal weights, once each: what a bidirectional subgraph adds changes nothing then.
    once = torch.unique(torch.cat([data.edge_index, data.edge_index.flip(0)], dim=1), dim=1)
    whole.edge_index, whole.edge_weight = once, (once[0] * once[1]) / 3600
    del whole.edge_attr, whole.edge_kind
    convs = [GraphConv(4, 8), GraphConv(8, 3)]

    def model(x: torch.Tensor, edge_index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return convs[1](convs[0](x, edge_index, weight).relu(), edge_index, weight)

    (batch,) = Loader(whole, [-1, -1], torch.tensor([5, 6, 7]), batch_size=3, subgraph_type=kind)
    expected = model(whole.x, whole.edge_index, whole.edge_weight)[5:8]
    torch.testing.assert_close(model(batch.x, batch.edge_index, batch.edge_weight)[:3], expected)


def test_disjoint_batches_say_whose_each_node_is(data: Data) -> None:
    for batch in Loader(data, [3, 2], batch_size=8, disjoint=True):
        assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
        assert torch.equal(*batch.batch[batch.edge_index])
        assert len(torch.stack([batch.batch, batch.n_id]).unique(dim=1).t()) == batch.num_nodes
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(global_edges(batch), data.edge_index[:, batch.e_id])


def test_replacement_fills_the_fanout(data: Data) -> None:
    batch = Loader(data, [50], replace=True)([0, 1])
    assert batch.edge_index[1].bincount().tolist() == [50, 50]
    assert torch.equal(global_edges(batch), data.edge_index[:, batch.e_id])


def test_weights_decide_who_is_drawn(data: Data) -> None:
    weighted = data.clone()
    weighted.likes = (data.edge_index[0] % 2 == 0).double()
    for batch in Loader(weighted, [1], batch_size=60, weight_attr="likes"):
        degrees = data.edge_index[1].bincount(minlength=60)
        drawn = degrees[batch.n_id[batch.edge_index[1]]] > 1
        assert (global_edges(batch)[0][drawn] % 2 == 0).all()


@pytest.mark.parametrize("options", [{"replace": True}, {"weight_attr": "edge_weight"}, {"disjoint": True}, {}])
def test_workers_change_nothing(options: dict, data: Data) -> None:
    def ids(num_workers: int) -> list[list[int]]:
        loader = Loader(data, [3, 2], batch_size=16, shuffle=True, num_workers=num_workers, **options)
        return [batch.e_id.tolist() for _ in range(2) for batch in loader]

    assert ids(0) == ids(2)


def test_a_call_gives_the_batch_of_places_among_the_input_nodes(data: Data) -> None:
    loader = Loader(data, [3, 2], torch.tensor([40, 30, 20]), batch_size=2, transform=lambda batch: batch)
    for index in ([2, 0], torch.tensor([2, 0]), np.array([-1, 0])):
        batch = loader(index)
        assert batch.n_id[:2].tolist() == [20, 40]
        assert batch.input_id.tolist() == [2, 0]
        assert batch.batch_size == 2
    repeated = loader([1, 1])
    assert repeated.n_id[:2].tolist() == [30, 30]
    assert torch.equal(global_edges(repeated), data.edge_index[:, repeated.e_id])
    again = Loader(data, [3, 2], torch.tensor([40, 30, 20]), batch_size=2)
    first, second = again([0]), again([0])
    assert first.e_id.tolist() != second.e_id.tolist()
    for wrong in ([3], [], [-4], [0.5], [[0]]):
        with pytest.raises(UsageError, match="a mini-batch must be a list of at least one place in"):
            loader(wrong)


def test_a_call_takes_no_epoch(data: Data) -> None:
    called, plain = (Loader(data, [3, 2], batch_size=16, shuffle=True) for _ in range(2))
    called([0])
    assert [batch.e_id.tolist() for batch in called] == [batch.e_id.tolist() for batch in plain]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_input_nodes_may_be_repeated_and_named(num_workers: int, data: Data) -> None:
    nodes = torch.tensor([7, 7, 3, 7, 9])
    loader = Loader(data, [2], nodes, batch_size=2, input_id=nodes * 100, shuffle=True, num_workers=num_workers)
    batches = list(loader)
    assert sorted(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).tolist()) == [3, 7, 7, 7, 9]
    for batch in batches:
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size] * 100)
        assert torch.equal(global_edges(batch), data.edge_index[:, batch.e_id])
    with pytest.raises(UsageError, match="input_id must be 5 integers, one for each of input_nodes"):
        Loader(data, [2], nodes, input_id=nodes[:3])


def test_a_loader_is_a_data_loader(data: Data) -> None:
    class Mine(Loader):
        pass

    mask = data.y % 3 == 0
    loader = Mine(data, [2], mask, batch_size=8, num_workers=2, drop_last=True)
    assert isinstance(loader, DataLoader)
    assert repr(loader) == str(loader) == "Mine()"
    assert loader.data is data
    assert loader.input_nodes is mask
    assert (len(loader.dataset), loader.batch_size, loader.num_workers, loader.drop_last) == (20, 8, 2, True)
    assert len(loader) == len(list(loader)) == 2
    assert len(loader.sampler) == 20
    again = DataLoader(loader.dataset, batch_size=5, collate_fn=loader.collate_fn)
    assert torch.cat([batch.n_id[:5] for batch in again]).tolist() == mask.nonzero().view(-1).tolist()


def test_arguments_stand_where_pygs_do() -> None:
    ours, theirs = (list(inspect.signature(loader.__init__).parameters) for loader in (Loader, NeighborLoader))
    assert ours[: len(theirs) - 1] == theirs[:-1]


def seeds_of(batches: Iterator[Data]) -> list[list[int]]:
    return [batch.n_id[: batch.batch_size].tolist() for batch in batches]


def test_torchs_samplers_decide_the_order(data: Data) -> None:
    nodes = torch.arange(10, 30)
    loader = Loader(data, [2], nodes, batch_size=4, sampler=range(19, -1, -2))
    assert len(loader) == 3
    assert seeds_of(loader) == [[29, 27, 25, 23], [21, 19, 17, 15], [13, 11]]
    loader = Loader(data, [2], nodes, batch_sampler=[[0, 5], [1], [5, 5]], num_workers=2)
    assert (len(loader), loader.batch_size) == (3, None)
    assert seeds_of(loader) == [[10, 15], [11], [15, 15]]
    subset = SubsetRandomSampler([1, 2, 3, 4])
    loader = Loader(data, [2], nodes, batch_sampler=BatchSampler(subset, 3, drop_last=True))
    assert [len(seeds) for seeds in seeds_of(loader)] == [3]
    weighted = WeightedRandomSampler([1.0] + [0.0] * 19, 6)
    assert seeds_of(Loader(data, [2], nodes, batch_size=4, sampler=weighted)) == [[10] * 4, [10] * 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": [0], "shuffle": True}, "sampler must be left out with another order"),
        ({"sampler": [0], "batch_sampler": [[0]]}, "sampler must be left out with another order"),
        ({"batch_sampler": [[0]], "batch_size": 3}, "batch_sampler must be left out with batch_size"),
        ({"disjoint": True, "subgraph_type": "induced"}, "disjoint needs subgraph_type directional or bidirectional"),
        ({"adjs": True, "subgraph_type": "induced"}, "adjs needs subgraph_type='directional', got 'induced'"),
        ({"subgraph_type": "indused"}, "subgraph_type must be one of .* did you mean 'induced'"),
        ({"directed": 1}, "directed must be True or False, got 1"),
        ({"replace": 1}, "replace must be True or False, got 1"),
        ({"disjoint": None}, "disjoint must be True or False, got None"),
        ({"custom_cls": Data}, "custom_cls must be left out unless data is a pair of stores"),
        ({"sampler": [0], "config": {"num_partitions": 2}}, "sampler needs num_partitions=1, got 2"),
        ({"sampler": [0], "config": {"seed_order": "proximity"}}, "sampler needs seed_order 'random', got"),
        ({"input_nodes": [1, 1], "config": {"num_partitions": 2}}, "input_nodes must be distinct with partitions"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict, message: str, data: Data) -> None:
    with pytest.raises(UsageError, match=message):
        Loader(data, [2], **options)


def test_partitions_keep_ids_and_attributes(data: Data) -> None:
    loader = Loader(data, [3, 2], batch_size=10, config={"num_partitions": 2})
    for batch in loader:
        assert torch.equal(global_edges(batch), data.edge_index[:, batch.e_id])
        assert torch.equal(batch.x, data.x[batch.n_id])
    with pytest.raises(UsageError, match="needs num_partitions=1"):
        loader([0])


def test_a_cache_that_steers_sampling_keeps_ids(data: Data) -> None:
    config = {"cache_bytes": 320, "cache_policy": "degree", "bias_rate": 4.0}
    for batch in Loader(data, [3, 2], batch_size=10, config=config):
        assert torch.equal(global_edges(batch), data.edge_index[:, batch.e_id])
        assert torch.equal(batch.x, data.x[batch.n_id])


def test_a_dynamic_cache_serves_nodes_that_are_there_twice(data: Data) -> None:
    config = {"cache_bytes": 320, "cache_policy": "clock"}
    for _ in range(2):
        for batch in Loader(data, [3, 2], batch_size=10, disjoint=True, config=config):
            assert torch.equal(batch.x, data.x[batch.n_id])


def test_a_class_of_the_users_own_is_kept(data: Data) -> None:
    class Mine(Data):
        pass

    mine = Mine(**data.to_dict(), name="mine")
    batch = next(iter(Loader(mine, [2])))
    assert type(batch) is Mine
    assert batch.name == "mine"
    assert mine.num_edges == 450
    assert set(mine.keys()) == {*data.keys(), "name"}


def test_a_graph_is_drawn_likewise(tiny_graph: Graph) -> None:
    plain, disjoint = (Loader(tiny_graph, [3, 2], batch_size=1, disjoint=flag) for flag in (False, True))
    for one, other in zip(plain, disjoint, strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x, other.x)
        assert "e_id" not in other


@pytest.mark.parametrize("cores", [None, 1, 2])
def test_workers_run_on_the_cores_that_they_are_given(cores: int | None, data: Data) -> None:
    home = sorted(os.sched_getaffinity(0))
    given = None if cores is None else [home[-1:]] * cores
    loader = Loader(
        data, [2], batch_size=1, num_workers=1 if cores is None else cores
    )  # so many that no worker is done
    plain = [batch.e_id.tolist() for batch in Loader(data, [2], batch_size=1)]
    with loader.enable_cpu_affinity(given):
        epoch = iter(loader)
        while len(epoch._workers) < loader.num_workers:  # on a busy machine the second thread starts later
            time.sleep(0.01)
        workers = epoch._workers
        assert len(workers) == loader.num_workers
        assert all(os.sched_getaffinity(worker.pid) == {home[0] if cores is None else home[-1]} for worker in workers)
        assert [batch.e_id.tolist() for batch in epoch] == plain
    assert iter(loader)._workers == []


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([0], {"num_workers": 0}, "needs a worker, got num_workers=0; give num_workers=1"),
        ([0], {"num_workers": 2}, r"got \[0\]; lower num_workers or give more"),
        ([[]], {"num_workers": 1}, "lower num_workers or give more"),
        ([10_000], {"num_workers": 1}, r"loader_cores must list cores among \[0.*, got \[10000\]"),
        ([0], {"num_workers": 1, "config": {"resources": "auto"}}, "loader_cores needs resources='free'"),
    ],
)
def test_other_cores_are_refused(given: list, options: dict, message: str, data: Data) -> None:
    with pytest.raises(UsageError, match=message), Loader(data, [2], **options).enable_cpu_affinity(given):
        pass

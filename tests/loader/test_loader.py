from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from tests.threads.begun import begun_from_here


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    left = begun_from_here()
    yield
    assert left() == []


@pytest.fixture(scope="module")
def data(tiny_graph: Graph) -> Data:
    """`tiny_graph` as a PyG user holds it, with attributes of every kind but edges'."""
    nodes, edges = np.arange(tiny_graph.num_nodes), tiny_graph.num_edges
    edge_index = torch.from_numpy(np.stack([tiny_graph.indices, np.repeat(nodes, np.diff(tiny_graph.indptr))]))
    train_mask = torch.from_numpy(np.isin(nodes, tiny_graph.train_ids))
    return Data(
        x=torch.from_numpy(tiny_graph.features.array),
        edge_index=edge_index.long()[:, torch.randperm(edges, generator=torch.Generator().manual_seed(1))],
        y=torch.from_numpy(tiny_graph.labels * 0.5)[:, None],
        train_mask=train_mask,
        name="tiny",
        span_index=torch.stack([torch.arange(tiny_graph.num_nodes)] * 2),
        ages=nodes / 2,
    )


def in_neighbors(graph: Graph, node: int) -> set[int]:
    return set(graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist())


@pytest.mark.parametrize("fanouts", [[4, 3], [-1, 2], [1, 1, 1]])
def test_a_batch_is_a_directional_neighborhood(fanouts: list[int], tiny_graph: Graph) -> None:
    for batch in Loader(tiny_graph, fanouts, batch_size=50, shuffle=True):
        batch.validate(raise_on_error=True)
        n_id, (sources, targets) = batch.n_id, batch.edge_index
        assert batch.edge_index.dtype == n_id.dtype == batch.y.dtype == torch.int64
        assert len(n_id) == len(n_id.unique())
        assert torch.equal(n_id[: batch.batch_size], batch.input_id)
        assert np.array_equal(batch.x, tiny_graph.features.array[n_id])
        assert np.array_equal(batch.y, tiny_graph.labels[n_id])
        assert sum(batch.num_sampled_nodes) == len(n_id)
        assert sum(batch.num_sampled_edges) == len(sources)
        assert targets.diff().min() >= 0
        ends = np.cumsum(batch.num_sampled_nodes)
        for hop, fanout in enumerate(fanouts):
            for row in range(0 if hop == 0 else ends[hop - 1], ends[hop]):
                taken, known = n_id[sources[targets == row]].tolist(), in_neighbors(tiny_graph, int(n_id[row]))
                assert set(taken) <= known
                assert len(taken) == len(set(taken)) == (len(known) if fanout == -1 else min(fanout, len(known)))
        assert targets.max() < ends[-2]


def test_every_neighbor_is_as_likely(tiny_graph: Graph) -> None:
    node = int(np.argmax(np.diff(tiny_graph.indptr)))
    known = sorted(in_neighbors(tiny_graph, node))
    loader, fanout, epochs = Loader(tiny_graph, [3], [node], batch_size=1), 3, 600
    taken = np.concatenate([next(iter(loader)).n_id[1:].numpy() for _ in range(epochs)])
    counts = np.array([np.count_nonzero(taken == neighbor) for neighbor in known if neighbor != node])
    expected = epochs * fanout / len(known)
    # Without replacement the variance is smaller than a multinomial's, so its bound holds: mean + 5 deviations.
    assert ((counts - expected) ** 2 / expected).sum() < len(known) + 5 * (2 * len(known)) ** 0.5


def test_the_attributes_of_a_data_are_served(data: Data, tiny_graph: Graph) -> None:
    batch = next(iter(Loader(data, [4, 3], data.train_mask, batch_size=50)))
    assert batch.name == "tiny"
    assert torch.equal(batch.span_index, batch.n_id.repeat(2, 1))
    assert torch.equal(batch.ages, batch.n_id / 2.0)
    assert torch.equal(batch.y, data.y[batch.n_id])
    assert batch.y.dtype == torch.float64
    assert batch.train_mask[: batch.batch_size].all()
    assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
    of_graph = next(iter(Loader(tiny_graph, [4, 3], tiny_graph.train_ids, batch_size=50)))
    for name in ("x", "edge_index", "n_id"):
        assert torch.equal(batch[name], of_graph[name])


def test_a_users_own_loop_learns(data: Data, tiny_graph: Graph) -> None:
    torch.manual_seed(0)
    labels = torch.from_numpy(tiny_graph.labels)
    model = GraphSAGE(data.num_features, 32, num_layers=2, out_channels=tiny_graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = Loader(
        Data(x=data.x, edge_index=data.edge_index, y=labels),
        num_neighbors=[5, 5],
        input_nodes=data.train_mask,
        batch_size=50,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
    )
    losses = []
    for _ in range(8):
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = functional.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    assert losses[-1] < losses[0] / 2


def test_batches_keep_their_own_memory(tiny_graph: Graph) -> None:
    batches = list(Loader(tiny_graph, [4, 3], tiny_graph.train_ids, batch_size=20, num_workers=2))
    for batch in batches:
        assert np.array_equal(batch.x, tiny_graph.features.array[batch.n_id])
    assert len({batch.x.data_ptr() for batch in batches}) == len(batches)


def nodes_of(batches: Iterator[Data]) -> list[list[int]]:
    return [batch.n_id.tolist() for batch in batches]


def test_the_seed_decides_every_epoch(tiny_graph: Graph) -> None:
    loader, again, other = (Loader(tiny_graph, [4, 3], batch_size=50, shuffle=True, seed=seed) for seed in (1, 1, 2))
    first, second = nodes_of(loader), nodes_of(loader)
    assert len(first) == len(loader) == 6
    assert first != second
    torch.manual_seed(5)
    assert [first, second] == [nodes_of(again), nodes_of(again)]
    assert first != nodes_of(other)


@pytest.mark.parametrize("config", [None, TrainConfig(parallel_mode="mode2"), TrainConfig(feature_tier="disk")])
@pytest.mark.parametrize("num_workers", [None, 0, 2])
def test_workers_change_nothing(num_workers: int | None, config: TrainConfig | None, tiny_graph: Graph) -> None:
    loader = Loader(tiny_graph, [4, 3], batch_size=50, num_workers=num_workers, config=config)
    assert nodes_of(loader) == nodes_of(Loader(tiny_graph, [4, 3], batch_size=50))


def test_arguments_hold_over_the_config(tiny_graph: Graph) -> None:
    config = TrainConfig(batch_size=100)
    assert len(Loader(tiny_graph, [4], config=config)) == 3
    assert len(Loader(tiny_graph, [4], batch_size=30, config=config)) == 10
    assert len(Loader(tiny_graph, [4])) == 1


def test_only_the_configs_fanouts_hold_over_an_argument(tiny_graph: Graph) -> None:
    seeds = tiny_graph.train_ids
    config = TrainConfig(seed_fanout=2, deep_fanout=3)
    loader = Loader(tiny_graph, [5, -1], seeds, batch_size=40, config=config)
    plain = Loader(tiny_graph, [2, 3], seeds, batch_size=40)
    whole = Loader(tiny_graph, [5, -1], seeds, batch_size=40)
    assert all(torch.equal(one.n_id, other.n_id) for one, other in zip(loader, plain, strict=True))
    assert any(len(one.n_id) != len(other.n_id) for one, other in zip(loader, whole, strict=True))


def test_partitions_serve_a_data(data: Data) -> None:
    config = TrainConfig(num_partitions=2)
    seeds = torch.cat([b.n_id[: b.batch_size] for b in Loader(data, [4, 3], batch_size=50, config=config)])
    assert sorted(seeds.tolist()) == list(range(300))
    with pytest.raises(UsageError, match="drop_last needs num_partitions=1, got 2"):
        Loader(data, [4, 3], drop_last=True, config=config)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_leaving_early_ends_every_thread(num_workers: int, tiny_graph: Graph) -> None:
    for _ in Loader(tiny_graph, [4, 3], batch_size=20, num_workers=num_workers):
        break


def test_two_epochs_can_be_under_way(tiny_graph: Graph) -> None:
    loader = Loader(tiny_graph, [4, 3], batch_size=50, num_workers=1)
    pairs = list(zip(loader, loader, strict=True))
    assert len(pairs) == len(loader)
    assert all(torch.equal(one.input_id, other.input_id) for one, other in pairs)
    assert nodes_of(one for one, _ in pairs) != nodes_of(other for _, other in pairs)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(("batch_size", "batches"), [(100, 3), (90, 3), (301, 0)])
def test_drop_last_leaves_the_smaller_batch_out(
    num_workers: int, batch_size: int, batches: int, tiny_graph: Graph
) -> None:
    loader = Loader(tiny_graph, [2], batch_size=batch_size, drop_last=True, num_workers=num_workers)
    assert [batch.batch_size for batch in loader] == [batch_size] * batches
    assert len(loader) == batches


def test_transform_has_the_last_word(tiny_graph: Graph) -> None:
    assert list(Loader(tiny_graph, [2], batch_size=100, transform=lambda batch: batch.batch_size)) == [100, 100, 100]


@pytest.mark.parametrize("kind", ["mask", "tensor mask", "ids", "tensor", "list"])
def test_input_nodes_can_be_ids_or_a_mask(kind: str, tiny_graph: Graph) -> None:
    ids = tiny_graph.val_ids[:30][::-1].astype(np.int64)
    mask = np.isin(np.arange(300), ids)
    forms = {"mask": mask, "tensor mask": torch.from_numpy(mask), "ids": ids, "tensor": torch.tensor(ids.tolist())}
    loader = Loader(tiny_graph, [4], forms.get(kind, ids.tolist()), batch_size=8)
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in loader]).numpy()
    given = torch.cat([batch.input_id for batch in loader]).numpy()
    assert np.array_equal(seeds, np.sort(ids) if "mask" in kind else ids)
    # As in PyG: a mask's seeds are known by their node ids, those of a list by their places in it.
    assert np.array_equal(given if "mask" in kind else ids[given], seeds)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_batches_lie_on_the_device(data: Data) -> None:
    batch = next(iter(Loader(data, [4, 3], batch_size=50, device="cuda", adjs=True)))
    tensors = (batch.x, batch.y, batch.edge_index, batch.n_id, batch.input_id, batch.train_mask, *batch.adjs)
    assert {tensor.device.type for tensor in tensors} == {"cuda"}


def test_features_that_are_kept_are_never_overwritten_and_others_memory_comes_back(small_graph: Graph) -> None:
    loader = Loader(small_graph, [5, 4], batch_size=64)
    kept, addresses = [], set()
    for i, batch in enumerate(loader):
        addresses.add(batch.x.untyped_storage().data_ptr())
        if i % 5 == 0:
            kept.append((batch.x[3:], batch.n_id[3:]))
        del batch
    assert len(addresses) < len(loader) / 2
    for x, n_id in kept:
        assert np.array_equal(x.numpy(), small_graph.features.array[n_id.numpy()])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_memory_of_batches_that_were_all_held_is_freed_with_them(num_workers: int, small_graph: Graph) -> None:
    loader = Loader(small_graph, [5, 4], batch_size=32, num_workers=num_workers)
    batches = list(loader)
    largest, count = max(batch.x.untyped_storage().nbytes() for batch in batches), len(batches)
    assert count > 40
    del batches
    kept = sum(buffer.nbytes for buffer in loader._pipeline._stages.buffers._free)
    assert 0 < kept <= (num_workers + 2) * 1.2 * largest

"""A loader as a copy, here or in another process."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import SequentialSampler
from torch_geometric.data import Data
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.transforms import ToUndirected

from a3gnn.config import TrainConfig
from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader


@pytest.fixture(scope="module")
def data() -> Data:
    """Sixty nodes with attributes of nodes and edges."""
    torch.manual_seed(0)
    edge_index = torch.randint(0, 60, (2, 300))
    return Data(x=torch.randn(60, 3), edge_index=edge_index, edge_attr=torch.rand(300, 2), y=torch.arange(60) % 4)


def _pickled(loader: Loader) -> Loader:
    copied: Loader = pickle.loads(pickle.dumps(loader))
    return copied


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Data):
        one, other = first.to_dict(), second.to_dict()
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(first, list):
        return all(_same(*pair) for pair in zip(first, second, strict=True))
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first.to_dense(), second.to_dense())
    return bool(first == second)


_OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle": True, "seed": 3, "num_workers": 2},
    {"input_nodes": torch.arange(60) % 3 == 0, "drop_last": True},
    {"input_nodes": [5, 5, 7], "input_id": [1, 2, 3]},
    {"sampler": SequentialSampler(range(60))},
    {"batch_size": None, "batch_sampler": [[1, 2], [3]]},
    {"replace": True, "disjoint": True},
    {"subgraph_type": "bidirectional"},
    {"subgraph_type": "induced"},
    {"weight_attr": "weight"},
    {"transform": ToUndirected()},
    {"adjs": True},
    {"share": (1, 2)},
    {"config": TrainConfig(cache_bytes=1000, compute_dtype="bfloat16", parallel_mode="mode2", num_workers=1)},
    {"config": {"num_partitions": 2}},
]


@pytest.mark.parametrize("options", _OPTIONS, ids=lambda options: ",".join(options) or "none")
@pytest.mark.parametrize("copied", [_pickled, copy.deepcopy, copy.copy])
def test_a_copy_goes_on_with_the_next_epoch(
    copied: Callable[[Loader], Loader], options: dict[str, Any], data: Data
) -> None:
    given = data.clone()
    given.weight = torch.rand(300)
    loader = Loader(given, [3, 2], **{"batch_size": 16, **options})
    first = next(iter(loader))  # an epoch is under way
    again = copied(loader)
    assert len(again) == len(loader)
    assert (again.batch_size, again.num_workers, again.drop_last) == (
        loader.batch_size,
        loader.num_workers,
        loader.drop_last,
    )
    expected, got = list(loader), list(again)
    assert len(got) > 0
    assert _same(expected, got)
    assert first.keys() == got[0].keys()


@pytest.mark.parametrize("kind", ["tiny_graph", "tiny_folder_graph", "sparse_graph"])
def test_a_loader_of_a_graph_is_copied(kind: str, request: pytest.FixtureRequest) -> None:
    loader = Loader(request.getfixturevalue(kind), [3, 2], batch_size=64, shuffle=True)
    again = _pickled(loader)
    assert _same(list(loader), list(again))


def test_a_pair_of_stores_and_what_others_set_are_copied() -> None:
    features, edges = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.eye(5), group_name=None, attr_name="x", index=None)
    ring = torch.arange(5)
    edges.put_edge_index((ring, (ring + 1) % 5), edge_type=None, layout="coo", size=(5, 5))
    loader = Loader((features, edges), [1], batch_size=2)
    loader.mine = "set later"  # type: ignore[attr-defined]
    again = _pickled(loader)
    assert again.mine == "set later"  # type: ignore[attr-defined]
    assert _same(list(loader), list(again))


def test_what_was_deleted_from_the_data_is_still_in_the_copy(data: Data) -> None:
    given = copy.copy(data)
    loader = Loader(given, [2], batch_size=16)
    del given.x, given.y
    again = _pickled(loader)
    assert _same(list(loader), list(again))


def test_a_file_need_not_be_there_for_the_copy(tmp_path: Path, tiny_graph: Graph) -> None:
    torch.save(tiny_graph.to_pyg(), tmp_path / "tiny.pt")
    loader = Loader(tmp_path / "tiny.pt", [2], batch_size=64)
    content = pickle.dumps(loader)
    (tmp_path / "tiny.pt").unlink()
    assert _same(list(loader), list(pickle.loads(content)))


def _first_x(rank: int, loader: Loader, path: str) -> None:
    torch.save(next(iter(loader)).x, path)


def test_another_process_takes_it(data: Data, tmp_path: Path) -> None:
    loader = Loader(data, [3, 2], batch_size=16)
    torch.multiprocessing.spawn(_first_x, args=(loader, str(tmp_path / "x.pt")), nprocs=1)
    assert torch.equal(torch.load(tmp_path / "x.pt"), next(iter(loader)).x)


def test_features_that_torch_moves_to_shared_memory_are_read_from_there(data: Data) -> None:
    given = data.clone()
    loader = Loader(given, [3, 2], batch_size=16)
    given.share_memory_()
    filled = [torch.full((60, 3), 7.0) for _ in range(100)]  # takes the memory that was freed
    batch = loader([0])
    assert torch.equal(batch.x, given.x[batch.n_id])
    assert all(torch.equal(batch.x, given.x[batch.n_id]) for batch in loader)
    assert len(filled) == 100


def test_a_graph_on_disk_is_pickled_by_its_folder(small_folder_graph: Graph) -> None:
    content = pickle.dumps(small_folder_graph)
    assert len(content) < 1000
    again: Graph = pickle.loads(content)
    assert (again.folder, again.fingerprint) == (small_folder_graph.folder, small_folder_graph.fingerprint)
    changed = dataclasses.replace(small_folder_graph, labels=np.array(small_folder_graph.labels[::-1]), known=None)
    assert np.array_equal(pickle.loads(pickle.dumps(changed)).labels, changed.labels)


def test_a_folder_that_holds_another_graph_is_not_taken_for_the_pickled_one(
    tiny_graph: Graph, sparse_graph: Graph, tmp_path: Path
) -> None:
    content = pickle.dumps(tiny_graph.save(tmp_path / "graph"))
    (tmp_path / "graph").rename(tmp_path / "moved")
    sparse_graph.save(tmp_path / "graph")
    with pytest.raises(GraphError, match=r"graph must hold the pickled graph .*, got"):
        pickle.loads(content)

"""What decides which kernels are needed, and what does not."""

import dataclasses
import json

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training import compile_ahead as kernel_set
from a3gnn.training.compile_ahead import KernelSet

TASK = Task(hidden_channels=64, fanouts=(25, 10))
CACHED = TrainConfig(cache_bytes=1 << 20)


@pytest.mark.parametrize(
    "same",
    [
        {"batch_size": 4096, "learning_rate_scale": 2.0, "seed_fanout": 3, "deep_fanout": 2},
        {"parallel_mode": "mode1", "num_workers": 3, "resources": "auto"},
        {"cache_bytes": 1 << 24},
        {"searched": {"hidden_channels": 16, "layers": 3}},
    ],
)
def test_sizes_and_modes_need_no_kernels_of_their_own(tiny_folder_graph: Graph, same: dict) -> None:
    large = dataclasses.replace(TASK, hidden_channels=512, fanouts=(5, -1), dropout=0.1, seed=7, learning_rate=0.1)
    known = KernelSet.of(tiny_folder_graph, TASK, CACHED)
    found = KernelSet.of(tiny_folder_graph, large, CACHED.replace(**same))
    assert found == known
    assert found.describe() == known.describe()


OTHERS = (
    {"cache_bytes": 0},
    {"cache_policy": "fifo"},
    {"bias_rate": 2.0},
    {"num_partitions": 4},
    {"feature_tier": "disk"},
    {"seed_order": "proximity"},
    {"compute_dtype": "bfloat16"},
    {"feature_dtype": "float16"},
    {"input_aggregation": "full"},
)


@pytest.mark.parametrize("other", OTHERS)
def test_what_kernels_differ_by_is_told_apart(tiny_folder_graph: Graph, other: dict) -> None:
    known = KernelSet.of(tiny_folder_graph, TASK, CACHED)
    assert KernelSet.of(tiny_folder_graph, TASK, CACHED.replace(**other)) != known


def test_so_are_model_layers_and_features(tiny_folder_graph: Graph, sparse_graph: Graph, cache_folder) -> None:
    known = KernelSet.of(tiny_folder_graph, TASK)
    assert KernelSet.of(sparse_graph.on_disk(), TASK) == dataclasses.replace(known, sparse=True)
    gcn, deep, plain = ({"model": "gcn"}, {"fanouts": (5, 5, 5)}, {"dropout": 0.0})
    for change in (gcn, deep, plain):
        assert KernelSet.of(tiny_folder_graph, dataclasses.replace(TASK, **change)) != known


def test_values_of_edges_have_kernels_of_their_own_whatever_their_number(tiny_folder_graph: Graph) -> None:
    plain, one, three = (
        KernelSet.of(tiny_folder_graph, Task(model="gat", heads=2, edge_dim=columns)) for columns in (0, 1, 3)
    )
    assert plain != one == three
    assert one.describe() != plain.describe()
    assert KernelSet.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@pytest.mark.parametrize("config", [None, CACHED])
def test_a_set_survives_json(tiny_folder_graph: Graph, config: TrainConfig | None) -> None:
    for known in (KernelSet(), KernelSet.of(tiny_folder_graph, TASK, config)):
        assert KernelSet.from_dict(json.loads(json.dumps(known.to_dict()))) == known


def test_other_kernels_are_described_otherwise() -> None:
    tasks = [
        dataclasses.replace(TASK, **change)
        for change in ({}, {"model": "gat"}, {"fanouts": (5,)}, {"fanouts": (5, 5, 5)}, {"dropout": 0.0})
    ]
    tasks += [dataclasses.replace(TASK, **change) for change in ({"norm": "batch"}, {"residual": True})]
    configs = [CACHED.replace(**change) for change in OTHERS]
    sets = [KernelSet(), *(KernelSet(kernel_set._small_task(task)) for task in tasks)]
    sets += [dataclasses.replace(sets[1], **change) for change in ({"sparse": True}, {"halves": True})]
    sets += [dataclasses.replace(sets[1], config=kernel_set._small_config(one)) for one in (TrainConfig(), *configs)]
    sets += [dataclasses.replace(sets[1], config=kernel_set._small_config(CACHED))]
    assert len({one.describe() for one in sets}) == len(set(sets))
    assert sets[1].describe() == "tuning sage on dense features (2 layers)"

"""Rows of float16 (`feature_dtype`): the values, whatever the tier and cache; what they take; what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.features.opening import open_features
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import as_halves, halves_seconds
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions

HALVES = TrainConfig(batch_size=64, feature_dtype="float16")
TIERS = [
    {},
    {"feature_tier": "disk"},
    {"num_partitions": 3, "partitioner": "random"},
    {"num_partitions": 3, "partitioner": "random", "feature_tier": "disk"},
    {"cache_bytes": 9_000, "cache_policy": "degree", "feature_tier": "disk"},
    {"cache_bytes": 9_000, "cache_policy": "access"},
]
DENSE_ONLY = [{"cache_bytes": 20_000, "cache_policy": "clock", "feature_tier": "disk"}]


def rows(graph: Graph, config: TrainConfig, **options) -> np.ndarray:
    parts = (np.arange(graph.num_nodes) % 3).astype(np.int32) if config.num_partitions > 1 else None
    store = open_features(graph, config, parts)
    store.enter_part(1)
    for _ in range(2):  # the second time a dynamic cache holds some
        x = store.read(np.arange(graph.num_nodes, dtype=np.int32), **options).x
    return (x.to_dense() if x.is_sparse_csr else x).float().numpy()


@pytest.mark.parametrize("changes", TIERS + DENSE_ONLY)
def test_dense_rows_are_rounded_once_wherever_they_are(changes: dict, small_folder_graph: Graph) -> None:
    assert isinstance(small_folder_graph.features, DenseFeatures)
    expected = small_folder_graph.features.array.astype(np.float16)
    assert np.array_equal(rows(small_folder_graph, HALVES.replace(**changes)), expected.astype(np.float32))
    out = torch.empty(expected.shape, dtype=torch.bfloat16)
    narrow = torch.from_numpy(expected).bfloat16().float().numpy()
    assert np.array_equal(rows(small_folder_graph, HALVES.replace(**changes), out=out), narrow)


@pytest.mark.parametrize("changes", TIERS)
def test_sparse_rows_are_rounded_once_wherever_they_are(changes: dict, sparse_graph: Graph, tmp_path) -> None:
    graph = dataclasses.replace(
        sparse_graph, features=dataclasses.replace(sparse_graph.features, data=sparse_graph.features.data / 3)
    )
    full = rows(graph, TrainConfig())
    assert not np.array_equal(full, full.astype(np.float16))
    stored = graph.on_disk(tmp_path)
    assert np.array_equal(rows(stored, HALVES.replace(**changes)), full.astype(np.float16).astype(np.float32))


def test_they_take_half_the_bytes(small_folder_graph: Graph) -> None:
    graph, every = small_folder_graph, 10**9
    for changes in ({}, {"cache_bytes": every, "feature_tier": "disk"}):
        full, half = (
            open_features(graph, TrainConfig(feature_dtype=dtype, **changes)) for dtype in ("float32", "float16")
        )
        index = 4 * graph.num_nodes if changes else 0
        assert half.host_bytes - index == (full.host_bytes - index) / 2 == graph.features.nbytes / 2
        assert half.row_bytes == full.row_bytes / 2
    halves_in_cache = open_features(graph, HALVES.replace(cache_bytes=9_000))
    assert len(halves_in_cache.cached) > 1.9 * len(open_features(graph, TrainConfig(cache_bytes=9_000)).cached) > 0


@pytest.mark.parametrize("value", [65_520.0, -70_000.0])
@pytest.mark.parametrize("tier", ["ram", "disk"])
def test_what_float16_can_not_hold_is_refused(value: float, tier: str, tiny_graph: Graph, tmp_path) -> None:
    assert isinstance(tiny_graph.features, DenseFeatures)
    x = np.array(tiny_graph.features.array)
    x[7, 3] = np.float32(np.copysign(65_519.9, value))
    assert np.isfinite(as_halves(x)).all()
    x[7, 3] = value
    graph = dataclasses.replace(tiny_graph, features=DenseFeatures(x)).on_disk(tmp_path)
    with pytest.raises(ConfigError, match=rf"at most 65,504 .*got {abs(value):g}; choose float32"):
        open_features(graph, HALVES.replace(feature_tier=tier))
    assert [path.name for path in (graph.folder / "derived").glob("*float16*")] == []


def test_what_lies_beside_the_graph_is_made_once_and_verified(tiny_graph: Graph, tmp_path) -> None:
    graph = tiny_graph.on_disk(tmp_path)
    seconds = halves_seconds(graph, graph.features, "features")
    assert seconds == halves_seconds(graph, graph.features, "features") > 0
    (file,) = (graph.folder / "derived").glob("table-features-float16/rows.npy")
    assert np.load(file).dtype == np.float16
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match="is damaged"):
        open_features(graph, HALVES.replace(feature_tier="disk"))


def test_features_that_are_float16_already_are_left(tiny_graph: Graph, tmp_path, hardware: Hardware) -> None:
    half = dataclasses.replace(tiny_graph, features=DenseFeatures(as_halves(tiny_graph.features.array)))
    values = [
        SearchSpace.of(Setting(Task(), graph.characteristics(), hardware)).knob("feature_dtype").values
        for graph in (tiny_graph, half)
    ]
    assert values == [("float32", "float16"), ("float32",)]
    stored = half.on_disk(tmp_path)
    assert halves_seconds(stored, stored.features, "features") == 0
    assert np.array_equal(rows(stored, HALVES.replace(feature_tier="disk")), rows(half, TrainConfig()))
    assert not (stored.folder / "derived").exists()


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("aggregation", ["sampled", "full"])
def test_modes_tiers_and_resumed_runs_train_bit_identically(
    aggregation: str, compute_dtype: str, small_folder_graph: Graph, tmp_path
) -> None:
    graph, task = small_folder_graph, Task(hidden_channels=16, fanouts=(5, 3))
    base = HALVES.replace(compute_dtype=compute_dtype, input_aggregation=aggregation)
    others = [
        {"parallel_mode": "mode1", "num_workers": 2, "feature_tier": "disk"},
        {"parallel_mode": "mode2", "cache_bytes": 20_000, "cache_policy": "fifo"},
    ]
    states = []
    for config in (base, *(base.replace(**changes) for changes in others), base.replace(feature_dtype="float32")):
        with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            list(trainer.steps(0))
            states.append({name: weight.clone() for name, weight in trainer.model.state_dict().items()})
    for other in states[1:3]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)
    assert any(not torch.equal(states[0][name], weight) for name, weight in states[3].items())
    assert base.learning_key() != base.replace(feature_dtype="float32").learning_key()

    whole = train(base, graph, task=task, epochs=2, out=tmp_path / "whole")
    train(base, graph, task=task, epochs=1, out=tmp_path / "halves")
    second = train(base.replace(**others[0]), graph, task=task, epochs=2, out=tmp_path / "halves", resume=True)
    assert second.val_accuracy == whole.val_accuracy
    models = [torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("whole", "halves")]
    assert all(torch.equal(models[0][name], weight) for name, weight in models[1].items())

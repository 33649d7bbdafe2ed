from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.limits import Limits
from a3gnn.measurement import Metrics
from a3gnn.models.layers.block import LayerBlock
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training.request import this_machine
from a3gnn.training.tuned import TunedConfig

MakeBlock = Callable[..., LayerBlock]


@pytest.fixture
def make_block() -> MakeBlock:
    """Returns a maker of random blocks whose destinations are the first sources, with self loops and empty rows."""

    def make(num_dst: int, num_src: int, num_edges: int = 60, seed: int = 0) -> LayerBlock:
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, num_dst, num_edges)
        rows[rows == num_dst // 2] = 0
        pairs = np.unique(np.stack([np.append(rows, 1), np.append(rng.integers(0, num_src, num_edges), 1)]), axis=1)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[0], minlength=num_dst))])
        degrees = np.bincount(pairs[0, pairs[0] != pairs[1]], minlength=num_src)
        return LayerBlock(
            torch.from_numpy(indptr.astype(np.int32)),
            torch.from_numpy(pairs[1].astype(np.int32)),
            num_src,
            slice(0, num_dst),
            torch.from_numpy(degrees.astype(np.float32)),
        )

    return make


@pytest.fixture
def task() -> Task:
    """A small task that learns the small graph in a few epochs."""
    return Task(hidden_channels=32, fanouts=(10, 5), learning_rate=0.01)


@pytest.fixture
def write_tuned(
    small_folder_graph: Graph, task: Task, tmp_path: Path, hardware: Hardware, make_metrics: Callable[..., Metrics]
) -> Callable[..., Path]:
    """Returns a writer of a tuned.json for the small graph on this machine; keywords replace its fields."""

    def write(**changes: Any) -> Path:
        tuned = TunedConfig(
            config=TrainConfig(batch_size=256),
            setting=Setting(task, small_folder_graph.characteristics(), this_machine(hardware.profile)),
            spec=str(small_folder_graph.folder),
            limits=Limits(host_bytes=4 * 2**30),
            predicted={"throughput_epochs_per_s": {"mean": 20.0, "low": 10.0, "high": 30.0}},
            measured=make_metrics(throughput=25.0, host=300 * 2**20, accuracy=0.6),
        )
        path = tmp_path / "tuned.json"
        dataclasses.replace(tuned, **changes).write(path)
        return path

    return write

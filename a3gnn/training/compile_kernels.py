"""Has numba compile a set of kernels: `python -m a3gnn.training.compile_kernels`, with the set as JSON on stdin.

Only a kernel's callers know its signatures. So this runs the callers: it reads a graph of some hundred nodes and trains
on it in all the ways that the set requires. The compiled kernels stay in numba's cache.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from a3gnn.config import AHEAD, CACHE_POLICIES, PARTITIONERS, STATIC_POLICIES, TrainConfig
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.knobs import ALL
from a3gnn.process.child import die_with_parent
from a3gnn.process.fork_server import COMPILED
from a3gnn.storage.workplace import Workplace
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet

_DENSE = "synthetic:nodes=400,degree=8,classes=4,features=32"
_SPARSE = f"{_DENSE},density=0.2"
#: Hidden channels, for both orders: narrow layers map before they aggregate, wide ones after.
_NARROW, _WIDE = 8, 256
#: The module whose kernels a mini-batch needs or not, depending on its size.
_BY_SIZE = ("a3gnn.kernels.warm_up",)
_FEW = {"batch_size": 32}
_CACHED = {**_FEW, "cache_bytes": 4096}
_PARTS = {**_FEW, "num_partitions": 2, "partitioner": "blocks"}
#: Places and types of rows. Both determine which kernels read them, so all combinations are trained.
_PLACES: tuple[dict[str, Any], ...] = (
    _FEW,
    _CACHED,
    {**_CACHED, "cache_policy": "fifo"},
    _PARTS,
    {**_PARTS, **_CACHED},
)
_TYPES: dict[str, tuple[str, ...]] = {
    "compute_dtype": ("float32", "bfloat16"),
    "feature_dtype": ("float32", "float16"),
    "input_aggregation": ("sampled", "full"),
    "feature_tier": ("ram", "disk"),
}
#: Other fields with kernels of their own, independent of rows.
_OTHERS: tuple[dict[str, Any], ...] = (
    {"batch_size": ALL},
    {**_FEW, "seed_order": "proximity"},
    {**_CACHED, "bias_rate": 2.0},
    *({**_CACHED, "cache_policy": policy} for policy in CACHE_POLICIES),
    {**_FEW, "feature_tier": "disk", "cache_bytes": 1 << 26, "cache_policy": AHEAD},
    *({**_PARTS, "partitioner": partitioner} for partitioner in PARTITIONERS),
)


def main() -> None:
    """Compiles the set on stdin."""
    die_with_parent()
    wanted = KernelSet.from_dict(json.load(sys.stdin))
    workplace = Workplace()
    try:
        compile_kernels(wanted, workplace.folder)
    finally:
        workplace.close()


def compile_kernels(wanted: KernelSet, folder: Path) -> None:
    """Calls every kernel of `wanted` with the argument types of its work.

    Args:
        wanted: The set.
        folder: An empty folder for a graph.
    """
    os.environ["A3GNN_CACHE"] = str(folder)
    graph = _graph(wanted).on_disk(folder)
    if wanted.task is None:
        return
    for config in _tried(wanted) if wanted.config is None else [wanted.config]:
        for width in (_NARROW, _WIDE):
            _train(graph, config, dataclasses.replace(wanted.task, hidden_channels=width), folder)
    for name in _BY_SIZE if wanted.config else COMPILED:
        importlib.import_module(name).warm_up()


def _graph(wanted: KernelSet) -> Graph:
    graph = Graph.load(_SPARSE if wanted.sparse else _DENSE)
    if wanted.task is not None and wanted.task.edge_dim:
        weights = np.ones(graph.num_edges, dtype=np.float32)
        graph = dataclasses.replace(graph, edge_attr=weights[:, None], edge_weight=weights)
    if not wanted.halves:
        return graph
    features = graph.features
    if isinstance(features, DenseFeatures):
        return dataclasses.replace(graph, features=DenseFeatures(features.array.astype(np.float16)))
    data = features.data.astype(np.float16)
    return dataclasses.replace(graph, features=SparseFeatures(data, features.indices, features.indptr, features.shape))


def _train(graph: Graph, config: TrainConfig, task: Task, folder: Path) -> None:
    """Trains an epoch and evaluates. Torch is imported only here, because reading a graph doesn't need it."""
    import torch

    from a3gnn.training.trainer import Trainer, TrainerOptions

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with Trainer(graph, config, task, TrainerOptions(scratch=folder), device=device) as trainer:
        for _ in trainer.steps(0):
            pass
        trainer.validate()


def _tried(wanted: KernelSet) -> list[TrainConfig]:
    """Returns configurations that together need every kernel of a tune's configurations."""
    assert wanted.task is not None
    types = [dict(zip(_TYPES, values, strict=True)) for values in itertools.product(*_TYPES.values())]
    fields = [*({**place, **of} for place, of in itertools.product(_PLACES, types)), *_OTHERS]
    configs = dict.fromkeys(TrainConfig(**one).canonical() for one in fields)
    return [config for config in configs if _runs(config, wanted)]


def _runs(config: TrainConfig, wanted: KernelSet) -> bool:
    """Returns whether the model supports the `input_aggregation` of `config`, and the features its cache policy."""
    assert wanted.task is not None
    has_layer = wanted.task.aggregates is not None or config.input_aggregation == "sampled"
    return has_layer and not (wanted.sparse and config.cache_policy not in STATIC_POLICIES)


if __name__ == "__main__":
    main()

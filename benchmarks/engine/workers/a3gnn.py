"""a3gnn inside its worker, through the entry points that its users have."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterator
from contextlib import closing
from time import perf_counter
from typing import Any, cast

import numba
import numpy as np
import torch

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.features import features_from
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import ModelName, Task
from a3gnn.threads import pool
from a3gnn.training.trainer import Trainer
from a3gnn.version import __version__
from benchmarks.engine.workers import a3gnn_shares
from benchmarks.engine.workers.serve import serve
from benchmarks.engine.workers.work import DROPOUT, HEADS, LEARNING_RATE, Batch, Unavailable, Work

_SEED = 1
_MODES: dict[str, tuple[ParallelMode, int]] = {
    "sequential": ("sequential", 1),
    "mode1, 1 worker": ("mode1", 1),
    "mode1, 2 workers": ("mode1", 2),
    "mode2, 1 worker": ("mode2", 1),
    "mode2, 2 workers": ("mode2", 2),
}


class A3GNN:
    """The engine under test."""

    name = "a3gnn"

    def __init__(self) -> None:
        self._graph: Graph | None = None

    def versions(self) -> dict[str, str]:
        """Returns the versions of a3gnn and what computes for it."""
        return {
            "a3gnn": __version__,
            "python": platform.python_version(),
            "numba": numba.__version__,
            "numpy": np.__version__,
            "torch": torch.__version__,
        }

    def open(self, folder: str) -> dict[str, int]:
        """Loads the graph into memory of the process's own, as the peers do."""
        mapped = Graph.load(folder)
        arrays = {name: np.array(array) for name, array in mapped.arrays().items()}
        features = features_from(arrays)
        held: dict[str, Any] = {
            name: arrays[name] for name in ("indptr", "indices", "labels", "train_ids", "val_ids", "test_ids")
        }
        graph = self._graph = dataclasses.replace(mapped, **held, features=features, folder=None)
        return {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}

    def variants(self, work: Work) -> list[str]:
        """Returns the sampler, or the parallel modes."""
        return ["two_bucket"] if work.one_thread else list(_MODES)

    def batches(self, work: Work, variant: str) -> Iterator[Batch]:
        """Returns mini-batches without end."""
        if work.one_thread:
            return _sampled(self._opened, work)
        mode, workers = _MODES[variant]
        config = TrainConfig(batch_size=work.batch_size, parallel_mode=mode, num_workers=workers)
        return (_loaded if work.kind == "load" else _trained)(self._opened, work, config)

    def extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        """Returns the machine's limits, or the share of them that the sampler or the gather reaches."""
        answers: dict[str, Callable[..., dict[str, Any]]] = {
            "limits": a3gnn_shares.measure_limits,
            "sampler_share": a3gnn_shares.sampler_share,
            "gather_share": a3gnn_shares.gather_share,
        }
        if question not in answers:
            raise Unavailable(f"a3gnn's worker does not know {question!r}")
        return answers[question](self._opened, **argument)

    @property
    def _opened(self) -> Graph:
        assert self._graph is not None, "no graph is open"
        return self._graph


def _sampled(graph: Graph, work: Work) -> Iterator[Batch]:
    cached = np.zeros(graph.num_nodes, dtype=np.bool_)
    biased = work.kind != "sample"
    if biased:
        cached[hottest_first(graph)[: max(1, round(work.cache_share * graph.num_nodes))]] = True
    bias = work.bias if biased else 1.0
    sampler = Sampler(graph.edges, work.fanouts, seed=_SEED, bias_rate=bias, cached=cached)
    random, epoch = np.random.default_rng(_SEED), 0
    while True:
        order = random.permutation(graph.train_ids)
        for index, start in enumerate(range(0, len(order), work.batch_size)):
            seeds = order[start : start + work.batch_size]
            begin = perf_counter()
            with pool.limited(1):
                subgraph = sampler.sample(seeds, epoch, index)
            ms = (perf_counter() - begin) * 1e3
            yield Batch(index, len(seeds), ms, {"sample": ms}, subgraph.num_nodes, subgraph.num_edges)
        epoch += 1


def _loaded(graph: Graph, work: Work, config: TrainConfig) -> Iterator[Batch]:
    with Pipeline(graph, config, work.fanouts, PipelineOptions(seed=_SEED)) as pipeline:
        epoch = 0
        while True:
            begin = perf_counter()
            for batch in pipeline.epoch(epoch):
                ms = (perf_counter() - begin) * 1e3
                sub = batch.subgraph
                stages = _stages(config, batch.seconds, "sample", "gather")
                yield Batch(batch.index, batch.num_seeds, ms, stages, sub.num_nodes, sub.num_edges)
                begin = perf_counter()
            epoch += 1


def _trained(graph: Graph, work: Work, config: TrainConfig) -> Iterator[Batch]:
    task = Task(
        model=cast(ModelName, work.model),
        hidden_channels=work.hidden,
        fanouts=work.fanouts,
        dropout=DROPOUT,
        learning_rate=LEARNING_RATE,
        heads=HEADS,
        seed=_SEED,
    )
    with Trainer(graph, config, task) as trainer:
        epoch = 0
        while True:
            begin = perf_counter()
            with closing(trainer.steps(epoch)) as steps:
                for step in steps:
                    ms = (perf_counter() - begin) * 1e3
                    stages = _stages(config, step.seconds, "sample", "gather", "train")
                    yield Batch(step.index, step.seeds, ms, stages, step.input_nodes, step.sampled_edges, step.loss)
                    begin = perf_counter()
            epoch += 1


def _stages(config: TrainConfig, seconds: StageSeconds, *names: str) -> dict[str, float]:
    """Returns the stages in milliseconds where they run one after the other."""
    if config.parallel_mode != "sequential":
        return {}
    return {"model" if name == "train" else name: getattr(seconds, name) * 1e3 for name in names}


if __name__ == "__main__":
    serve(A3GNN())

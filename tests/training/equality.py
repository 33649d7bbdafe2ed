"""What training by shares is compared with, and on what: by ranks, and by trainers of one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.learner import Replica
from a3gnn.training.trainer import Trainer
from tests.training.loops import with_self_loops
from tests.training.ranks.threads import BUILDING

MODELS = ["sage", "gcn", "gat", "gin"]
BATCH = 1024
#: Of 1,024 seeds; a second mini-batch of fewer seeds is cut in proportion.
SPLITS = [(1024, 0), (1023, 1), (700, 324)]
EPOCHS = 3


def random_splits() -> list[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    ends = [np.sort(rng.integers(0, BATCH + 1, parts - 1)) for parts in (2, 3, 3, 4)]
    return [tuple(np.diff([0, *some, BATCH]).tolist()) for some in ends]


def with_seeds(small_graph: Graph) -> Graph:
    """Isolated nodes, self loops, and seeds for a mini-batch of 1,024 and a smaller one."""
    looped = with_self_loops(small_graph)
    ids = np.arange(looped.num_nodes, dtype=np.int32)
    return dataclasses.replace(looped, train_ids=ids[:1300], val_ids=ids[1300:1600], test_ids=ids[1600:])


def task_of(model: str, **others: Any) -> Task:
    given: dict[str, Any] = {"hidden_channels": 16, "fanouts": (6, 4), "heads": 2, "learning_rate": 0.01} | others
    return Task(model=model, **given)


def in_double(replica: Replica, eps: float = 1e-8) -> None:
    """Has `replica` compute in double precision, by torch's Adam with `eps`: ours is of float32."""
    learner: Any = replica.learner
    learner.model.double()
    learner.dtype = torch.float64
    loss = learner.loss
    learner.loss = lambda batch: loss(dataclasses.replace(batch, x=batch.x.double()))
    rate = replica.optimizer.param_groups[0]["lr"]
    replica.optimizer = torch.optim.Adam(learner.model.parameters(), rate, eps=eps)


def unweighted(replica: Replica) -> None:
    """Has it weigh each share alike, in double precision."""
    in_double(replica)
    learner: Any = replica.learner
    learner._part = lambda share: 0.5


def counting_all(replica: Replica) -> None:
    """Has it count each node once per share in batch statistics, in double precision."""
    in_double(replica)
    learner: Any = replica.learner
    loss = learner.loss

    def with_all(batch: Any) -> Any:
        joined: Any = replica.joined
        joined._statistics.owned[:] = True
        return loss(batch)

    learner.loss = with_all


def as_it_is(replica: Replica) -> None:
    """Leaves it as it is."""


def alone(
    graph: Graph, config: TrainConfig, task: Task, prepare: Callable[[Replica], None], **others: Any
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Returns the weights after three epochs, and the losses."""
    with BUILDING:
        made = Trainer(graph, config, task, **others)
    return trained(made, [made._replica], prepare)


def trained(
    made: Trainer, replicas: list[Replica], prepare: Callable[[Replica], None]
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Returns the same of `made`, whose `replicas` are prepared."""
    with made as trainer:
        for replica in replicas:
            prepare(replica)
        losses = [step.loss for epoch in range(EPOCHS) for step in trainer.steps(epoch)]
        return trainer.model.state_dict(), losses


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


KNOBS = {
    "workers": {"parallel_mode": "mode1", "num_workers": 2},
    "mode2": {"parallel_mode": "mode2", "num_workers": 2},
    "static cache with bias": {"cache_bytes": 40_000, "cache_policy": "degree", "bias_rate": 8.0},
    "cache by access with bias": {"cache_bytes": 40_000, "cache_policy": "access", "bias_rate": 4.0},
    "dynamic cache": {"cache_bytes": 40_000, "cache_policy": "clock"},
    "partitions": {"num_partitions": 3},
    "disk": {"feature_tier": "disk"},
    "halves": {"feature_dtype": "float16"},
    "proximity": {"seed_order": "proximity"},
    "whole aggregation": {"input_aggregation": "full"},
    "fanouts": {"seed_fanout": 3, "deep_fanout": 2},
}

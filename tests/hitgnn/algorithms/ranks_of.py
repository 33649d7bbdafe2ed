"""What ranks compute by a synchronous algorithm, in double precision, and what one process computes of the same.

torchrun --nproc-per-node N ranks_of.py GRAPH FOUND: every case; rank 0 writes what `Found` says.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.algorithm import Algorithm, RankOf
from a3gnn.hitgnn.algorithms.built_in import ALGORITHMS as ALL
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.hitgnn.algorithms.p3 import PartialSums
from a3gnn.hitgnn.algorithms.stored import Stored, by_dimension, by_out_degree, by_partition
from a3gnn.launch import launch
from a3gnn.pipeline.divided import side_by_side
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch
from a3gnn.ranks.group import joined
from a3gnn.seeding import generator
from a3gnn.task import Task
from a3gnn.training.learner import Replica
from a3gnn.training.request import TrainRequest
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.equality import in_double

EPOCHS = 2
CONFIG = TrainConfig(batch_size=12)


class Found(NamedTuple):
    """Gradients of each iteration, all weights' in one; and what each rank read and sent in it, by name."""

    gradients: list[Tensor]
    traffic: list[list[dict[str, Any]]]


def skewed(graph: Graph, ranks: int, seed: int) -> NDArray[np.int64]:
    """Parts of which the first has most train nodes, and the last none."""
    weights = np.array([6, *[2] * (ranks - 2), 0]) if ranks > 2 else np.array([4, 1])
    return generator(seed, "skewed").choice(ranks, graph.num_nodes, p=weights / weights.sum())


ALGORITHMS = {
    "parts": Algorithm("parts", skewed, by_partition),
    "hot": Algorithm("hot", skewed, by_out_degree, balanced=False),
    "relayed": Algorithm("relayed", skewed, by_partition, direct=False),
    "columns": Algorithm("columns", skewed, by_dimension, PartialSums, balanced=False),
    **ALL,
}
_SMALL: dict[str, Any] = {"hidden_channels": 16, "fanouts": (5, 3), "heads": 2, "learning_rate": 0.01}
#: Whether mini-batches are normalized together, which one process does to all of them side by side, without dropout.
TASKS = {
    **{name: Task(model=name, **_SMALL) for name in ("sage", "gcn", "gat", "gatv2", "transformer")},
    "layer norm": Task(model="sage", norm="layer", residual=True, **_SMALL),
    "gin": Task(model="gin", dropout=0.0, **_SMALL),
    "batch norm": Task(model="sage", norm="batch", dropout=0.0, **_SMALL),
}
#: Of Adam: a bias before a batch norm has a gradient of rounding alone, which a smaller one makes a step of.
EPS = 1e-6
CASES = [
    *(("parts", task) for task in TASKS),
    *(("columns", task) for task in TASKS),
    *(("hot", task) for task in ("sage", "gin")),
    *((name, "sage") for name in ("relayed", *ALL)),
]


def gradients_of(replica: Replica) -> Tensor:
    found = [weight.grad for weight in replica.learner.model.parameters()]
    return torch.cat([grad.flatten() for grad in found if grad is not None])


def whole_gradients_of(trainer: Any) -> Tensor:
    """Returns the same of a rank, whose columns of the input layer's weights are put among those of the others."""
    replica: Replica = trainer._replica
    exchange = getattr(trainer, "_exchange", None)
    if exchange is None:
        return gradients_of(replica)
    own = {id(weight) for weight in exchange.own_weights}
    found = [(weight.grad, id(weight) in own) for weight in replica.learner.model.parameters()]
    return torch.cat([(exchange.split.whole(grad) if split else grad).flatten() for grad, split in found])


def iterations_of(algorithm: Algorithm, graph: Graph, ranks: int, task: Task) -> tuple[NDArray[np.int32], Iterations]:
    parts = algorithm.parts(graph, ranks, task.seed)
    size = CONFIG.batch_size
    return parts, Iterations(graph.train_ids, parts, ranks, size, task.seed, balanced=algorithm.balanced)


def by_one_process(algorithm: Algorithm, graph: Graph, ranks: int, task: Task) -> Found:
    """The same mini-batches, one after the other, or side by side where batch norms read them together."""
    parts, iterations = iterations_of(algorithm, graph, ranks, task)
    stored = [algorithm.stored(graph, parts, rank, ranks) for rank in range(ranks)]
    found = Found([], [])
    with _like(algorithm), Trainer(graph, CONFIG, task) as trainer:
        replica, pipeline = trainer._replica, trainer._pipeline
        in_double(replica, EPS)
        trainer.model.train()
        for epoch in range(EPOCHS):
            for planned in iterations.of(epoch):
                replica.optimizer.zero_grad()
                busy = [batch for batch in planned if len(batch.seeds)]
                if task.model == "gin" or task.norm == "batch":
                    subgraphs = [pipeline.sampler.sample(batch.seeds, epoch, batch.index) for batch in busy]
                    union = SampledBatch(epoch, 0, side_by_side(subgraphs), 0.0)
                    replica.learner.loss(pipeline._stages.gather(union)).backward()
                else:
                    seeds = sum(len(batch.seeds) for batch in busy)
                    for batch in pipeline.load(epoch, busy):
                        (replica.learner.loss(batch) * (batch.num_seeds / seeds)).backward()
                found.gradients.append(gradients_of(replica))
                found.traffic.append(list(_traffic(planned, epoch, trainer, stored)))
                replica.optimizer.step()
    return found


@contextmanager
def _like(algorithm: Algorithm) -> Iterator[None]:
    """Has one process sum rows while it reads them, in single precision, where the algorithm's ranks do."""
    DenseHostStore.can_aggregate = algorithm.direct and algorithm.exchange is None
    try:
        yield
    finally:
        DenseHostStore.can_aggregate = True


def _traffic(
    planned: list[PlannedBatch], epoch: int, trainer: Trainer, stored: list[Stored]
) -> Iterator[dict[str, Any]]:
    sample = trainer._pipeline.sampler.sample
    found = [sample(batch.seeds, epoch, batch.index) if len(batch.seeds) else None for batch in planned]
    split = any(one.is_split(trainer.graph) for one in stored)
    # Of SAGE: a row of 16 partial sums per destination of the input layer, and no edge is cut.
    sums = [None if one is None else one.hop_sizes[-2] * 16 * 8 for one in found]
    for rank, (one, kept) in enumerate(zip(found, stored, strict=True)):
        if one is None:
            yield {"batches": 0, "seeds": 0}
            continue
        told = {"batches": 1, "seeds": one.num_seeds}
        if not split:
            told |= {"rows": one.num_nodes, "hits": int(np.isin(one.n_id, kept.nodes).sum()), "activation_bytes": 0}
        elif None not in found and trainer.task.model == "sage":
            rows, others = (sum(part.num_nodes for part in found if part), sum(sums) - sums[rank])  # type: ignore[arg-type,operator]
            told |= {"rows": rows, "hits": rows, "activation_bytes": 2 * (others + (len(sums) - 1) * sums[rank])}  # type: ignore[operator]
        yield told


def by_ranks(us: RankOf, request: TrainRequest, scratch: Path) -> Found:
    """What these ranks compute, whose stores have NaN wherever they store nothing."""
    found = Found([], [])
    with _poisoned(us, request, scratch) as trainer:
        replica: Any = trainer._replica
        in_double(replica, EPS)
        update = replica.update

        def updated(batch: Any) -> None:
            found.gradients.append(whole_gradients_of(trainer))
            update(batch)

        replica.update = updated
        for epoch in range(EPOCHS):
            found.traffic.extend([one.to_dict() for one in step.traffic] for step in trainer.steps(epoch))
        stats, mine = trainer._pipeline.store.stats, [row[us._ranks.rank] for row in found.traffic]
        assert stats.misses == sum(one["rows"] - one["hits"] for one in mine)
        assert stats.hits == sum(one["hits"] for one in mine)
    return found


def _poisoned(us: Any, request: TrainRequest, scratch: Path) -> Trainer:
    graph, rows = request.graph, np.zeros(request.graph.features.shape, dtype=np.float32)
    made = dataclasses.replace(graph, features=DenseFeatures(rows))
    request = us.adapted(dataclasses.replace(request, graph=made), str)
    stored = us._algorithm.stored(graph, us._parts, us._ranks.rank, us.count)
    own = np.ix_(stored.nodes, range(*stored.columns))
    rows[:] = np.nan
    rows[own] = graph.features.array[own]
    config = request.config.replace(feature_tier="ram")  # from this process's arrays, which have NaN
    trainer: Trainer = us.trainer(dataclasses.replace(request, config=config), TrainerOptions(scratch))
    if us._algorithm.direct and not stored.is_split(graph):
        us._features._base = DenseRows.of(graph.features)  # the counted read
    return trainer


if __name__ == "__main__":
    given, out = Graph.load(sys.argv[1]), Path(sys.argv[2])
    here = launch()
    assert here is not None
    with joined(here) as group:
        results = {
            case: by_ranks(
                RankOf(ALGORITHMS[case[0]], group), TrainRequest(given, CONFIG, TASKS[case[1]], None), out.parent
            )
            for case in CASES
        }
    if not here.rank:
        torch.save({case: tuple(one) for case, one in results.items()}, out)

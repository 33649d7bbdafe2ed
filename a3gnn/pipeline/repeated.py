"""`repeated_work`: what trainers do of a mini-batch several times, as shares reach the same nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import Sampler
from a3gnn.sampling.share import cut, seed_bounds


@dataclass(frozen=True, slots=True)
class RepeatedWork:
    """Of all shares together over the whole mini-batch; 1 where nothing is repeated.

    Attributes:
        sampled_edges: Edges that are sampled.
        trained_edges: Edges that are computed with, of the input layer.
        rows: Rows of features that are read.
    """

    sampled_edges: float
    trained_edges: float
    rows: float


def repeated_work(
    sampler: Sampler, planned: Iterable[PlannedBatch], weights: Sequence[int], *, independent: bool
) -> RepeatedWork:
    """Returns what shares repeat of the mini-batches `planned`, as those of epoch 0 are sampled.

    Args:
        sampler: Samples them once more, whole.
        planned: One at least.
        weights: What each share has of the seeds, in proportion.
        independent: Whether each is sampled for itself; if not, it is cut from the whole.
    """
    edges = rows = trained = read = 0
    for batch in planned:
        whole = sampler.sample(batch.seeds, 0, batch.index)
        edges, rows = edges + whole.num_edges, rows + whole.num_nodes
        for low, high in pairwise(seed_bounds(len(batch.seeds), weights)):
            if high > low:
                alone = sampler.sample(batch.seeds[low:high], 0, batch.index) if independent else cut(whole, low, high)
                trained, read = trained + alone.num_edges, read + alone.num_nodes
    # A graph may have no edge.
    repeated = trained / edges if edges else 1.0
    return RepeatedWork(repeated if independent else 1.0, repeated, read / rows)

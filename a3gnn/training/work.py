"""What an epoch of training took, and the figures that it is told by: NVTPS, MTEPS and energy (docs/measurement.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from a3gnn.nvtps import mteps, nvtps
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.training.hybrid.counts import counts_of
from a3gnn.training.ranks.exchange import summed

if TYPE_CHECKING:
    from a3gnn.training.ranks.protocol import Ranks


class Traversed(NamedTuple):
    """Nodes and edges of all layers of a mini-batch, of all shares; nodes that two shares have count twice."""

    nodes: int
    edges: int


def traversed(parts: Iterable[Subgraph]) -> Traversed:
    """Returns what a mini-batch traverses that is trained in `parts`; one without seeds only keeps step."""
    counts = [counts_of(part) for part in parts if part.share is None or part.share.num_seeds]
    return Traversed(
        int(sum(count.traversed_nodes for count in counts)), int(sum(count.traversed_edges for count in counts))
    )


class Work(NamedTuple):
    """Sums over mini-batches; NaN of what is not known.

    Attributes:
        nodes: Nodes over all layers.
        edges: Edges over all layers.
        joules: That the machines took.
    """

    nodes: float
    edges: float
    joules: float

    def plus(self, other: Sequence[float]) -> Self:
        """Returns the sums of both."""
        return type(self)(*(own + more for own, more in zip(self, other, strict=True)))

    def over(self, ranks: Ranks | None) -> Self:
        """Returns the sums over all `ranks`, each of which calls it; without any, this."""
        return self if ranks is None else type(self)(*summed(ranks, np.array(self)).tolist())


class WorkFigures(NamedTuple):
    """What an epoch is told by; None where it is not known.

    Attributes:
        nvtps: Vertices traversed per second.
        mteps: Millions of traversed edges per second.
        kilojoules: That the machines took.
    """

    nvtps: float | None = None
    mteps: float | None = None
    kilojoules: float | None = None

    @classmethod
    def of(cls, work: Work, seconds: float) -> Self:
        """Returns the figures of `work`, which took `seconds` of training."""
        found = float(nvtps(work.nodes, seconds)), mteps(work.edges, seconds), work.joules / 1e3
        return cls(*(None if math.isnan(figure) else figure for figure in found))

"""`CountCurve`: nodes and edges in a share of a mini-batch, by its number of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError

if TYPE_CHECKING:  # the kernels are slow to import, and simulations need none
    from a3gnn.sampling.sampler import Sampler
    from a3gnn.sampling.subgraph import Subgraph


@dataclass(frozen=True, slots=True)
class Counts:
    """Nodes and edges in one trainer's part of a mini-batch.

    Attributes:
        nodes: Distinct nodes after each hop, the seeds first: num_layers + 1 numbers. |V^l| is `nodes[L - l]`.
        edges: Edges sampled at each hop, the seeds' hop first: num_layers numbers. Layer l computes with the edges of
            the hops up to L - l: |E^l| is their sum.
    """

    nodes: tuple[float, ...]
    edges: tuple[float, ...]

    @classmethod
    def of(cls, nodes: Iterable[float], edges: Iterable[float]) -> Self:
        """Returns the counts `nodes` and `edges`, numbers of any type."""
        return cls(tuple(map(float, nodes)), tuple(map(float, edges)))

    @property
    def input_nodes(self) -> float:
        """|V^0|: distinct nodes whose features are loaded."""
        return self.nodes[-1]

    @property
    def layers(self) -> tuple[tuple[float, float, float], ...]:
        """Sources, destinations and edges of each layer, the input layer first."""
        depth = len(self.edges)
        hops = range(depth - 1, -1, -1)
        return tuple((self.nodes[hop + 1], self.nodes[hop], sum(self.edges[: hop + 1])) for hop in hops)

    @property
    def traversed_nodes(self) -> float:
        """Sum of nodes over all layers, the input included: the numerator of NVTPS (HitGNN, Eq. 3)."""
        return sum(self.nodes)

    @property
    def traversed_edges(self) -> float:
        """Sum of edges over all layers: the numerator of MTEPS (Eq. 5)."""
        return sum(edges for _, _, edges in self.layers)


@dataclass(frozen=True, slots=True, eq=False)
class CountCurve:
    """Counts by number of seeds, interpolated linearly; 0 seeds have no nodes and edges.

    Cutting a mini-batch repeats work: a node that two shares reach is in both, so nodes grow slower than seeds.

    Attributes:
        seeds: Numbers of seeds with counts, ascending.
        nodes: Shape (len(seeds), num_layers + 1), float64.
        edges: Shape (len(seeds), num_layers), float64.

    Raises:
        UsageError: The numbers of seeds are not positive and ascending.
    """

    seeds: tuple[int, ...]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not self.seeds or list(self.seeds) != sorted({seeds for seeds in self.seeds if seeds > 0}):
            raise UsageError(f"seeds must be positive and ascending, got {self.seeds}")

    def at(self, seeds: int) -> Counts:
        """Returns the counts of a share of `seeds` seeds.

        Raises:
            UsageError: `seeds` is beyond the largest counted number.
        """
        return _interpolated(self, seeds)

    @classmethod
    def sampled(cls, sampler: Sampler, train: NDArray[np.int32], seeds: Sequence[int], repeats: int = 3) -> CountCurve:
        """Returns the mean counts of `sampler` over `repeats` mini-batches of random seeds from `train`.

        Random numbers are keyed by hop and node. A share that is sampled alone therefore has about the same counts as
        its part of the whole mini-batch. Only nodes that the whole mini-batch reaches at an earlier hop differ.

        Raises:
            UsageError: `train` has fewer seeds than the largest of `seeds`.
        """
        if max(seeds, default=0) > len(train):
            raise UsageError(
                f"seeds must be at most {len(train)}, the train nodes, got {tuple(seeds)}; count smaller shares"
            )
        nodes, edges = [], []
        for count in seeds:
            found = [_count(sampler, train, count, repeat) for repeat in range(repeats)]
            nodes.append(np.mean([one.nodes for one in found], axis=0))
            edges.append(np.mean([one.edges for one in found], axis=0))
        return cls(tuple(seeds), np.array(nodes), np.array(edges))

    @classmethod
    def expected(cls, num_nodes: int, mean_degree: float, fanouts: Sequence[int], seeds: Sequence[int]) -> CountCurve:
        """Returns the expected counts in a graph whose nodes have `mean_degree` in-neighbors and are equally popular.

        It serves graphs that are not available. Real graphs have hubs, so their mini-batches hold fewer distinct nodes.
        """
        nodes, edges = [], []
        for count in seeds:
            seen, frontier = [float(count)], float(count)
            drawn = []
            for fanout in fanouts:
                drawn.append(frontier * min(fanout, mean_degree))
                reached = num_nodes - (num_nodes - seen[-1]) * np.exp(-drawn[-1] / num_nodes)
                frontier = reached - seen[-1]
                seen.append(float(reached))
            nodes.append(seen)
            edges.append(drawn)
        return cls(tuple(seeds), np.array(nodes), np.array(edges))


@lru_cache(maxsize=1 << 14)
def _interpolated(curve: CountCurve, seeds: int) -> Counts:
    if not 0 <= seeds <= curve.seeds[-1]:
        raise UsageError(f"counts are known up to {curve.seeds[-1]} seeds, got {seeds}; count larger shares")
    grid = (0, *curve.seeds)

    def between(table: NDArray[np.float64]) -> tuple[float, ...]:
        return tuple(float(np.interp(seeds, grid, (0.0, *column))) for column in table.T)

    return Counts(between(curve.nodes), between(curve.edges))


def _count(sampler: Sampler, train: NDArray[np.int32], seeds: int, repeat: int) -> Counts:
    picked = np.random.default_rng(repeat).permutation(len(train))[:seeds]
    found = sampler.sample(train[picked], epoch=0, batch=repeat)
    return counts_of(found)


def counts_of(subgraph: Subgraph) -> Counts:
    """Returns the counts of a sampled neighborhood without types, or of a share of one."""
    ends = [0, *(int(subgraph.indptr[size]) for size in subgraph.hop_sizes[:-1])]
    return Counts.of(subgraph.hop_sizes, [end - begin for begin, end in pairwise(ends)])

"""`Algorithm`: a synchronous training algorithm, as its partitioner and its feature-storing strategy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.exchange import ExchangeMaker
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.hitgnn.algorithms.together import RankOf
from a3gnn.ranks.group import TorchRanks
from a3gnn.units import count

#: Takes the graph, the number of ranks and a seed; returns the part of each node, integers in [0, ranks).
AssignsParts = Callable[[Graph, int, int], NDArray[np.integer]]
#: Takes the graph, the part of each node (int32), a rank, and the number of ranks; returns the rank's features.
Storing = Callable[[Graph, NDArray[np.int32], int, int], Stored]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A synchronous training algorithm: a partitioner and a feature-storing strategy (HitGNN, Table I).

    A rank trains on the train nodes of its part. In-neighbors are sampled in the whole graph, so edges between parts
    are kept. A rank reads features that it does not store from host memory. All algorithms share everything else.

    Attributes:
        name: A name for people; `resume` requires the same name.
        partition: Assigns each train node to the rank that it is a seed of.
        storing: Chooses the features in each rank's device memory.
        exchange: Makes the exchange between ranks if features are split by columns; None for none.
        balanced: Whether a rank with an exhausted part trains mini-batches of others (Algorithm 3), or is idle.
        direct: Whether a missing row comes straight from host memory (section V-B, "DC"), or, for comparison, from the
            device of the rank that stores it, through host memory.
    """

    name: str
    partition: AssignsParts
    storing: Storing
    exchange: ExchangeMaker | None = None
    balanced: bool = True
    direct: bool = True

    def parts(self, graph: Graph, ranks: int, seed: int) -> NDArray[np.int32]:
        """Returns the part of each node, int32 in [0, ranks), shape (num_nodes,).

        Raises:
            UsageError: The partitioner returned something else.
        """
        found = np.asarray(self.partition(graph, ranks, seed))
        whose = f"the partitioner of {self.name}"
        law = f"{whose} must return an integer in [0, {ranks}) for each of {count(graph.num_nodes, 'node')}"
        if found.dtype.kind not in "iu" or found.shape != (graph.num_nodes,):
            raise UsageError(f"{law}, got {found.dtype} of shape {found.shape}")
        if found.min() < 0 or found.max() >= ranks:
            raise UsageError(f"{law}, got values from {found.min()} to {found.max()}")
        return found.astype(np.int32)

    def stored(self, graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
        """Returns the features that `rank` stores.

        Args:
            graph: The graph.
            parts: The result of `Algorithm.parts`.
            rank: The rank, from 0.
            ranks: Number of ranks.

        Raises:
            UsageError: The strategy returned something else, or does not fit the algorithm.
        """
        found = self.storing(graph, parts, rank, ranks)
        if not isinstance(found, Stored):
            raise UsageError(f"the storing strategy of {self.name} must return a Stored, got {found!r}")
        if found.is_split(graph) and not self.direct:
            raise UsageError(f"direct must be True of {self.name}, whose ranks store columns: no rank has a whole row")
        if found.is_split(graph) and self.exchange is None:
            raise UsageError(
                f"{self.name} must have an exchange where a rank stores some of the columns alone, got columns "
                f"{found.columns[0]} to {found.columns[1]} of {graph.num_features}; P3's is "
                "a3gnn.hitgnn.algorithms.p3.partial_sums.PartialSums"
            )
        return found

    def identity(self, graph: Graph, parts: NDArray[np.int32], ranks: int) -> dict[str, Any]:
        """Returns the values, by name as JSON types, that must be equal for a run to continue bit-identically.

        Stored rows do not change results. Stored columns do: they decide the order in which partial sums are added.

        Args:
            graph: The graph.
            parts: The result of `Algorithm.parts`.
            ranks: Number of ranks.
        """
        digest = hashlib.blake2b(parts[graph.train_ids].tobytes(), digest_size=8).hexdigest()
        known = {"algorithm": self.name, "parts": digest, "balanced": self.balanced}
        if self.exchange is None:
            return known
        return known | {"columns": [list(self.stored(graph, parts, rank, ranks).columns) for rank in range(ranks)]}

    def joined(self, ranks: TorchRanks) -> RankOf:
        """Returns this process's role in a training run of `ranks` by the algorithm."""
        return RankOf(self, ranks)

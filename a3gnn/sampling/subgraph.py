"""What the sampler hands over: one mini-batch's neighbourhood as a single CSR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Block(NamedTuple):
    """The bipartite CSR of one layer: `num_dst` destinations aggregate from `num_src` sources.

    Destinations are the first `num_dst` sources. `indptr` int32, shape (num_dst + 1,); `indices` int32, shape
    (num_edges,), below `num_src`.
    """

    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    num_src: int
    num_dst: int


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """A sampled neighbourhood: nodes in discovery order, and in-neighbours of all but the last hop's.

    Each node's in-neighbours are sampled once, at the hop that discovered it (PyG's NeighborLoader semantics), so the
    block of every layer is a prefix of this one CSR and costs no copy.

    Attributes:
        n_id: Global ids, int32, shape (num_nodes,), distinct: the seeds, then hop by hop.
        indptr: int32, shape (num_rows + 1,); row i is the node `n_id[i]`.
        indices: In-neighbours as places in `n_id`, int32, shape (num_edges,).
        hop_sizes: Nodes known after each hop, seeds first; `num_rows` is the last but one.
    """

    n_id: NDArray[np.int32]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    hop_sizes: tuple[int, ...]

    @property
    def num_seeds(self) -> int:
        """Seeds: the first nodes of `n_id`."""
        return self.hop_sizes[0]

    @property
    def num_layers(self) -> int:
        """Hops, which are layers."""
        return len(self.hop_sizes) - 1

    @property
    def num_nodes(self) -> int:
        """Distinct nodes: rows of features that the mini-batch needs."""
        return len(self.n_id)

    @property
    def num_edges(self) -> int:
        """Sampled edges."""
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.n_id.nbytes + self.indptr.nbytes + self.indices.nbytes

    def layer_sizes(self, layer: int) -> tuple[int, int]:
        """Returns (num_src, num_dst) of `layer`, 0 for the input layer; one that is not there is refused."""
        if not 0 <= layer < self.num_layers:
            raise IndexError(f"layer must be in [0, {self.num_layers}), got {layer}; layer 0 reads the features")
        return self.hop_sizes[self.num_layers - layer], self.hop_sizes[self.num_layers - 1 - layer]

    def block(self, layer: int) -> Block:
        """Returns the block of `layer`, 0 for the input layer (the largest), as views."""
        num_src, num_dst = self.layer_sizes(layer)
        return Block(self.indptr[: num_dst + 1], self.indices[: self.indptr[num_dst]], num_src, num_dst)

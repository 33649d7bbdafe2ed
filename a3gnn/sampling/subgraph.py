"""`Subgraph`: a mini-batch's sampled neighborhood, one CSR for all layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
class Share:
    """The relation of a share to the whole mini-batch from which it was cut (`a3gnn.sampling.share`).

    Attributes:
        whole: The whole sampled mini-batch.
        places: Each node's place in the whole, int32, shape (num_nodes,).
        owned: Which nodes count for this share, bool, (num_nodes,); each node of the whole is owned by one share.
        num_seeds: Number of the share's seeds; 0 if the share only keeps step with the others.
    """

    whole: Subgraph
    places: NDArray[np.int32]
    owned: NDArray[np.bool_]
    num_seeds: int


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """A sampled neighborhood: nodes in order of discovery, and the in-neighbors of all but the last hop's nodes.

    Each node's in-neighbors are sampled once, at the hop after the one that discovered it (PyG's NeighborLoader
    semantics). So the block of every layer is a prefix of this CSR and needs no copy.

    Attributes:
        n_id: Global ids, int32, shape (num_nodes,): the seeds, then hop by hop. They are distinct, except for repeated
            seeds and nodes of several trees.
        indptr: int32, shape (num_rows + 1,); row i is node `n_id[i]` where there are no types.
        indices: In-neighbors as positions in `n_id`, int32, shape (num_edges,).
        hop_sizes: Nodes known after each hop, beginning with the seeds; `num_rows` is the last but one.
        e_id: Each edge's id, int64, shape (num_edges,); None if the sampler doesn't report it.
        tree: Index of the seed in whose tree each node is, int64, shape (num_nodes,); None for a single tree of all
            seeds.
        share: Its relation to a larger mini-batch; None if it is a whole one.
        rows: Where there are types, each row's place in `n_id` and relation, int32, shape (2, num_rows); else None.
    """

    n_id: NDArray[np.int32]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    hop_sizes: tuple[int, ...]
    e_id: NDArray[np.int64] | None = None
    tree: NDArray[np.int64] | None = None
    share: Share | None = None
    rows: NDArray[np.int32] | None = None

    @property
    def num_seeds(self) -> int:
        """Seeds, which are the first nodes of `n_id`."""
        return self.hop_sizes[0]

    @property
    def num_layers(self) -> int:
        """Layers: one per hop."""
        return len(self.hop_sizes) - 1

    @property
    def num_nodes(self) -> int:
        """Nodes, whose features the mini-batch needs."""
        return len(self.n_id)

    @property
    def num_edges(self) -> int:
        """Sampled edges."""
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        optional = [array.nbytes for array in (self.e_id, self.tree, self.rows) if array is not None]
        return self.n_id.nbytes + self.indptr.nbytes + self.indices.nbytes + sum(optional)

    @property
    def sampled(self) -> Subgraph:
        """The whole sampled mini-batch: of this share, or this one itself."""
        return self if self.share is None else self.share.whole

    def layer_sizes(self, layer: int) -> tuple[int, int]:
        """Returns (num_src, num_dst) of `layer`, 0 for the input layer.

        Raises:
            IndexError: There is no such layer.
        """
        if not 0 <= layer < self.num_layers:
            raise IndexError(f"layer must be in [0, {self.num_layers}), got {layer}; layer 0 reads the features")
        return self.hop_sizes[self.num_layers - layer], self.hop_sizes[self.num_layers - 1 - layer]

    def block(self, layer: int) -> Block:
        """Returns the block of `layer`, 0 for the input layer (the largest), as views."""
        num_src, num_dst = self.layer_sizes(layer)
        return Block(self.indptr[: num_dst + 1], self.indices[: self.indptr[num_dst]], num_src, num_dst)


class AnySampler(Protocol):
    """Samples neighborhoods."""

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` for mini-batch `batch` of `epoch`; safe to call from several threads."""

"""`InputStructure`: what every rank must know of a mini-batch to compute its part of the input layer."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms.p3.model import Moved, Swapping, swap
from a3gnn.models.batch_blocks import input_block
from a3gnn.models.layers.block import LayerBlock
from a3gnn.sampling.subgraph import Subgraph


class InputStructure(NamedTuple):
    """A mini-batch's input nodes, and the edges of its input layer.

    Attributes:
        n_id: Global ids of the input nodes, int32, shape (num_src,).
        indptr: int32, shape (num_dst + 1,); destinations are the first of the sources.
        indices: In-neighbours as positions in `n_id`, int32, shape (num_edges,).
    """

    n_id: NDArray[np.int32]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, subgraph: Subgraph) -> Self:
        """Returns that of a whole mini-batch, or of what a rank without seeds keeps step with.

        Raises:
            UsageError: It is a share of one, whose degrees and dropout are the whole's.
        """
        if subgraph.share is not None and subgraph.share.num_seeds:
            raise UsageError(
                "mini-batches must be whole where features are split by column, got a share of one; give each rank "
                "mini-batches of its own"
            )
        block = subgraph.block(0)
        return cls(subgraph.n_id, block.indptr, block.indices)

    def block(self, *, with_degrees: bool, device: torch.device | str = "cpu") -> LayerBlock:
        """Returns the input layer's block on `device`, with the sampled in-degrees of its sources if asked for."""
        indptr, indices = (torch.from_numpy(array).to(device) for array in (self.indptr, self.indices))
        return input_block(indptr, indices, len(self.n_id), with_degrees=with_degrees)


def share_structures(ranks: Swapping, own: InputStructure | None, moved: Moved) -> list[InputStructure | None]:
    """Returns the structures of all ranks' mini-batches, in their order; every rank calls it.

    Args:
        ranks: All of them.
        own: Of this rank's mini-batch; None where it has none.
        moved: Where bytes are counted.
    """
    arrays = tuple(np.empty(0, dtype=np.int32) for _ in InputStructure._fields) if own is None else own
    lengths = torch.tensor([len(array) for array in arrays])
    told = swap(ranks, [lengths] * ranks.size, [len(lengths)] * ranks.size, moved)
    flat = torch.from_numpy(np.concatenate(arrays))
    found = swap(ranks, [flat] * ranks.size, [int(one.sum()) for one in told], moved)
    split = [_split(one.tolist(), content.numpy()) for one, content in zip(told, found, strict=True)]
    split[ranks.rank] = own
    return split


def _split(lengths: list[int], content: NDArray[np.int32]) -> InputStructure | None:
    if not any(lengths):
        return None
    bounds = np.cumsum([0, *lengths]).tolist()
    return InputStructure(*(content[low:high].copy() for low, high in pairwise(bounds)))

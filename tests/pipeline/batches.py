"""Mini-batches as values that can be compared."""

from __future__ import annotations

from a3gnn.pipeline.batch import MiniBatch


def content(batch: MiniBatch) -> tuple:
    """All that a mini-batch holds, to the bit."""
    subgraph = batch.subgraph
    x = batch.x.to_dense() if batch.x.is_sparse_csr else batch.x
    arrays = (subgraph.n_id, subgraph.indptr, subgraph.indices, x.numpy(), batch.y.numpy())
    return (batch.epoch, batch.index, batch.hits, subgraph.hop_sizes, *(array.tobytes() for array in arrays))

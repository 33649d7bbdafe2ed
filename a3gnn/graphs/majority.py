"""What share of the validation nodes the most frequent class has."""

from __future__ import annotations

import numpy as np

from a3gnn.graphs.arrays import GraphArrays


def majority_share(graph: GraphArrays) -> float:
    """Returns the share of the labelled validation nodes that are of their most frequent class; 0 without any."""
    labels = graph.labels[graph.val_ids]
    counts = np.bincount(labels[labels >= 0])
    return float(counts.max() / counts.sum()) if len(counts) else 0.0

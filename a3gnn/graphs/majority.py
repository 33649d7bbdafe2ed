"""What share of the validation nodes the most frequent class has."""

from __future__ import annotations

import numpy as np

from a3gnn.graphs.arrays import GraphArrays


def majority_share(graph: GraphArrays) -> float:
    """Returns the share of the validation nodes' classes, or of their labels, that are the most frequent; 0 without."""
    labels = graph.labels[graph.val_ids]
    counts = np.bincount(labels[labels >= 0])  # of several labels, all zeros and all ones
    return float(counts.max() / counts.sum()) if len(counts) else 0.0

"""How much the seeds of each class weigh in the loss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.task import Task


def class_weights(graph: Graph, task: Task) -> Tensor | None:
    """Returns the weight of each class, float32, shape (num_classes,); None where all weigh alike.

    Balanced weights are scikit-learn's: n / (k n_c) for n_c of n train seeds in a class, k classes that seeds have. So
    all classes together weigh n, each as much as any other. A class without a seed has 1, which nothing reads.
    """
    if task.class_weights == "none":
        return None
    counts = np.bincount(graph.labels[graph.train_ids], minlength=graph.num_classes)
    weights = np.ones(len(counts), dtype=np.float32)
    found = counts > 0
    weights[found] = counts.sum() / (np.count_nonzero(found) * counts[found])
    return torch.from_numpy(weights)

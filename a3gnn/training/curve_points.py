"""Where a learning curve is evaluated: the count of mini-batches before its first point."""

from __future__ import annotations

import math
from statistics import fmean

from a3gnn.training.trainer import Trainer

#: Training up to the first point costs so many evaluations; between later ones it costs three times as many
#: (`a3gnn.learning_curve.next_point`): four would make evaluation a fifth of both, and costs are estimates, off by up
#: to a half.
_SPACING = 2
#: Mini-batches whose mean cost stands for all.
_SAMPLED = 4


def first_point(trainer: Trainer) -> int:
    """Returns the mini-batches before a curve's first point, >= 1: those that cost as much as two evaluations.

    Costs are counted from shapes (`a3gnn.training.layers.cost`), never timed: the graph, the task and the learning key
    decide the count, and so where the curve's points lie (`a3gnn.learning_curve.next_point`).

    Args:
        trainer: Of the graph, the task, and any configuration with the learning key.
    """
    cost = fmean(trainer.cost(subgraph) for subgraph in trainer.first_samples(_SAMPLED))
    return max(1, math.ceil(_SPACING * trainer.validation_cost / cost))

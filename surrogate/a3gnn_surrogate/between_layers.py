"""What norms between layers and residual connections add to a training step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a3gnn.task import Task
from a3gnn_surrogate.columns import Array

#: Passes of training over those of forward: backward costs two.
_PASSES = 3
# Matrices of the layer's output that a norm reads, forward and backward. Of a batch its rows for the moments and to
# scale them, and twice rows and gradient (`a3gnn.models.layers.norm`); of a layer, whose row stays in a core's cache
# between moments and scaling, rows, and once rows and gradient.
_NORM_READS = {"none": 0, "batch": 6, "layer": 3}
# Matrices of the layer's output that a residual connection reads: the output and what is added to it, forward; the
# gradient, for each of the two, backward.
_RESIDUAL_READS = 4


class Between(NamedTuple):
    """What one layer's norm and residual connection add.

    Attributes:
        flops: Multiplications and additions of the map to another width, float64, shape (n_configs,).
        read_values: Values that are read, likewise.
        kept_values: Values that backward needs, likewise.
        parameters: Number of weights.
    """

    flops: Array
    read_values: Array
    kept_values: Array
    parameters: int


def between_layers(task: Task, width_in: int, width_out: int, rows: Array, first: bool, last: bool) -> Between:
    """Returns what is added to a layer with so many destinations: the last has no norm, the first no residual."""
    flops, read, kept = (np.zeros_like(rows) for _ in range(3))
    parameters = 0
    if task.norm != "none" and not last:
        read, kept = read + _NORM_READS[task.norm] * rows * width_out, kept + rows * width_out
        parameters += 2 * width_out
    if task.residual and not first:
        read, kept = read + _RESIDUAL_READS * rows * width_out, kept + rows * width_out
        if width_in != width_out:
            flops = flops + _PASSES * 2.0 * rows * width_in * width_out
            parameters += width_in * width_out
    return Between(flops, read, kept, parameters)

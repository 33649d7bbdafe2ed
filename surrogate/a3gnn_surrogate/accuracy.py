"""Expected loss of accuracy against the default configuration (A3GNN, Eq. 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.measurement import default_accuracy_epochs
from a3gnn_surrogate.columns import Columns
from a3gnn_surrogate.volume import BatchVolume

Array = NDArray[np.float64]

#: Loss at full skew of the draws, and how density heals it; degree 10 is the unit of density.
_SKEW_LOSS, _DENSITY_EXPONENT, _UNIT_DEGREE = 0.02, 0.3, 10.0
#: Loss of a graph that has lost all its edges, and of one whose parts are communities of a label each, which are
#: trained in turn: the last one of an epoch is remembered best.
_LOST_EDGES_LOSS, _DRIFT_LOSS = 0.01, 0.12
#: Loss of a trial of a single step; it falls with the root of their number: few steps leave a model undertrained.
_SINGLE_STEP_LOSS = 0.15
#: Loss of mini-batches whose seeds lie close together.
_PROXIMITY_LOSS = 0.006


def accuracy_drop(columns: Columns, volume: BatchVolume, graph: GraphCharacteristics) -> Array:
    """Returns by how much test accuracy falls below the default's, in [0, 1] units, float64, shape (n_configs,).

    a TV(g, p) density^-b + d (1 - kept) + e (kept - 1 / parts) (h - 1 / classes), TV = p (1 - p) (g - 1) / (1 + p
    (g - 1)), h homophily: parts that keep more edges than random ones lose fewer, but their labels differ more. A
    constant is added for seeds by proximity, and a term for the steps of a trial, which is negative where there are
    more than the default's; the sum is 0 for the default configuration.
    """
    p, g = volume.cached_mass, columns["bias_rate"]
    skew = p * (1 - p) * (g - 1) / (1 + p * (g - 1))
    density = max(graph.mean_degree, 1.0) / _UNIT_DEGREE
    kept, parts = volume.kept_edges, np.maximum(columns["num_partitions"], 1)
    alike = max(graph.homophily - 1 / max(graph.num_classes, 1), 0.0)
    apart = _LOST_EDGES_LOSS * (1 - kept) + _DRIFT_LOSS * alike * (kept - 1 / parts)
    near = np.where(columns["seed_order"] == "proximity", _PROXIMITY_LOSS, 0.0)
    epochs = default_accuracy_epochs(graph)
    steps, default_steps = epochs * volume.steps, epochs * np.ceil(graph.num_train / default_seeds(graph))
    undertrained = _SINGLE_STEP_LOSS * (steps**-0.5 - max(default_steps, 1.0) ** -0.5)
    return np.asarray(_SKEW_LOSS * skew * density**-_DENSITY_EXPONENT + apart + near + undertrained)


def default_seeds(graph: GraphCharacteristics) -> int:
    """Returns the seeds of the default configuration's mini-batches."""
    return max(min(TrainConfig().batch_size, graph.num_train), 1)


def is_reference(columns: Columns, graph: GraphCharacteristics) -> NDArray[np.bool_]:
    """Returns which configurations learn from the same mini-batches as the default one, bool, shape (n_configs,)."""
    seeds = np.minimum(columns["batch_size"], max(graph.num_train, 1))
    whole = (columns["num_partitions"] == 1) & (columns["bias_rate"] == 1) & (columns["seed_order"] == "random")
    return np.asarray(whole & (seeds == default_seeds(graph)) & (columns["sampling_device"] == "cpu"))

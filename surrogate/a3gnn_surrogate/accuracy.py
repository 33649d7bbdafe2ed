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

#: Loss at full skew of the draws after one epoch, and how density heals it; degree 10 is the unit of density.
_SKEW_LOSS, _DENSITY_EXPONENT, _UNIT_DEGREE = 0.08, 0.3, 10.0
#: Loss of mini-batches whose seeds lie close together after one epoch, where neighbours are of one label.
_PROXIMITY_LOSS = 0.1
#: How both fall with the epochs of a trial.
_EPOCHS_EXPONENT = 0.7
#: Loss of a graph that has lost all its edges, and of one whose parts are communities of a label each, which are
#: trained in turn: the last one of an epoch is remembered best.
_LOST_EDGES_LOSS, _DRIFT_LOSS = 0.01, 0.12
#: Loss of a trial of a single step; it falls with the root of their number: few steps leave a model undertrained.
_SINGLE_STEP_LOSS = 0.25


def accuracy_drop(columns: Columns, volume: BatchVolume, graph: GraphCharacteristics) -> Array:
    """Returns by how much test accuracy falls below the default's, in [0, 1] units, float64, shape (n_configs,).

    With h the homophily beyond chance and E the epochs of a trial, the sum of

    * (a TV(g, p) density^-b + c h near) E^-n, TV = p (1 - p) (g - 1) / (1 + p (g - 1)), near 1 for seeds by proximity;
    * d (1 - kept) + e h (kept - 1 / parts): parts that keep more edges than random ones differ more in their labels;
    * a term for the steps of a trial, negative where there are more than the default's.

    It is 0 for the default configuration.
    """
    p, g = volume.cached_mass, columns["bias_rate"]
    epochs = default_accuracy_epochs(graph)
    alike = max(graph.homophily - 1 / max(graph.num_classes, 1), 0.0)
    skew = p * (1 - p) * (g - 1) / (1 + p * (g - 1))
    density = max(graph.mean_degree, 1.0) / _UNIT_DEGREE
    near = np.where(columns["seed_order"] == "proximity", alike, 0.0)
    uneven = (_SKEW_LOSS * skew * density**-_DENSITY_EXPONENT + _PROXIMITY_LOSS * near) * epochs**-_EPOCHS_EXPONENT
    kept, parts = volume.kept_edges, np.maximum(columns["num_partitions"], 1)
    apart = _LOST_EDGES_LOSS * (1 - kept) + _DRIFT_LOSS * alike * (kept - 1 / parts)
    steps, default_steps = epochs * volume.steps, epochs * np.ceil(graph.num_train / default_seeds(graph))
    undertrained = _SINGLE_STEP_LOSS * (steps**-0.5 - max(default_steps, 1.0) ** -0.5)
    return np.asarray(uneven + apart + undertrained)


def default_seeds(graph: GraphCharacteristics) -> int:
    """Returns the seeds of the default configuration's mini-batches."""
    return max(min(TrainConfig().batch_size, graph.num_train), 1)


def is_reference(columns: Columns, graph: GraphCharacteristics) -> NDArray[np.bool_]:
    """Returns which configurations learn from the same mini-batches as the default one, bool, shape (n_configs,)."""
    seeds = np.minimum(columns["batch_size"], max(graph.num_train, 1))
    whole = (columns["num_partitions"] == 1) & (columns["bias_rate"] == 1) & (columns["seed_order"] == "random")
    return np.asarray(whole & (seeds == default_seeds(graph)) & (columns["sampling_device"] == "cpu"))

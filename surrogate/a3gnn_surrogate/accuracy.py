"""Expected loss of accuracy against the default configuration (A3GNN, Eq. 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn_surrogate.columns import Columns
from a3gnn_surrogate.volume import BatchVolume

Array = NDArray[np.float64]

#: a, b: loss at full skew of the draws, and how density heals it; degree 10 is the unit of density.
_SKEW_LOSS, _DENSITY_EXPONENT, _UNIT_DEGREE = 0.04, 0.3, 10.0
#: d, k: loss of a graph that has lost all its edges, and how it sets in.
_PARTITION_LOSS, _PARTITION_EXPONENT = 0.05, 1.0
#: Loss of an epoch of a single step; it falls with their number: few steps leave a model undertrained.
_SINGLE_STEP_LOSS = 0.2
#: Loss of mini-batches whose seeds lie close together.
_PROXIMITY_LOSS = 0.02


def accuracy_drop(columns: Columns, volume: BatchVolume, graph: GraphCharacteristics) -> Array:
    """Returns by how much test accuracy falls below the default's, in [0, 1] units, float64, shape (n_configs,).

    a TV(g, p) density^-b + d (1 - overlap)^k, TV = p (1 - p) (g - 1) / (1 + p (g - 1)), a constant for seeds by
    proximity, and a term for the steps of an epoch that is negative where there are more than the default's; 0 for the
    default configuration.
    """
    p, g = volume.cached_mass, columns["bias_rate"]
    skew = p * (1 - p) * (g - 1) / (1 + p * (g - 1))
    density = max(graph.mean_degree, 1.0) / _UNIT_DEGREE
    lost = _PARTITION_LOSS * (1 - volume.kept_edges) ** _PARTITION_EXPONENT
    near = np.where(columns["seed_order"] == "proximity", _PROXIMITY_LOSS, 0.0)
    fewer_steps = (volume.seeds - default_seeds(graph)) / max(graph.num_train, 1)
    return np.asarray(_SKEW_LOSS * skew * density**-_DENSITY_EXPONENT + lost + near + _SINGLE_STEP_LOSS * fewer_steps)


def default_seeds(graph: GraphCharacteristics) -> int:
    """Returns the seeds of the default configuration's mini-batches."""
    return max(min(TrainConfig().batch_size, graph.num_train), 1)


def is_reference(columns: Columns, graph: GraphCharacteristics) -> NDArray[np.bool_]:
    """Returns which configurations learn from the same mini-batches as the default one, bool, shape (n_configs,)."""
    seeds = np.minimum(columns["batch_size"], max(graph.num_train, 1))
    whole = (columns["num_partitions"] == 1) & (columns["bias_rate"] == 1) & (columns["seed_order"] == "random")
    return np.asarray(whole & (seeds == default_seeds(graph)) & (columns["sampling_device"] == "cpu"))

"""Expected epochs until validation reaches the target, beside those of the default configuration."""

from __future__ import annotations

import numpy as np

from a3gnn.characteristics import GraphCharacteristics
from a3gnn_surrogate.accuracy import default_seeds, drop_at_equal_steps
from a3gnn_surrogate.columns import Array, Columns
from a3gnn_surrogate.volume import BatchVolume

#: Epochs grow with the seeds per mini-batch to this power. McCandlish et al., "An Empirical Model of Large-Batch
#: Training" (2018): steps = S_min (1 + B_crit / B), so that the epochs, steps times B, do not depend on B far below
#: B_crit and grow as B far above it. Guess, between the two: on amazon_computers 8 times fewer seeds reached the
#: same accuracy in 2.5 times fewer epochs.
_SEEDS_EXPONENT = 0.44
#: Logarithm of the epochs that make up for a drop of 1, so that a point of accuracy costs a fifth more. Guess.
_EPOCHS_PER_DROP = 20.0


def log_epochs_ratio(columns: Columns, volume: BatchVolume, graph: GraphCharacteristics) -> Array:
    """Returns log(epochs to the target / those of the default), float64, shape (n_configs,); 0 for the default."""
    by_seeds = _SEEDS_EXPONENT * np.log(np.maximum(volume.seeds, 1.0) / default_seeds(graph))
    return np.asarray(by_seeds + _EPOCHS_PER_DROP * drop_at_equal_steps(columns, volume, graph))

"""Expected epochs until validation reaches the target, beside those of the default configuration."""

from __future__ import annotations

import numpy as np

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.task import Task
from a3gnn_surrogate.accuracy import default_seeds
from a3gnn_surrogate.columns import Array, Columns, fanouts
from a3gnn_surrogate.rows import reads_table
from a3gnn_surrogate.volume import BatchVolume

# Guesses, all of them; the powers are rounded from a censored regression over the shipped rows, made once by hand.
#: Epochs grow with the seeds per mini-batch to this power. McCandlish et al., "An Empirical Model of Large-Batch
#: Training" (2018): steps = S_min (1 + B_crit / B), so that the epochs, steps times B, do not depend on B far below
#: B_crit and grow as B far above it.
_SEEDS_EXPONENT = 0.6
#: They fall with the learning rate to this power, and the more so the larger the mini-batch.
_RATE_EXPONENT, _RATE_SEEDS_EXPONENT = 0.35, 0.15
#: They grow as fewer neighbours are sampled, to these powers: the seeds' own, and those of further hops.
_SEED_FANOUT_EXPONENT, _DEEP_FANOUT_EXPONENT = 0.15, 0.25
#: Logarithm of the epochs that make up for a drop of 1, so that a point of accuracy costs a fifth more.
_EPOCHS_PER_DROP = 20.0


def log_epochs_ratio(to_learn: Array, drop: Array) -> Array:
    """Returns log(epochs to the target / those of the default), float64, shape (n_configs,); 0 for the default.

    Args:
        to_learn: `log_epochs_to_learn` of the configurations, float64, shape (n_configs,).
        drop: Their `drop_at_equal_steps`, same shape.
    """
    return np.asarray(to_learn + _EPOCHS_PER_DROP * drop)


def log_epochs_to_learn(columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns log(epochs / the default's) by what changes the steps alone: seeds, rate and neighbours, (n_configs,)."""
    seeds = np.log(np.maximum(volume.seeds, 1.0) / default_seeds(graph))
    rate = np.log(columns["learning_rate_scale"])
    changed = _SEEDS_EXPONENT * seeds - (_RATE_EXPONENT + _RATE_SEEDS_EXPONENT * seeds) * rate
    first, *further = _fewer_neighbours(columns, task, graph)
    changed = changed + _SEED_FANOUT_EXPONENT * first
    if further:
        changed = changed + _DEEP_FANOUT_EXPONENT * np.mean(further, axis=0)
    return np.asarray(changed)


def _fewer_neighbours(columns: Columns, task: Task, graph: GraphCharacteristics) -> list[Array]:
    """Returns log(neighbours sampled by the default / those of each configuration) per hop, float64, (n_configs,).

    Of a node with as many neighbours as the mean; an input layer that reads a table misses none.
    """
    most = max(graph.mean_degree, 1.0)
    default = [most if fanout < 0 else min(float(fanout), most) for fanout in task.fanouts]
    found = [
        np.log(of_default / np.minimum(hop, most))
        for of_default, hop in zip(default, fanouts(columns, task), strict=True)
    ]
    found[-1] = np.where(reads_table(columns), np.log(default[-1] / most), found[-1])
    return found

"""Expected drop of validation accuracy below the default configuration's (A3GNN, Eq. 1), and epochs to the target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import KNOBS, SEARCHED, TrainConfig
from a3gnn.knobs import NEVER
from a3gnn.measurement import default_accuracy_epochs
from a3gnn.task import Task
from a3gnn_surrogate.columns import Array, Columns, fanouts, is_whole, reads_table
from a3gnn_surrogate.physics.volume import BatchVolume

# The drop of accuracy. All numbers are guesses, chosen by hand with the shipped profiles in view. No command fits the
# formula. Its result is a feature of the learner, and part of the predicted epochs to the target.
#: Drop after one epoch at full skew of the draws; it falls with the mean degree, in units of degree 10.
_SKEW_LOSS, _DENSITY_EXPONENT, _UNIT_DEGREE = 0.08, 0.3, 10.0
#: Drop after one epoch if the seeds of a mini-batch are close together and all neighbors have equal labels.
_PROXIMITY_LOSS = 0.1
#: Exponent with which both fall with the epochs of a trial.
_EPOCHS_EXPONENT = 0.7
#: Drop on a graph that lost all its edges.
_LOST_EDGES_LOSS = 0.01
#: Drop if each part is a community with one label, because parts are trained in turn and the last is remembered best.
_FORGETTING_LOSS = 0.12
#: Drop of a trial of a single step; it falls with the square root of the number of steps.
_SINGLE_STEP_LOSS = 0.25
# The epochs to the target. All numbers are guesses; the powers are rounded from a censored regression over the shipped
# rows, made once by hand.
#: Epochs grow with the seeds per mini-batch to this power. McCandlish et al., "An Empirical Model of Large-Batch
#: Training" (2018): steps = S_min (1 + B_crit / B), so that the epochs, steps times B, do not depend on B far below
#: B_crit and grow as B far above it.
_SEEDS_EXPONENT = 0.6
#: They fall with the learning rate to this power, and the more so the larger the mini-batch.
_RATE_EXPONENT, _RATE_SEEDS_EXPONENT = 0.35, 0.15
#: They grow as fewer neighbors are sampled, to these powers: the seeds' own, and those of further hops.
_SEED_FANOUT_EXPONENT, _DEEP_FANOUT_EXPONENT = 0.15, 0.25
#: Logarithm of the factor on epochs that makes up for a drop of 1; a point of accuracy costs a fifth more.
_EPOCHS_PER_DROP = 20.0


def accuracy_drop(at_equal_steps: Array, graph: GraphCharacteristics, progress: Array) -> Array:
    """Returns the drop of validation accuracy below the default's at equal time, as a share of 1, (n_configs,).

    With h the homophily beyond chance and E the epochs of a trial, the sum of

    * (a TV(g, p) density^-b + c h near) E^-n, TV = p (1 - p) (g - 1) / (1 + p (g - 1)), near 1 for seeds by proximity;
    * d (1 - kept) + e h (kept - 1 / parts): parts that keep more edges than random ones differ more in their labels;
    * a term for how far the training gets, negative if it gets farther than the default.

    It is 0 for the default configuration. A3GNN's own term for partitions, d (1 - overlap)^k, is not used: it expects
    the better partitioner to cost less, but in measurements it costs more (docs/design/surrogate.md).

    Args:
        at_equal_steps: `drop_at_equal_steps` of the configurations, float64, shape (n_configs,).
        graph: The graph.
        progress: How far training gets relative to the default in the same time: the ratio of epochs per second over
            the ratio of epochs needed, float64, shape (n_configs,).
    """
    steps = max(default_accuracy_epochs(graph) * np.ceil(graph.num_train / default_seeds(graph)), 1.0)
    undertrained = _SINGLE_STEP_LOSS * steps**-0.5 * (np.maximum(progress, 1e-3) ** -0.5 - 1)
    return np.asarray(at_equal_steps + undertrained)


def drop_at_equal_steps(columns: Columns, volume: BatchVolume, graph: GraphCharacteristics) -> Array:
    """Returns the terms of `accuracy_drop` that the number of steps doesn't explain, float64, shape (n_configs,)."""
    p, g = volume.cached_mass, columns["bias_rate"]
    epochs = default_accuracy_epochs(graph)
    alike = max(graph.homophily - 1 / max(graph.num_classes, 1), 0.0)
    skew = p * (1 - p) * (g - 1) / (1 + p * (g - 1))
    density = max(graph.mean_degree, 1.0) / _UNIT_DEGREE
    near = np.where(columns["seed_order"] == "proximity", alike, 0.0)
    per_epoch = _SKEW_LOSS * skew * density**-_DENSITY_EXPONENT + _PROXIMITY_LOSS * near
    kept, parts = volume.kept_edges, np.maximum(columns["num_partitions"], 1)
    partitioned = _LOST_EDGES_LOSS * (1 - kept) + _FORGETTING_LOSS * alike * (kept - 1 / parts)
    return np.asarray(per_epoch * epochs**-_EPOCHS_EXPONENT + partitioned)


def default_seeds(graph: GraphCharacteristics) -> int:
    """Returns the number of seeds per mini-batch of the default configuration."""
    return max(min(TrainConfig().batch_size, graph.num_train), 1)


def is_reference(columns: Columns, graph: GraphCharacteristics) -> NDArray[np.bool_]:
    """Returns which configurations train on the same mini-batches as the default one, bool, shape (n_configs,).

    The whole graph is none of them, although it has as many seeds: nothing of it is sampled.
    """
    seeds = np.minimum(columns["batch_size"], max(graph.num_train, 1))
    same = (seeds == default_seeds(graph)) & ~is_whole(columns) & (columns.get(SEARCHED, np.zeros(len(seeds))) == 0)
    for knob in KNOBS:
        if knob.name != "batch_size" and knob.learns != NEVER:
            unlike = columns[knob.name] != knob.coded(knob.default)
            same &= ~(unlike & knob.learns.holds(columns) & (~knob.idle).holds(columns))
    return np.asarray(same)


def log_epochs_ratio(to_learn: Array, drop: Array) -> Array:
    """Returns log(epochs to the target / those of the default), float64, shape (n_configs,); 0 for the default.

    Args:
        to_learn: `log_epochs_to_learn` of the configurations, float64, shape (n_configs,).
        drop: Their `drop_at_equal_steps`, same shape.
    """
    return np.asarray(to_learn + _EPOCHS_PER_DROP * drop)


def log_epochs_to_learn(columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns log(epochs / the default's) by seeds, learning rate and fanouts alone, float64, shape (n_configs,)."""
    seeds = np.log(np.maximum(volume.seeds, 1.0) / default_seeds(graph))
    rate = np.log(columns["learning_rate_scale"])
    changed = _SEEDS_EXPONENT * seeds - (_RATE_EXPONENT + _RATE_SEEDS_EXPONENT * seeds) * rate
    first, *further = _fewer_neighbors(columns, task, graph)
    changed = changed + _SEED_FANOUT_EXPONENT * first
    if further:
        changed = changed + _DEEP_FANOUT_EXPONENT * np.mean(further, axis=0)
    return np.asarray(changed)


def _fewer_neighbors(columns: Columns, task: Task, graph: GraphCharacteristics) -> list[Array]:
    """Returns log(neighbors sampled by the default / those of each configuration) per hop, float64, (n_configs,).

    It is for a node of mean degree; an input layer that reads a table misses no neighbors.
    """
    most = max(graph.mean_degree, 1.0)
    default = [most if fanout < 0 else min(float(fanout), most) for fanout in task.fanouts]
    found = [
        np.log(of_default / np.minimum(hop, most))
        for of_default, hop in zip(default, fanouts(columns, task), strict=True)
    ]
    found[-1] = np.where(reads_table(columns), np.log(default[-1] / most), found[-1])
    return found

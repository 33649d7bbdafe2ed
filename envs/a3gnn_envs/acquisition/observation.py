"""Observations of a study: a row per candidate that fits every space, machine, limit and priority."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn_envs.acquisition.studies import FIDELITIES, PRICE, QUARTER, TIMING, WHOLE, Studies
from a3gnn_envs.acquisition.trial_values import (
    accuracy_feasibility,
    incumbent,
    log_values,
    memory_feasibility,
    score_after,
)
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, Floats

#: Features of a candidate; `AcquisitionEnv` describes each.
FEATURES = (
    *("is_stop", "improvement", "deviation", "gap_to_best_mean", "unexplored", "noise"),
    *("relative_speed", "relative_memory", "relative_accuracy"),
    *("speed_deviation", "memory_deviation", "accuracy_deviation"),
    *("log_memory_kept", "log_accuracy_kept", "log_accuracy_kept_early"),
    *("relative_value_timing", "relative_value_quarter", "relative_value_whole"),
    *("log_share_timing", "log_share_quarter", "log_share_whole"),
    *("timed", "trained", "budget_left", "has_eligible"),
)
#: Columns that only the critic sees, in training.
TRUTH = ("true_improvement", "truly_kept", "ahead_of_baseline")
#: The columns: which trials are allowed, their values by the baseline, the features, the truth.
ALLOWED = slice(0, FIDELITIES)
VALUES = slice(FIDELITIES, 2 * FIDELITIES)
FEATURE_COLUMNS = slice(VALUES.stop, VALUES.stop + len(FEATURES))
TRUTH_COLUMNS = slice(FEATURE_COLUMNS.stop, FEATURE_COLUMNS.stop + len(TRUTH))
NUM_COLUMNS = TRUTH_COLUMNS.stop
#: Observations are clipped to this. Guess.
BOUND = 20.0
#: A unit of relative accuracy: two points, which weigh as much as a doubling (`a3gnn.objectives`).
_TWO_POINTS = 0.02
#: Logarithms of probabilities are clipped below this. Guess.
_LEAST_LOG = -10.0


def observe(studies: Studies, baseline: Floats) -> NDArray[np.float32]:
    """Returns the observations, float32, shape (num_studies, K + 1, NUM_COLUMNS); the last row is stopping.

    Args:
        studies: The studies.
        baseline: The utility that the baseline reached in each, float64, shape (num_studies,), for the critic.
    """
    num, count = studies.timed.shape
    seen = np.zeros((num, count + 1, NUM_COLUMNS), dtype=np.float32)
    values, allowed = log_values(studies), studies.allowed()
    seen[:, :count, ALLOWED] = allowed
    seen[:, count, ALLOWED.start] = 1.0
    seen[..., VALUES] = values
    described = _described(studies, values[:, :count], allowed)
    common = {"budget_left", "has_eligible", "noise"}
    for number, name in enumerate(FEATURES):
        column = FEATURE_COLUMNS.start + number
        seen[:, :count, column] = described.get(name, 0.0)
        if name in common:
            seen[:, count, column] = described[name][:, 0]
    seen[:, count, FEATURE_COLUMNS.start + FEATURES.index("is_stop")] = 1.0
    # Whether any trial promises to be worth its seconds: the price of a budget over the largest value.
    best = np.where(allowed, values[:, :count], np.log(PRICE)).max(axis=(1, 2))
    seen[:, count, FEATURE_COLUMNS.start + FEATURES.index("relative_value_timing")] = np.log(PRICE) - best
    seen[:, :count, TRUTH_COLUMNS], seen[:, count, TRUTH_COLUMNS] = _truth(studies, baseline)
    present = np.concatenate([studies.world.present, np.ones((num, 1), dtype=np.bool_)], axis=1)
    return np.asarray(np.clip(seen * present[..., None], -BOUND, BOUND))


def _described(studies: Studies, values: NDArray[np.float32], allowed: NDArray[np.bool_]) -> dict[str, Floats]:
    """Returns the features of the candidates by name, each float64, shape (num_studies, K)."""
    world, beliefs = studies.world, studies.beliefs
    believed, deviation = score_after(studies, WHOLE)
    own, spread = beliefs.mean, np.sqrt(beliefs.variance)
    prior = np.diagonal(world.covariance, axis1=2, axis2=3)
    weights = world.weights[..., None] ** 2
    unexplored = (weights * beliefs.variance).sum(axis=1) / np.maximum((weights * prior).sum(axis=1), 1e-12)
    untried = allowed.any(axis=2)
    best_mean = np.where(untried, believed, -np.inf).max(axis=1, keepdims=True)
    best_value = np.where(allowed, values, -np.inf).max(axis=(1, 2), keepdims=True)
    at_best = _at_incumbent(studies)
    share = np.log2(studies.expected_seconds() / world.budget_s[:, None, None])
    noise = np.sqrt((world.weights**2 * world.noise**2).sum(axis=1))
    eligible, left = np.asarray(studies.eligible().any(axis=1)), 1 - studies.spent_s / world.budget_s
    everywhere = np.ones_like(believed)
    names = ("timing", "quarter", "whole")
    return {
        "improvement": believed - incumbent(studies)[:, None],
        "deviation": deviation,
        "gap_to_best_mean": np.where(np.isfinite(best_mean), believed - best_mean, 0.0),
        "unexplored": unexplored,
        "noise": noise[:, None] * everywhere,
        "relative_speed": at_best[:, SPEED, None] - own[:, SPEED],
        "relative_memory": at_best[:, MEMORY, None] - own[:, MEMORY],
        "relative_accuracy": (at_best[:, ACCURACY, None] - own[:, ACCURACY]) / _TWO_POINTS,
        "speed_deviation": spread[:, SPEED],
        "memory_deviation": spread[:, MEMORY],
        "accuracy_deviation": spread[:, ACCURACY] / _TWO_POINTS,
        "log_memory_kept": _log(memory_feasibility(studies)),
        "log_accuracy_kept": _log(accuracy_feasibility(studies, WHOLE)),
        "log_accuracy_kept_early": _log(accuracy_feasibility(studies, QUARTER)),
        **{
            f"relative_value_{name}": np.where(
                np.isfinite(best_value[..., 0]), values[..., i] - best_value[..., 0], 0.0
            )
            for i, name in enumerate(names)
        },
        **{f"log_share_{name}": share[..., i] for i, name in enumerate(names)},
        "timed": studies.timed.astype(np.float64),
        "trained": (studies.trained - TIMING) / (WHOLE - TIMING),
        "budget_left": left[:, None] * everywhere,
        "has_eligible": eligible[:, None] * everywhere,
    }


def _at_incumbent(studies: Studies) -> Floats:
    """Returns the believed costs of the best eligible candidate, or else of the default, (num_studies, 4)."""
    believed = np.where(studies.eligible(), studies.score(studies.beliefs.mean), -np.inf)
    best = believed.argmax(axis=1)  # the first, which is the default, if none is eligible
    index = np.broadcast_to(best[:, None, None], (len(best), NUM_COSTS, 1))
    return np.asarray(np.take_along_axis(studies.beliefs.mean, index, axis=2)[..., 0])


def _truth(studies: Studies, baseline: Floats) -> tuple[Floats, Floats]:
    """Returns `TRUTH` of the candidates (num_studies, K, 3) and of stopping (num_studies, 3), float64."""
    objective, kept = studies.objective(), studies.keeps_truly()
    ahead = studies.utility() - baseline
    improvement = studies.true_score() - objective[:, None]
    everywhere = np.broadcast_to(ahead[:, None], kept.shape)
    candidates = np.stack([np.maximum(improvement, -BOUND), kept.astype(np.float64), everywhere], axis=-1)
    return candidates, np.stack([np.zeros_like(ahead), np.ones_like(ahead), ahead], axis=-1)


def _log(probability: Floats) -> Floats:
    return np.maximum(np.log(np.maximum(probability, 1e-300)), _LEAST_LOG)

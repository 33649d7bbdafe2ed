"""Worlds that a test knows by heart, and priors from which to draw others."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.simulated import Prior
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, WORK, World, score_weights

START_S, CURVE_S, BUDGET_S = 1.0, 8.0, 100.0


def plain_world(**changes: Any) -> World:
    """Four candidates: the default and three that are faster, of which the last two share a curve.

    The last one takes more memory than is allowed. All are as accurate; a quarter of a curve does not show it. Without
    noise, what trials find is true.
    """
    truth = np.zeros((NUM_COSTS, 4))
    truth[SPEED] = [0.0, -1.0, -2.0, -3.0]
    truth[MEMORY] = [30.0, 30.5, 30.5, 33.0]
    truth[ACCURACY] = -0.9
    truth[WORK] = 0.0
    mean = truth.copy()
    mean[SPEED, 1:], mean[MEMORY, 1:] = -1.5, 30.5
    limits = np.full(NUM_COSTS, np.inf)
    limits[MEMORY], limits[ACCURACY] = 32.0, -0.89
    world = World(
        present=np.ones(4, dtype=np.bool_),
        weights=score_weights(Priority.parse("throughput")),
        limits=limits,
        mean=mean,
        covariance=np.stack([variance * np.eye(4) for variance in (1.0, 0.25, 1e-4, 0.25)]),
        noise=np.array([0.1, 0.02, 1e-3, 1e-3]),
        truth=truth,
        measured=truth.copy(),
        play_off=truth.copy(),
        early=np.full(4, -0.85),
        rise=np.asarray(0.04),
        rise_deviation=np.asarray(0.01),
        crashes=np.zeros(4, dtype=np.bool_),
        keys=np.array([0, 1, 2, 2]),
        start_s=np.asarray(START_S),
        curve_s=np.asarray(CURVE_S),
        budget_s=np.asarray(BUDGET_S),
        ends_at_target=np.asarray(False),
    )
    return dataclasses.replace(world, **changes)


def rbf(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.exp(-((left[:, None] - right[None]) ** 2).sum(axis=2) / 2)


def make_prior(seed: int = 0, count: int = 60) -> Prior:
    """Configurations with inputs of two knobs, of which the first decides what is learned."""
    random = np.random.default_rng(seed)
    points = random.integers(0, 6, size=(count, 2)).astype(np.float64)
    mean = np.zeros((NUM_COSTS, count))
    mean[SPEED] = 0.3 * random.standard_normal(count)
    mean[MEMORY] = 30 + 0.2 * random.standard_normal(count)
    mean[ACCURACY], mean[WORK] = -0.8, -1.0
    return Prior(
        mean=mean,
        points=points,
        learning_points=points * [1.0, 0.0],
        kernel=rbf,
        between=np.array([0.5, 0.1, 1e-4, 0.1]),
        within=np.array([0.3, 0.05, 4e-4, 0.2]),
        noise=np.array([0.02, 1e-3, 1e-6, 1e-6]),
        rises=np.array([0.0, 0.02, 0.1]),
        rise_spread=0.7,
        late_share=0.3,
        start_s=2.0,
        curve_s=6.0,
    )

"""Measures a grid: every configuration of its design once, then the best of them and the default again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives, Priority
from a3gnn.seeding import generator
from a3gnn.space import SearchSpace
from benchmarks.corpus.subject_trials import DEFAULT, SubjectTrials
from benchmarks.grids.design import grid_design

#: By which the best are ranked, in turn.
PRIORITIES = ("time", "throughput", "memory", "balanced", "accuracy")
#: Accuracy that may be lost, as a share of 1: what a tune allows by default.
_MAX_DROP = 0.01


class Shape(NamedTuple):
    """How large a grid is.

    Attributes:
        keys: Learning keys.
        settings: Configurations of each.
        top: How many of the best are measured several times.
        replicates: How often, and the default.
    """

    keys: int = 40
    settings: int = 6
    top: int = 30
    replicates: int = 5


def cells(space: SearchSpace, shape: Shape, seed: int) -> list[TrainConfig]:
    """Returns the configurations of a grid without the default, in the order in which they are measured: drawn."""
    every = [config for group in grid_design(space, shape.keys, shape.settings, seed) for config in group]
    return [every[place] for place in generator(seed, "grid", "order").permutation(len(every))]


def measure_grid(trials: SubjectTrials, shape: Shape, seed: int) -> list[Measurement]:
    """Returns the grid's rows, the default's first; each is measured once and kept.

    Rounds of the best and the default are each in an order of their own, so that no configuration is measured in bad
    times alone. No trial has a limit on memory.
    """
    configs = cells(SearchSpace.of(trials.setting), shape, seed)
    found = [trials.default, *(trials.measure(number, config) for number, config in enumerate(configs, start=1))]
    again = [DEFAULT, *best(trials, found, shape.top)]
    number = len(found)
    for replicate in range(1, shape.replicates):
        for place in generator(seed, "grid", "replicate", replicate).permutation(len(again)):
            found.append(trials.measure(number, again[place]))
            number += 1
    return found


def best(trials: SubjectTrials, rows: Sequence[Measurement], count: int) -> list[TrainConfig]:
    """Returns the `count` best configurations but the default: the best by each of `PRIORITIES`, the next best, ....

    Of those that keep the default's accuracy less a point, as measured; of equals the first.
    """
    metrics = trials.default.metrics
    reference = None if metrics is None else Reference.of(metrics, trials.curve(DEFAULT), _MAX_DROP)
    done = [(row.config, row.metrics) for row in rows if row.metrics is not None and row.config != DEFAULT]
    if reference is None or not done:
        return []
    figures = [Figures.of(found, trials.curve(config), reference) for config, found in done]
    kept = np.array([(one.val_accuracy or 0.0) >= reference.target for one in figures])
    limits, has_device = Limits(least_accuracy=reference.target), trials.setting.hardware.has_device
    orders = []
    for name in PRIORITIES:
        score = Objectives(limits, Priority.parse(name), has_device).measured_score(figures)
        usable = np.flatnonzero(kept & np.isfinite(score))
        orders.append(usable[np.argsort(-score[usable], kind="stable")].tolist())
    ranked = (order[rank] for rank in range(len(done)) for order in orders if rank < len(order))
    return [done[place][0] for place in dict.fromkeys(ranked)][:count]

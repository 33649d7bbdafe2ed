"""Measures a grid, and says before what that is predicted to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives, Priority
from a3gnn.report.text import describe_config
from a3gnn.seeding import generator
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.units import format_duration
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.corpus.measure import DEFAULT, SubjectTrials, default_plan
from benchmarks.grids.design import grid_design


class Forecast(NamedTuple):
    """What trials of configurations are predicted to take, the default's first.

    Attributes:
        epochs_per_s: Throughput, float64, shape (n,).
        seconds: Of the first trial of each, with what is left of its learning key's curve, float64, shape (n,).
        again_s: Of all further trials, of which it is not known yet whose they are: each takes what a median one does.
    """

    epochs_per_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    again_s: float


def forecast(
    setting: Setting, configs: Sequence[TrainConfig], shape: Shape, seconds: float, past: Sequence[Measurement]
) -> Forecast:
    """Returns what measuring `configs` in their order is predicted to take.

    What a trial takes beside its mini-batches and its curve, and evaluation beside training, are those of `past` rows;
    the throughput is what a surrogate predicts that is fitted to them. Each learning key trains its curve once, to its
    end.

    Args:
        setting: What is trained, on which graph and machine.
        configs: The default and the grid's cells.
        shape: Says how many further trials there are.
        seconds: That the default trains, at most.
        past: Measurements of any graphs.
    """
    plan, graph = default_plan(seconds), setting.graph
    done = [(row.seconds, row.metrics) for row in past if row.metrics is not None]
    around_s = median(taken - one.curve_train_seconds - one.curve_eval_seconds for taken, one in done)
    evaluated, trained = (sum(getattr(one, f"curve_{kind}_seconds") for _, one in done) for kind in ("eval", "train"))
    surrogate = Surrogate(seed=0).fit(past, graph.fingerprint)
    speeds = surrogate.predict(configs, setting).column("throughput_epochs_per_s")
    least = plan.warmup_batches + plan.windows * plan.least_timed_batches
    timed, whole, seen = [], [], set()
    for config, speed in zip(configs, speeds, strict=True):
        batches = math.ceil(graph.num_train / min(config.batch_size, graph.num_train))
        timed.append(around_s + max(least / (speed * batches) - plan.timed_seconds, 0.0))
        new = config.learning_key() not in seen
        seen.add(config.learning_key())
        whole.append(timed[-1] + new * seconds * (1 + evaluated / trained))
    again = (shape.replicates - 1) * (1 + min(shape.top, len(configs) - 1))
    return Forecast(speeds, np.array(whole), again * median(timed))


def table(configs: Sequence[TrainConfig], found: Forecast) -> list[str]:
    """Returns the lines that show `found`: a configuration each, then what all take."""
    lines = [f"{'epochs/s':>9} {'seconds':>8}  configuration"]
    for config, speed, seconds in zip(configs, found.epochs_per_s, found.seconds, strict=True):
        name = "the default" if config == DEFAULT else describe_config(config)
        lines.append(f"{speed:9.3g} {seconds:8.1f}  {name}")
    keys = len({config.learning_key() for config in configs})
    lines.append(
        f"{len(configs)} configurations of {keys} learning keys: {format_duration(float(found.seconds.sum()))} as "
        f"predicted; repetitions: {format_duration(found.again_s)}"
    )
    return lines


#: By which the best are ranked, in turn.
PRIORITIES = ("time", "throughput", "memory", "balanced", "accuracy")
#: Accuracy that may be lost, as a share of 1, in the documented results; a tune allows half of it by default.
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

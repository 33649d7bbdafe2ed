"""What measuring a grid is predicted to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.measurement import Measurement
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.units import format_duration
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.corpus.subject_trials import DEFAULT, default_plan
from benchmarks.grids.measure import Shape


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

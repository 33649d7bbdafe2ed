"""`--priority quality`: the recipe's search, and how long the trainings of its race are.

Of 42 published winners on graphs such as in docs/benchmarks, 74 % have a norm, 64 % residual connections and 69 %
more than two layers, in combinations: a norm alone, or depth alone, often gains nothing. So whole shapes race, and
single values change later, around the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.task import Task
from a3gnn.tuning.study.history import History

#: The shapes that race: layers, each with the two ways of normalizing that published winners have. Unlike ones come
#: first, for budgets that end within the first round.
SHAPES: tuple[Mapping[str, Any], ...] = tuple(
    {"layers": layers, "norm": norm, "residual": norm == "batch"}
    for norms in (("batch", "layer"), ("layer", "batch"))
    for layers, norm in zip((4, 2, 8, 3), norms * 2, strict=True)
)
#: Values of the other fields in which all shapes race. Guess: narrow, so that a training has hundreds of epochs.
START: dict[str, Any] = {"hidden_channels": 64, "dropout": 0.35, "learning_rate": 0.005, "weight_decay": 0.0}
#: Their values in steps around the best shape: the winners' (docs above), and what lies between.
STEPS: Mapping[str, tuple[Any, ...]] = {
    "hidden_channels": (32, 64, 128, 256, 512),
    "dropout": (0.0, 0.2, 0.35, 0.5, 0.7),
    "learning_rate": (0.001, 0.002, 0.005, 0.01, 0.02),
    "weight_decay": (0.0, 5e-5, 5e-4),
}
#: Trials of a configuration until it has trained as long as any: each trains twice as long as the one before.
RUNGS = 3


def recipe_search(task: Task) -> dict[str, list[Any]]:
    """Returns the search of the recipe: for each name the values of the shapes, the steps and `task` itself."""
    found: dict[str, dict[Any, None]] = {}
    for values in (*SHAPES, *({name: value} for name, ones in STEPS.items() for value in ones)):
        for name, value in values.items():
            found.setdefault(name, {})[value] = None
    return {name: list({**values, task.value(name): None}) for name, values in found.items()}


def trained_trials(history: History, config: TrainConfig) -> int:
    """Returns how many successful trials of `config`, which is canonical, there were."""
    return sum(trial.measurement.config == config and trial.metrics is not None for trial in history.trials)


def rung_s(history: History, rung: int) -> float:
    """Returns the seconds of training at the end of the trial number `rung` of a configuration, from 0."""
    return history.study.quality_s * 2.0 ** (min(rung, RUNGS - 1) - RUNGS + 1)


def next_rung_s(history: History, config: TrainConfig) -> tuple[float, float]:
    """Returns the seconds at which the next trial of `config` ends, and the seconds that it has been trained for."""
    done = trained_trials(history, config.canonical())
    return rung_s(history, done), rung_s(history, done - 1) if done else 0.0

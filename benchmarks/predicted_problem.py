"""What a tune searches: the surrogate's predictions for a graph of the shipped profiles, under the default's memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.search.problem import Problem
from a3gnn.space import SearchSpace
from a3gnn_surrogate.surrogate import Surrogate

#: Validation accuracy that may be lost against what is predicted of the default: a point, as by default in a tune.
_DROP = 0.01


def predicted_problems(graphs: list[str], priority: str) -> Iterator[tuple[str, Problem]]:
    """Yields for each of `graphs` its name and what a tune of it by `priority` searches.

    The limits are the default's: its memory as predicted by the upper bound, and its accuracy less a point.

    Raises:
        ValueError: The shipped profiles have no such graph.
    """
    rows = shipped_measurements()
    settings = {row.setting.graph.name: row.setting for row in rows}
    for name in graphs:
        if name not in settings:
            raise ValueError(f"graph must be one of the shipped profiles' {sorted(settings)}, got {name!r}")
        setting = settings[name]
        space = SearchSpace.of(setting)
        surrogate = Surrogate(seed=0).fit(rows, target=setting.graph.fingerprint)
        default = surrogate.predict([TrainConfig()], setting)
        limits = Limits(
            host_bytes=math.ceil(default.column("peak_host_bytes", "high")[0]),  # which the default itself keeps
            least_accuracy=float(default.column("val_accuracy")[0]) - _DROP,
        )

        def predict(
            rows: NDArray[np.int64], space: SearchSpace = space, surrogate: Surrogate = surrogate, name: str = name
        ) -> Prediction:
            return surrogate.predict(space.columns(rows), settings[name])

        objectives = Objectives(limits, Priority.parse(priority), setting.hardware.has_device)
        yield name, Problem(space, predict, objectives)

"""A user's search of four dimensions: seconds of trials until a tune is within .3 points of the best random trial.

python -m benchmarks.own_search GRAPH [--random 60] [--trials 20] [--seeds 2] [--epochs N] [--engine ei]

Each trial trains a factory's model for as long as the baseline. All knobs are fixed, so that both choose among the
same four names. The seconds of random search are the mean over orders of its trials.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from a3gnn import Graph, Task, TrainConfig, tune
from a3gnn.config import KNOBS
from a3gnn.tuning.study.folder import Journal

SEARCH = {
    "hidden": [16, 32, 64, 128],
    "dropout": (0.0, 0.7),
    "layers": [1, 2, 3, 4, 5],
    "lr": {"low": 1e-3, "high": 5e-2, "log": True},
}
#: Points of validation quality that count as the same.
_WITHIN = 0.3
_ORDERS = 2000


def trials_of(graph: Graph, engine: str, trials: int, seed: int, epochs: int | None) -> list[tuple[float, float]]:
    """Returns the seconds of each trial of a tune, and the best validation quality of its curve (0 if it failed).

    The baseline trains `epochs`; None for until it stops improving.
    """
    fixed = {knob.name: getattr(TrainConfig(), knob.name) for knob in KNOBS}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        tune(
            graph,
            model="benchmarks.own_search_model:make_model",
            task=Task(model="benchmarks.own_search_model:make_model", fanouts=(10, 10), learning_rate=0.01),
            metric="auto",
            search=SEARCH,
            fix=fixed,
            priority="accuracy",
            engine=engine,
            budget=trials,
            seed=seed,
            accuracy_epochs=epochs,
            max_accuracy_drop=100.0,
            out=out,
        )
        found = [one for one in Journal(out).read() if one.counts]
    curves = [None if one.metrics is None else one.metrics.curve for one in found]
    return [
        (one.measurement.seconds, max(curve.val_accuracy) if curve and curve.batches else 0.0)
        for one, curve in zip(found, curves, strict=True)
    ]


def seconds_until(trials: list[tuple[float, float]], quality: float) -> float:
    """Returns the seconds of trials until one has `quality`; infinite if none has."""
    reached = np.flatnonzero(np.array([one[1] for one in trials]) >= quality)
    return float(np.sum([one[0] for one in trials[: reached[0] + 1]])) if len(reached) else float("inf")


def main() -> None:
    """Prints the seconds of random search and of each tune as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    for name, default in (("--random", 60), ("--trials", 20), ("--seeds", 2), ("--epochs", None)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--engine", default="ei")
    options = parser.parse_args()
    graph = Graph.load(options.graph)
    pool = trials_of(graph, "random", options.random, 0, options.epochs)
    best = max(quality for _, quality in pool)
    random, goal = np.random.default_rng(0), best - _WITHIN / 100
    orders = [seconds_until([pool[i] for i in random.permutation(len(pool))], goal) for _ in range(_ORDERS)]
    print(json.dumps({"graph": graph.name, "best_of_random": best, "random_s": float(np.mean(orders))}), flush=True)
    for seed in range(1, options.seeds + 1):
        found = trials_of(graph, options.engine, options.trials, seed, options.epochs)
        print(
            json.dumps(
                {
                    "seed": seed,
                    "seconds": seconds_until(found, goal),
                    "best": max(quality for _, quality in found),
                    "trials": len(found),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()

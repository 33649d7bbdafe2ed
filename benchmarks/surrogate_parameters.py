"""Searches XGBoost's parameters for the surrogate's residuals, and says what that gains on graphs that it did not see.

    python -m benchmarks.surrogate_parameters [--profiles FILE.jsonl.gz] [--trials 40] [--seed 0]

What is minimised, by Optuna's TPE: the squared error on held-out graphs over the error without trees, with the best
number of trees, the mean over outputs; the surrogate chooses that number by the same folds. A search over all graphs
says which parameters would ship. What searching gains is said by nested cross-validation: of three parts of the graphs
two are searched on, and what is found is scored on the third, beside the parameters that ship.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import optuna
from numpy.typing import NDArray

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.search.quiet_optuna import quiet_optuna
from a3gnn.seeding import generator
from a3gnn_surrogate.conformal import graph_folds
from a3gnn_surrogate.learner import PARAMETERS, BoostedTrees, Fold, Folds
from a3gnn_surrogate.residual import learner_folds
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.training_rows import OUTPUTS

_PARTS = 3


@dataclass(frozen=True)
class Task:
    """What parameters are judged by.

    Attributes:
        folds: Of each output that has rows, by its name.
        seed: Of the learners.
    """

    folds: Mapping[str, Sequence[Fold]]
    seed: int

    @classmethod
    def of(cls, source: RowSource, held_out: Callable[[NDArray[np.str_]], Folds], seed: int) -> Self:
        """Returns the task of all outputs of `source`, of which `held_out` says the folds."""
        every = {name: learner_folds(source, output, held_out) for output, name in enumerate(OUTPUTS)}
        return cls({name: folds for name, folds in every.items() if folds and len(folds[0].y)}, seed)

    def ratios(self, parameters: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
        """Returns by output the errors with each number of trees over that with none, float64, shape (n_numbers,)."""
        found = {}
        for name, folds in self.folds.items():
            learner = BoostedTrees(self.seed, parameters=parameters)
            errors = learner.held_out_errors(folds, np.ones(len(folds[0].y)))
            found[name] = errors / errors[0]
        return found

    def loss(self, parameters: Mapping[str, float]) -> float:
        """Returns what is minimised."""
        return float(np.mean([ratios.min() for ratios in self.ratios(parameters).values()]))


def search(task: Task, trials: int) -> dict[str, float]:
    """Returns the best parameters of a search that begins with those that ship."""

    def objective(trial: optuna.Trial) -> float:
        return task.loss(
            {
                "max_depth": trial.suggest_int("max_depth", 1, 6),
                "eta": trial.suggest_float("eta", 0.02, 0.3, log=True),
                "subsample": trial.suggest_float("subsample", 0.4, 1.0),
                "colsample_bytree": trial.suggest_float("colsample_bytree", 0.2, 1.0),
                "min_child_weight": trial.suggest_float("min_child_weight", 1.0, 32.0, log=True),
                "lambda": trial.suggest_float("lambda", 0.5, 64.0, log=True),
            }
        )

    with quiet_optuna():
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=task.seed, multivariate=True))
        study.enqueue_trial(PARAMETERS)
        study.optimize(objective, trials)
    return study.best_params


def nested(measurements: Sequence[Measurement], trials: int, seed: int) -> list[dict[str, tuple[float, float]]]:
    """Returns per part and output the error over that without trees: of the parameters that ship, and of those found.

    The number of trees is the best one on the parts that are searched on.
    """
    source = RowSource(measurements)
    graphs = np.unique(source.rows().graphs)
    found = []
    for part in np.array_split(generator(seed, "surrogate_parameters").permutation(graphs), _PARTS):
        seen = RowSource([row for row in measurements if row.setting.graph.fingerprint not in part])
        inner = Task.of(seen, lambda graphs: graph_folds(graphs, seed), seed)
        outer = Task.of(source, lambda graphs, part=part: [np.isin(graphs, part)], seed)
        sides = [_scored(inner, outer, parameters) for parameters in (PARAMETERS, search(inner, trials))]
        found.append({name: (sides[0][name], sides[1][name]) for name in sides[0]})
    return found


def _scored(inner: Task, outer: Task, parameters: Mapping[str, float]) -> dict[str, float]:
    chosen, held = inner.ratios(parameters), outer.ratios(parameters)
    return {name: float(held[name][ratios.argmin()]) for name, ratios in chosen.items()}


def main() -> None:
    """Prints the parameters that a search finds, and what searching gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")
    parser.add_argument("--trials", type=int, default=40, help="of each search; one takes some seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    every = Task.of(RowSource(rows), lambda graphs: graph_folds(graphs, options.seed), options.seed)
    best = search(every, options.trials)
    for label, parameters in (("that ship", PARAMETERS), ("found", best)):
        shown = ", ".join(f"{name} {value:.3g}" for name, value in parameters.items())
        print(f"parameters {label}: {shown}; loss {every.loss(parameters):.4f}", flush=True)
    print(f"graphs that no search saw, {_PARTS} parts: error over that without trees, that ship -> found")
    parts = nested(rows, options.trials, options.seed)
    for name in sorted(set().union(*parts)):
        print(f"{name:>26}: " + ", ".join("{:.3f} -> {:.3f}".format(*part[name]) for part in parts if name in part))
    means = np.array([np.mean(list(part.values()), axis=0) for part in parts])
    print(f"{'mean':>26}: " + ", ".join(f"{old:.3f} -> {new:.3f}" for old, new in means))


if __name__ == "__main__":
    main()

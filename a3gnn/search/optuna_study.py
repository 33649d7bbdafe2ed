"""The Optuna engines: an in-memory study that is asked and told in batches, without log lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial

from a3gnn.prediction import Prediction
from a3gnn.search.baselines import CandidatePool
from a3gnn.search.searchable import Problem
from a3gnn.seeding import derive
from a3gnn.space import SearchSpace

#: Suggestions per new row; after these, random new rows are told to the study instead. Guess.
_TRIES = 4


class OptunaSearcher:
    """Asks an Optuna sampler for three costs under the constraint `violation <= 0`.

    Optuna may suggest a known row again. That trial is told the known costs at once, and `ask` skips the row.
    """

    def __init__(self, problem: Problem, seed: int, sampler: optuna.samplers.BaseSampler) -> None:
        self._problem = problem
        self._candidates = CandidatePool(problem, seed)
        self._distributions = distributions(problem.space)
        with quiet_optuna():
            self._study = optuna.create_study(directions=["minimize"] * 3, sampler=sampler)
        self._waiting: dict[int, list[optuna.Trial]] = {}
        self._known: dict[int, tuple[list[float], float]] = {}

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns up to `count` new rows from the sampler, and random ones if it repeats itself too often."""
        rows = np.empty((0, len(self._problem.space.nvec)), dtype=np.int64)
        for _ in range(_TRIES * count):
            if len(rows) == count:
                break
            rows = np.concatenate([rows, self._candidates.take(self._suggestion()[None])])
        extra = self._candidates.draw(count - len(rows))
        for row in extra:
            self._study.enqueue_trial(dict(zip(self._problem.space.names, row.tolist(), strict=True)))
            self._suggestion()
        return np.concatenate([rows, extra])

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Tells the study costs and violation of `rows`."""
        objectives = self._problem.objectives
        costs, violation = objectives.costs(prediction), objectives.limits.violation(prediction)
        for key, cost, broken in zip(self._problem.keys(rows).tolist(), costs, violation, strict=True):
            self._known[key] = (cost.tolist(), float(broken))
            for trial in self._waiting.pop(key, []):
                self._answer(trial, key)

    def _suggestion(self) -> NDArray[np.int64]:
        """Returns the canonical row of a new trial. The trial is told its costs at once if they are known, or waits."""
        trial = self._study.ask(self._distributions)
        params = trial.params
        suggested = np.array([[params[name] for name in self._problem.space.names]], dtype=np.int64)
        row: NDArray[np.int64] = self._problem.space.canonical(suggested)[0]
        key = int(self._problem.keys(row[None])[0])
        if key in self._known:
            self._answer(trial, key)
        else:
            self._waiting.setdefault(key, []).append(trial)
        return row

    def _answer(self, trial: optuna.Trial, key: int) -> None:
        costs, violation = self._known[key]
        trial.set_constraint("limits", violation)
        self._study.tell(trial, costs)


class Nsga2Searcher(OptunaSearcher):
    """Optuna's NSGA-II with its default operators."""

    def __init__(self, problem: Problem, seed: int) -> None:
        sampler = _KnownSpaceSampler(seed=derive(seed, "nsga2") % 2**32)
        sampler.known = {name: d for name, d in distributions(problem.space).items() if not d.single()}
        super().__init__(problem, seed, sampler)


class _KnownSpaceSampler(optuna.samplers.NSGAIISampler):
    """Returns a fixed search space, because deriving it from all earlier trials takes half of Optuna's time."""

    known: dict[str, BaseDistribution]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.known


class TpeSearcher(OptunaSearcher):
    """Optuna's TPE: good with few evaluations, but slow with many, because its models grow with them."""

    def __init__(self, problem: Problem, seed: int) -> None:
        # One joint model builds three times as fast as the default for several objectives, a model per knob.
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=derive(seed, "tpe") % 2**32)
        super().__init__(problem, seed, sampler)


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions of the knobs' indices: ordered integers, or categories for choices."""
    return {
        knob.name: CategoricalDistribution(range(len(knob.values)))
        if knob.scale == "choice"
        else IntDistribution(0, len(knob.values) - 1)
        for knob in space.knobs
    }


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Hides Optuna's messages below the level of warnings inside the context."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)

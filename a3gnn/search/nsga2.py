"""NSGA-II (Deb et al., 2002), as Optuna has it."""

from __future__ import annotations

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from a3gnn.search.optuna_study import OptunaSearcher, distributions
from a3gnn.search.problem import Problem
from a3gnn.seeding import derive


class Nsga2Searcher(OptunaSearcher):
    """Optuna's NSGA-II with its default operators."""

    def __init__(self, problem: Problem, seed: int) -> None:
        sampler = _KnownSpaceSampler(seed=derive(seed, "nsga2") % 2**32)
        sampler.known = {name: d for name, d in distributions(problem.space).items() if not d.single()}
        super().__init__(problem, seed, sampler)


class _KnownSpaceSampler(optuna.samplers.NSGAIISampler):
    """Knows the search space, which Optuna derives at each trial from all earlier ones: half of its time."""

    known: dict[str, BaseDistribution]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.known

"""The tree-structured Parzen estimator for several objectives (Ozaki et al., 2022), as Optuna has it."""

from __future__ import annotations

import optuna

from a3gnn.search.optuna_study import OptunaSearcher
from a3gnn.search.problem import Problem
from a3gnn.seeding import derive


class TpeSearcher(OptunaSearcher):
    """Optuna's TPE: good with few evaluations, and slow with many, as its models grow with the evaluations."""

    def __init__(self, problem: Problem, seed: int) -> None:
        # One joint model is built three times as fast as one per knob, which is the default for several objectives.
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=derive(seed, "tpe") % 2**32)
        super().__init__(problem, seed, sampler)

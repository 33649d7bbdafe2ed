"""PPO: a policy proposes, local search improves (A3GNN, III-C, and local search)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.local_search import LocalSearch
from a3gnn.search.problem import Problem
from a3gnn.search.random_search import CandidatePool
from a3gnn.search.result import EvaluationCache
from a3gnn.seeding import derive
from a3gnn_envs.context import SCALE_SAMPLE_SIZE
from a3gnn_envs.policy_training import MIN_EVALUATIONS, train_policy

#: Samples drawn from the policy. Guess.
PROPOSALS = 64
#: Predictions, repeated ones included, that training a policy may ask for, per distinct evaluation that it may spend.
#: Guess.
_STEPS_PER_EVALUATION = 8
#: Training a policy may take one over this of the budget. Guess.
_TRAINING_DIVISOR = 3


class PpoSearcher:
    """Starts from a policy's proposals, then breeds and searches locally.

    The policy is trained on this problem alone, through `problem.predict`, with a third of `evaluations` distinct
    configurations; what training has seen goes to local search and is not asked for again. With too few evaluations for
    that, or enough for the whole space, random rows stand for the proposals. Training takes a few seconds, when the
    searcher is made.
    """

    def __init__(self, problem: Problem, seed: int, evaluations: int = 3000) -> None:
        self._problem = problem
        self._seed = seed
        self._candidates = CandidatePool(problem, seed)
        self._local_search = LocalSearch(problem, seed, evaluations, self._candidates)
        self._proposals = self._propose(evaluations)

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` new rows, fewer only when the space is exhausted."""
        proposed, self._proposals = self._proposals[:count], self._proposals[count:]
        return np.concatenate([proposed, self._local_search.ask(count - len(proposed))])

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Hands the predictions to local search."""
        self._local_search.tell(rows, prediction)

    def _propose(self, evaluations: int) -> NDArray[np.int64]:
        """Returns the first rows to ask for; what training evaluates for them is told to local search."""
        most = evaluations // _TRAINING_DIVISOR
        if most - SCALE_SAMPLE_SIZE < MIN_EVALUATIONS or evaluations >= self._problem.space.num_distinct:
            return self._candidates.draw(PROPOSALS)
        cache = EvaluationCache(self._problem)
        context = dataclasses.replace(self._problem.episode_context, predict=cache)
        steps, seed = most * _STEPS_PER_EVALUATION, derive(self._seed, "ppo.train")
        policy = train_policy(context, steps, seed, go_on=lambda count: len(cache) + count <= most)
        proposals = policy.propose(PROPOSALS, derive(self._seed, "ppo.propose"))
        seen = self._candidates.take(cache.rows)
        self._local_search.tell(seen, cache(seen))
        return self._candidates.take(proposals)

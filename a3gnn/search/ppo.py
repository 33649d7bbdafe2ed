"""PPO engine: a policy proposes configurations (A3GNN, III-C), and local search improves them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.baselines import CandidatePool
from a3gnn.search.local_search import LocalSearch
from a3gnn.search.run import EvaluationCache
from a3gnn.search.searchable import Problem
from a3gnn.seeding import derive
from a3gnn_envs.context import SCALE_SAMPLE_SIZE
from a3gnn_envs.policy_training import MIN_EVALUATIONS, train_policy

#: Samples drawn from the policy. Guess.
PROPOSALS = 64
#: Predictions, including repeated ones, that training a policy may request per distinct evaluation. Guess.
_STEPS_PER_EVALUATION = 8
#: Divisor of the budget that gives the share for training a policy. Guess.
_TRAINING_DIVISOR = 3


class PpoSearcher:
    """Starts from a policy's proposals, then breeds and searches locally.

    The policy is trained on this problem alone, through `problem.predict`, on a third of `evaluations` distinct
    configurations. Local search gets the configurations seen in training, and they are not requested again. If there
    are too few evaluations for training, or enough for the whole space, random rows replace the proposals. Training
    takes a few seconds in the constructor.
    """

    def __init__(self, problem: Problem, seed: int, evaluations: int = 3000) -> None:
        self._problem = problem
        self._seed = seed
        self._candidates = CandidatePool(problem, seed)
        self._local_search = LocalSearch(problem, seed, evaluations, self._candidates)
        self._proposals = self._propose(evaluations)

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` new rows; fewer only if the space is exhausted."""
        proposed, self._proposals = self._proposals[:count], self._proposals[count:]
        return np.concatenate([proposed, self._local_search.ask(count - len(proposed))])

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Hands the predictions to local search."""
        self._local_search.tell(rows, prediction)

    def _propose(self, evaluations: int) -> NDArray[np.int64]:
        """Returns the first rows to ask for, and tells local search the rows that training evaluated."""
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

"""`random` and `exhaustive`: engines that ask no beliefs. Importing Optuna takes a second, so they are apart."""

from __future__ import annotations

import math

import numpy as np

from a3gnn.seeding import derive
from a3gnn.space import Rows, SearchSpace, check_enumerable
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import unmeasured
from a3gnn.tuning.study.trial import Proposal

#: Random rows to find new ones among; a smaller space is enumerated.
_AMONG = 4_096


class RandomEngine:
    """Proposes random configurations, without repetition."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        seed = derive(self._seed, "random", len(beliefs.history.trials))
        return _proposals(beliefs, drawn(beliefs.space, _AMONG, seed), count)


class ExhaustiveEngine:
    """Proposes every configuration of the space, in sorted order.

    Raises:
        UsageError: On use, the space is too large to enumerate.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        check_enumerable(beliefs.space)
        return _proposals(beliefs, beliefs.space.enumerate(), count)


def drawn(space: SearchSpace, count: int, seed: int) -> Rows:
    """Returns distinct random rows, int64, shape (n, n_knobs): up to `count`, or all of a space of as many."""
    if space.num_distinct <= count:
        return np.asarray(np.random.default_rng(seed).permutation(space.enumerate()))
    rows = space.sample(count, seed)
    return np.asarray(rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])])


def _proposals(beliefs: Beliefs, rows: Rows, count: int) -> list[Proposal]:
    left = unmeasured(rows, beliefs.tried)[:count]
    return [Proposal("front", beliefs.space.decode(row)) for row in left]

"""`random` and `exhaustive`: the baselines of every other engine."""

from __future__ import annotations

import math

import numpy as np

from a3gnn.seeding import derive
from a3gnn.space import Rows, check_enumerable
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import unmeasured
from a3gnn.tuning.study.trial import Proposal

#: Random rows to find new ones among; a smaller space is enumerated.
_DRAWN = 4_096


class RandomEngine:
    """Proposes random configurations, without repetition."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        space, seed = beliefs.space, derive(self._seed, "random", len(beliefs.history.trials))
        if space.num_distinct <= _DRAWN:
            rows = np.random.default_rng(seed).permutation(space.enumerate())
        else:
            drawn = space.sample(_DRAWN, seed)
            rows = drawn[np.sort(np.unique(drawn, axis=0, return_index=True)[1])]
        return _proposals(beliefs, rows, count)


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


def _proposals(beliefs: Beliefs, rows: Rows, count: int) -> list[Proposal]:
    left = unmeasured(rows, beliefs.tried)[:count]
    return [Proposal("front", beliefs.space.decode(row)) for row in left]

"""`Problem`: what a search is over: a surrogate, a space and objectives, as a context of the environments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from a3gnn.objectives import Objectives
from a3gnn.search.searchable import Searchable
from a3gnn.space import SearchSpace
from a3gnn_envs.context import Context


@dataclass(frozen=True)
class Problem(Searchable):
    """One search for configurations: where, by which predictor, and for what.

    Attributes:
        space: The configurations.
        predict: Answers encoded rows with a `Prediction`.
        objectives: The limits and the priority. Searchers look for the whole front, which has the best configuration
            of every priority.
    """

    space: SearchSpace
    objectives: Objectives

    @cached_property
    def episode_context(self) -> Context:
        """The same as the environments see it."""
        wanted = self.objectives
        return Context(self.space, self.predict, wanted.limits, wanted.has_device, speed=wanted.speed)

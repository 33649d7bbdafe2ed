"""`Problem`: a search over the configurations of a space, by predictions, under objectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from a3gnn.objectives import Objectives
from a3gnn.search.searchable import Searchable
from a3gnn.space import SearchSpace
from a3gnn_envs.context import Context


@dataclass(frozen=True)
class Problem(Searchable):
    """One search for configurations.

    Attributes:
        space: The configurations.
        predict: Answers encoded rows with a `Prediction`.
        objectives: The limits and the priority. Searchers look for the whole front, which contains the best
            configuration of every priority.
    """

    space: SearchSpace
    objectives: Objectives

    @cached_property
    def episode_context(self) -> Context:
        """The problem as a context of the gymnasium environments."""
        wanted = self.objectives
        return Context(self.space, self.predict, wanted.limits, wanted.has_device, speed=wanted.speed)

"""The input of a searcher: `Searchable`, any grid of rows, and `Problem`, the configurations of a space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import METRICS
from a3gnn.objectives import Objectives
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace

if TYPE_CHECKING:
    from a3gnn_envs.context import Context

#: A space of up to this many configurations is predicted completely, once, which gives an exhaustive front to compare
#: with. That takes 2 s of the 10 s for a search: on 2 cores the surrogate predicts one configuration in 9 microseconds.
ENUMERABLE = 200_000


class Space(Protocol):
    """Rows of small integers, int64, shape (n, n_columns); `SearchSpace` documents each method."""

    @property
    def nvec(self) -> NDArray[np.int64]:
        """The number of values of each column, int64, shape (n_columns,)."""
        ...

    @property
    def num_distinct(self) -> int:
        """Number of rows that `enumerate` returns."""
        ...

    def canonical(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows that represent `rows`."""
        ...

    def enumerate(self) -> NDArray[np.int64]:
        """Returns every canonical row, in sorted order."""
        ...

    def sample(self, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows drawn uniformly from the grid."""
        ...

    def neighbors(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the canonical rows that differ from `row` in one column."""
        ...


class Bounds(Protocol):
    """The limits that rows must keep."""

    def violation(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns by how much each row breaks its worst limit, 0 where all are kept, float64, shape (n,)."""
        ...


class Wanted(Protocol):
    """The objectives of a search: limits and costs."""

    @property
    def limits(self) -> Bounds:
        """The limits that rows must keep."""
        ...

    def costs(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the costs to minimize, float64, shape (n, 3)."""
        ...


@dataclass(frozen=True)
class Searchable:
    """A grid for exhaustive, random and local search, whatever its rows stand for.

    Attributes:
        space: The rows.
        predict: Maps rows to a `Prediction`.
        objectives: Costs and limits.
    """

    space: Space
    predict: Predict
    objectives: Wanted

    @property
    def metrics(self) -> tuple[str, ...]:
        """The columns of the predictions."""
        return METRICS

    @property
    def enumerable(self) -> bool:
        """Whether the space is small enough to be predicted completely."""
        return self.space.num_distinct <= ENUMERABLE

    def keys(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns a unique number for each canonical row, int64, shape (n_configs,)."""
        return np.asarray(np.ravel_multi_index(tuple(rows.T), tuple(self.space.nvec)), dtype=np.int64)


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
        from a3gnn_envs.context import Context  # the package imports gymnasium

        wanted = self.objectives
        return Context(self.space, self.predict, wanted.limits, wanted.has_device, speed=wanted.speed)

"""A search's values in predictions: the tasks that equations are applied to, and inputs of the Gaussian process."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import SEARCHED, numbered
from a3gnn.measurement import Measurement
from a3gnn.search import Search
from a3gnn.setting import Setting, setting_key
from a3gnn.task import Task, Values
from a3gnn_surrogate.columns import Array, Columns

#: Values of a search from which the equations derive the cost of a step: of built-in models, and of factories.
_COSTLY = ("model", "layers", "hidden_channels", "heads", "norm", "residual")
_COSTLY_OF_OWN = ("layers",)
#: Length scales of the Gaussian process: of a number, whose whole range is 1, and of a choice. Guesses: the middle of
#: a range tells little more about its ends than about another choice.
_OF_RANGE, _OF_CHOICE = 0.4, 0.7
#: Rows of one task: all of them, or their positions.
Positions = slice | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SearchPoints:
    """The search of the tuned setting."""

    key: str  # `setting_key` of the setting; measurements of others with a search are not comparable
    task: Task  # the baseline's
    names: Search  # the names with their values; none without a search

    @classmethod
    def of(cls, setting: Setting, names: Search) -> SearchPoints:
        """Returns the points of a search in `setting`."""
        return cls(setting_key(setting), setting.task, names)

    @property
    def width(self) -> int:
        """Number of inputs."""
        return len(self._at(()))

    def covers(self, row: Measurement) -> bool:
        """Returns whether a measurement is comparable: without a search, or with this one's names in its setting."""
        searched = row.config.searched
        if not searched:
            return True
        known = {one.name for one in self.names}
        return all(name in known for name, _ in searched) and setting_key(row.setting) == self.key

    def at(self, columns: Columns, count: int) -> Array:
        """Returns the inputs of configurations in length scales, float64, shape (count, width)."""
        if not self.names:
            return np.empty((count, 0))
        numbers, places = np.unique(columns.get(SEARCHED, np.zeros(count, np.int64)), return_inverse=True)
        return np.array([self._at(numbered(int(number))) for number in numbers])[places.reshape(-1)]

    def _at(self, values: Values) -> list[float]:
        given, found = dict(values), list[float]()
        for one in self.names:
            scale = _OF_CHOICE if one.scale == "choice" else _OF_RANGE
            found += [place / scale for place in one.position(given.get(one.name, self.task.value(one.name)))]
        return found


NO_SEARCH = SearchPoints("", Task(), ())


def by_task(columns: Columns, setting: Setting) -> list[tuple[Setting, Positions]]:
    """Returns settings with the tasks that configurations train, as far as a step's cost depends on it, and their rows.

    Without a search that is `setting` with all rows.
    """
    if SEARCHED not in columns:
        return [(setting, slice(None))]
    rows: dict[Setting, list[NDArray[np.int64]]] = {}
    for number in np.unique(columns[SEARCHED]):
        own = costly(numbered(int(number)), setting)
        rows.setdefault(own, []).append(np.flatnonzero(columns[SEARCHED] == number))
    return [(own, np.sort(np.concatenate(parts))) for own, parts in rows.items()]


def costly_values(values: Values, task: Task) -> Values:
    """Returns the `values` of a search that change the cost of a step in the equations."""
    names = _COSTLY_OF_OWN if task.is_own else _COSTLY
    return tuple((name, value) for name, value in values if name in names)


@lru_cache(maxsize=65_536)
def costly(values: Values, setting: Setting) -> Setting:
    """Returns `setting` with the `values` of a search that change the cost of a step."""
    changes = costly_values(values, setting.task)
    return dataclasses.replace(setting, task=setting.task.with_values(dict(changes))) if changes else setting

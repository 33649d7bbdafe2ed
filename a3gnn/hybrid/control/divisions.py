"""`Divisions`: all divisions that a controller chooses from, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.amounts import Bounds

#: Steps of the shares, of what accelerators sample, and the most numbers of threads per stage. Guesses: finer ones
#: gain less than measurements scatter.
_SHARE_STEPS, _SAMPLING_STEPS, _THREAD_STEPS = 64, 16, 24


class Divisions:
    """Divisions of the trainers, mini-batch and threads of one assignment.

    Args:
        like: Whose trainers, mini-batch and threads are divided.
        table: Of each: seeds that processors train, seeds that accelerators sample, and the threads of sampling,
            loading and training, float64, shape (5, n_divisions).

    Attributes:
        processor: Seeds that processors train; these and the others are float64, shape (n_divisions,).
        accelerator: Seeds that accelerators train.
        here: Seeds that processors sample.
        there: Seeds that accelerators sample.
        sampling: Threads for sampling.
        loading: Threads for loading.
        training: Threads for trainers.
    """

    def __init__(self, like: Assignment, table: NDArray[np.float64]) -> None:
        self._like, self._table = like, table
        self.processor, self.there, self.sampling, self.loading, self.training = table
        self.accelerator, self.here = like.batch_size - self.processor, like.batch_size - self.there

    @classmethod
    def single(cls, assignment: Assignment) -> Self:
        """Returns that of `assignment` alone."""
        return cls(assignment, _row(assignment)[:, None])

    @classmethod
    def grid(cls, like: Assignment, bounds: Bounds) -> Self:
        """Returns all on a grid; accelerators sample in some if they do in `like`.

        Args:
            like: As above.
            bounds: Of shares; without threads to move, all divisions have those of `like`.
        """
        batch, total = like.batch_size, like.threads.total
        most = min(bounds.accelerators, batch) if "accelerator" in like.kinds else 0
        own = np.unique(np.maximum(np.round(np.linspace(0, batch, _SHARE_STEPS + 1)), batch - most))
        steps = _SAMPLING_STEPS if like.sampled_on_accelerators else 0
        sampled = np.round(np.linspace(0, batch, steps + 1))
        if not bounds.threads:
            return cls(like, _product(own, sampled, _threads(like.threads)[None, :]))
        numbers = np.arange(0, total, -(-total // _THREAD_STEPS))
        numbers[0] = 1
        one, two = (axis.ravel() for axis in np.meshgrid(np.unique(numbers), np.unique(numbers)))
        splits = np.stack([one, two, total - one - two], axis=1)
        idle = np.array([[n, total - n, 0] for n in range(1, total)])
        columns = [
            _product(own[own > 0], sampled, splits[splits[:, 2] > 0]),
            _product(own[own == 0], sampled, idle),
        ]
        return cls(like, np.concatenate(columns, axis=1))

    def places(self, assignments: Iterable[Assignment]) -> NDArray[np.bool_]:
        """Returns which divisions are one of `assignments`."""
        found = np.zeros(self._table.shape[1], dtype=np.bool_)
        for one in assignments:
            found |= (self._table == _row(one)[:, None]).all(axis=0)
        return found

    def assignment(self, place: int) -> Assignment:
        """Returns one of the divisions."""
        share, sampled, *threads = (int(value) for value in self._table[:, place])
        return self._like.divided(share, sampled, Threads(*threads))


def _row(assignment: Assignment) -> NDArray[np.float64]:
    shares = np.array([assignment.seeds_of("processor"), assignment.sampled_on_accelerators], dtype=np.float64)
    return np.concatenate([shares, _threads(assignment.threads)])


def _threads(threads: Threads) -> NDArray[np.float64]:
    return np.array([threads.sampling, threads.loading, threads.training], dtype=np.float64)


def _product(
    shares: NDArray[np.float64], sampled: NDArray[np.float64], splits: NDArray[np.int64] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns share, sampled seeds and threads of all combinations, shape (5, n)."""
    places = np.indices((len(shares), len(sampled), len(splits))).reshape(3, -1)
    return np.concatenate([[shares[places[0]], sampled[places[1]]], splits[places[2]].T], axis=0)

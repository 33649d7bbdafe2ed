"""`ProximityOrder`: BGL's proximity-aware order of seeds (BGL, section 3.2.2), and its shuffling error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.seeding import generator
from a3gnn.storage.compiled import njit, readonly

#: Maximum number of sequences. docs/design/seed_order.md has orders by it.
_MAX_SEQUENCES = 128
#: Maximum ratio of the shuffling error to a random order's; a quarter of the batch size has the same effect.
_MAX_ERROR_RATIO = 2
#: Epochs over which shuffling errors are averaged, so that one draw of the cuts does not decide.
_EPOCHS = 4


class ProximityOrder:
    """An order of seeds that keeps neighbors close and still mixes labels; a pure function of its arguments.

    A breadth-first traversal from random roots is cut into sequences of equal length. The cuts, and where each
    sequence starts, are drawn for each epoch. Mini-batches take seeds from the sequences round-robin. Consecutive
    mini-batches then visit the same neighborhoods: nodes repeat within a mini-batch and from one to the next.

    The number of sequences is the smallest whose `shuffling_error` is at most `error_bound`. If labels still follow the
    graph, it is min(128, batch_size). A search by doubling and halving finds it. The bound is twice the error of random
    orders. BGL's bound, sqrt(b M) / n for b seeds per mini-batch, M workers and n seeds, is not used. Random orders
    exceed it by far, because a sample of b seeds deviates by the order of sqrt(classes / b)
    (docs/design/seed_order.md).

    In BGL, each sequence is a traversal of the whole graph, so seeds taken from one must be skipped in the others. At
    the end of an epoch, all sequences are left with the same few regions of the graph. The last mini-batches come from
    these regions only, and the model forgets the others. Sequences without common seeds end together.

    Args:
        indptr: In-neighbors that mini-batches are sampled from, as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        labels: Classes, or substitutes for them (`a3gnn.graphs.labels.as_classes`), int64, shape (num_nodes,); -1 is
            unlabeled, and counts as one more class.
        num_classes: Every label is below it.
        seeds: Distinct nodes, int32.
        batch_size: Seeds per mini-batch.
        seed: Decides where traversals and epochs begin.
        parts: Each node's part, int32, shape (num_nodes,): each part's seeds are ordered separately. None is one part.
        num_sequences: Breadth-first sequences; by default chosen as above.

    Raises:
        UsageError: `num_sequences` is not positive.

    Attributes:
        num_sequences: Breadth-first sequences.
        shuffling_error: Mean total variation distance between the labels of a mini-batch and of all seeds of its part.
        random_error: The shuffling error of random orders.
        error_bound: Upper limit for `shuffling_error`: twice `random_error`.
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        labels: NDArray[np.int64],
        num_classes: int,
        seeds: NDArray[np.int32],
        batch_size: int,
        seed: int,
        parts: NDArray[np.int32] | None = None,
        *,
        num_sequences: int | None = None,
    ) -> None:
        if num_sequences is not None and num_sequences < 1:
            raise UsageError(f"num_sequences must be >= 1, got {num_sequences}; None chooses by the labels")
        grouped = _GroupedSeeds.of(seeds, parts)
        label_errors = _LabelErrors.of(labels, num_classes, grouped, batch_size)
        traversal = breadth_first_order(
            readonly(indptr), readonly(indices), grouped.ids, generator(seed, "breadth_first")
        )
        self._traversal, self._seeds, self._seed = grouped.regroup(traversal), grouped, seed

        def error_with(count: int) -> float:
            return label_errors.error(lambda epoch: self._places(count, epoch))

        self.random_error = label_errors.error(
            lambda epoch: grouped.shuffled(generator(seed, "shuffling_error", epoch))
        )
        self.error_bound = _MAX_ERROR_RATIO * self.random_error
        most = min(_MAX_SEQUENCES, batch_size)
        self.num_sequences = num_sequences or _smallest(lambda count: error_with(count) <= self.error_bound, most)
        self.shuffling_error = error_with(self.num_sequences)

    def permutation(self, epoch: int) -> NDArray[np.int32]:
        """Returns the seeds in the order of `epoch`, each once, part by part; int32, shape (num_seeds,)."""
        order: NDArray[np.int32] = self._seeds.ids[self._places(self.num_sequences, epoch)]
        return order

    def _places(self, count: int, epoch: int) -> NDArray[np.int32]:
        draw = generator(self._seed, "proximity", epoch)
        parts = [_interleaved(self._traversal[a:b], min(count, b - a), draw) for a, b in pairwise(self._seeds.bounds)]
        return np.concatenate([*parts, np.empty(0, dtype=np.int32)])


def breadth_first_order(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    draw: np.random.Generator,
) -> NDArray[np.int32]:
    """Returns the positions in `nodes`, each once, in the order in which a traversal from random roots reaches them.

    Takes O(nodes + edges) time and 9 bytes per node of the graph. Stops reading edges once all `nodes` are found.

    Edges are followed from a node to its in-neighbors. In an undirected graph a root reaches its whole component; in a
    directed one only its ancestors. The traversal then continues from the next random root among `nodes`, so in a
    directed graph nodes that only share an ancestor may end up far apart.

    Args:
        indptr: In-neighbors as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        nodes: Distinct nodes, int32; roots are drawn from them, and other nodes are traversed but not returned.
        draw: Draws the roots.
    """
    order: NDArray[np.int32] = visit_breadth_first(indptr, indices, nodes, draw.permutation(len(nodes)))
    return order


@njit(nogil=True, cache=True)
def visit_breadth_first(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    roots: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Returns positions in `nodes` (distinct) in the order in which a breadth-first traversal reaches them, int32.

    It starts at `nodes[roots[0]]`. When the queue is empty, it restarts at the first of `roots` whose node has not been
    reached. It ends once it has reached all `nodes`, even if the graph contains more.
    """
    num_nodes = len(indptr) - 1
    place = np.full(num_nodes, -1, dtype=np.int32)
    for i in range(len(nodes)):
        place[nodes[i]] = i
    order = np.empty(len(nodes), dtype=np.int32)
    queue = np.empty(num_nodes, dtype=np.int32)
    reached = np.zeros(num_nodes, dtype=np.bool_)
    kept, head, tail = 0, 0, 0
    for position in roots:
        root = nodes[position]
        if reached[root]:
            continue
        reached[root] = True
        queue[tail] = root
        tail += 1
        while head < tail and kept < len(nodes):
            v = queue[head]
            head += 1
            if place[v] >= 0:
                order[kept] = place[v]
                kept += 1
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if not reached[u]:
                    reached[u] = True
                    queue[tail] = u
                    tail += 1
    return order


def shuffling_error(
    labels: NDArray[np.int32], batch_size: int, num_classes: int, bounds: Sequence[int] | None = None
) -> float:
    """Returns the mean total variation distance between the labels of a mini-batch and of all seeds, in [0, 1].

    Args:
        labels: Labels of the seeds in order, int32 in [0, num_classes), shape (num_seeds,).
        batch_size: Seeds per mini-batch; the last one may have fewer.
        num_classes: Number of distinct labels.
        bounds: Where parts begin and end, from 0 to num_seeds. No mini-batch crosses a bound, and each is compared with
            its own part. None is one part.
    """
    total, batches = 0.0, 0
    for first, last in pairwise(bounds or (0, len(labels))):
        distances, count = sum_label_distances(labels[first:last], batch_size, num_classes)
        total, batches = total + distances, batches + count
    return total / max(batches, 1)


@njit(nogil=True, cache=True)
def sum_label_distances(labels: NDArray[np.int32], batch_size: int, num_classes: int) -> tuple[float, int]:
    """Sums, over mini-batches, the total variation distance between their labels and all `labels`.

    Args:
        labels: Labels of the seeds in order, int32 in [0, num_classes), shape (n,).
        batch_size: Seeds per mini-batch; the last may have fewer.
        num_classes: Number of distinct labels.

    Returns:
        The sum, and the number of mini-batches.
    """
    share = np.zeros(num_classes, dtype=np.float64)
    for label in labels:
        share[label] += 1.0 / len(labels)
    counts = np.zeros(num_classes, dtype=np.int64)
    total = 0.0
    batches = 0
    for start in range(0, len(labels), batch_size):
        batch = labels[start : start + batch_size]
        counts[:] = 0
        for label in batch:
            counts[label] += 1
        distance = 0.0
        for c in range(num_classes):
            distance += abs(counts[c] / len(batch) - share[c])
        total += distance / 2
        batches += 1
    return total, batches


@dataclass(frozen=True, slots=True, eq=False)
class _GroupedSeeds:
    """Seeds sorted by part: the i-th part has the places from `bounds[i]` to `bounds[i + 1]`."""

    ids: NDArray[np.int32]
    bounds: list[int]

    @classmethod
    def of(cls, seeds: NDArray[np.int32], parts: NDArray[np.int32] | None) -> _GroupedSeeds:
        owners = np.zeros(len(seeds), dtype=np.int32) if parts is None else parts[seeds]
        _, sizes = np.unique(owners, return_counts=True)
        return cls(readonly(seeds[np.argsort(owners, kind="stable")]), [0, *np.cumsum(sizes).tolist()])

    def regroup(self, order: NDArray[np.int32]) -> NDArray[np.int32]:
        """Sorts places in `ids` by part, and keeps the order within each part."""
        if len(self.bounds) <= 2:
            return order
        owners = np.searchsorted(np.array(self.bounds[1:]), order, side="right")
        regrouped: NDArray[np.int32] = order[np.argsort(owners, kind="stable")]
        return regrouped

    def shuffled(self, draw: np.random.Generator) -> NDArray[np.int32]:
        """Returns the places in `ids` part by part, in random order within each part."""
        return self.regroup(draw.permutation(len(self.ids)).astype(np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class _LabelErrors:
    """Computes the shuffling error of orders of the seeds."""

    labels: NDArray[np.int32]
    num_classes: int
    bounds: list[int]
    batch_size: int

    @classmethod
    def of(cls, labels: NDArray[np.int64], num_classes: int, seeds: _GroupedSeeds, batch_size: int) -> _LabelErrors:
        known = labels[seeds.ids]
        with_unlabeled = np.where(known < 0, num_classes, known).astype(np.int32)
        return cls(with_unlabeled, num_classes + 1, seeds.bounds, batch_size)

    def error(self, order: Callable[[int], NDArray[np.int32]]) -> float:
        """Returns the mean shuffling error over a few epochs; `order` returns the places for an epoch."""
        return fmean(
            shuffling_error(self.labels[order(epoch)], self.batch_size, self.num_classes, self.bounds)
            for epoch in range(_EPOCHS)
        )


def _interleaved(circle: NDArray[np.int32], count: int, draw: np.random.Generator) -> NDArray[np.int32]:
    """Cuts `circle` at random into `count` arcs, and takes entries from them round-robin.

    Each arc starts at a random entry. Their lengths differ by at most one, and longer arcs come first, so all end in
    the same round.
    """
    length = len(circle)
    ends = np.arange(1, count + 1) * (length // count) + np.minimum(np.arange(1, count + 1), length % count)
    starts = np.concatenate([[0], ends[:-1]])
    shifts = draw.integers(0, ends - starts)
    step, arc = np.divmod(np.arange(length), count)
    within = (step + shifts[arc]) % (ends - starts)[arc]
    order: NDArray[np.int32] = circle[(draw.integers(length) + starts[arc] + within) % length]
    return order


def _smallest(is_enough: Callable[[int], bool], most: int) -> int:
    """Returns the smallest number from 1 to `most` that is enough, or else `most`; `is_enough` must be monotonic."""
    low, high = 0, 1
    while high < most and not is_enough(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high

"""`LinkHistory`: values of pairs of nodes by earlier links, repeats and replies; and of each node."""

from __future__ import annotations

from typing import NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.links import Links
from a3gnn.storage.compiled import njit, readonly
from a3gnn.task import Task

#: Values of a pair in one list of last links, and of a node's links in one direction.
_OF_LIST, _OF_NODE = 4, 3
#: Divides logarithms of numbers of links, so that all values are about as large: e**8 is 3,000 links.
_SCALE = 8.0
#: The link whose place tells how often a node has had links of late, from the last: a
#: hyperparameter, which no tune searches.
_RECENT = 10


class Rows(NamedTuple):
    """The links of each node at one end, in the order of time.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        numbers: The numbers of the links, int32, shape (num_links,), ascending in each row.
        others: Their nodes at the other end, int32.
    """

    indptr: NDArray[np.int64]
    numbers: NDArray[np.int32]
    others: NDArray[np.int32]

    @classmethod
    def of(cls, links: Links, end: int) -> Self:
        """Returns the links of the sources if `end` is 0, of the targets if it is 1."""
        own, others = links.pairs[end], links.pairs[1 - end]
        order = np.argsort(own, kind="stable").astype(np.int32)
        indptr = np.searchsorted(own[order], np.arange(links.num_nodes[end] + 1))
        return cls(readonly(indptr), readonly(order), readonly(others[order]))


#: Shared by training and evaluation.
_rows: WeakKeyDictionary[Links, tuple[Rows, Rows]] = WeakKeyDictionary()


class LinkHistory(NamedTuple):
    """Counts pairs among the last links of both ends (as DyGFormer's co-occurrences; Yu et al., 2023, section 3.2).

    Links are in the order of time, so the links before a time are the first `known` ones. Ages are counted in links,
    so they have no unit.
    """

    sources: Rows  # the links of each source
    targets: Rows  # the links of each target
    last: int  # most links of a node in one direction that are looked through
    is_mutual: bool  # whether both ends have the same type, so that links go back, too

    @classmethod
    def read_by(cls, task: Task, links: Links) -> Self | None:
        """Returns what the task's model reads; None if it reads none, or `links` have no times."""
        if links.ranks is None or not task.pair_history:
            return None
        return cls.of(links, task.pair_history)

    @classmethod
    def of(cls, links: Links, last: int) -> Self:
        """Returns the history of `links`, which have times."""
        if links not in _rows:
            _rows[links] = Rows.of(links, 0), Rows.of(links, 1)
        return cls(*_rows[links], last, links.ends[0] == links.ends[1])

    def of_pairs(
        self, heads: NDArray[np.int64], tails: NDArray[np.int64], known: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns the values of pairs by the first `known` links, float32, shape (num_pairs, `pair_columns`).

        All are 0 for a pair without history. Of the last links of the head in which the tail is the target, these are:
        log(1 + count); the share of these last links; 1 / the place of the latest from the end; log(1 + links since).
        Then the same of the last links of the tail. If the types are equal, then both for links back from the tail to
        the head.

        Args:
            heads: Sources, shape (num_pairs,).
            tails: Targets.
            known: How many of the first links each pair sees.
        """
        lists = self.sources, self.targets
        values: NDArray[np.float32] = pair_values(heads, tails, known, *lists, self.last, self.is_mutual)
        return values

    def of_nodes(self, nodes: NDArray[np.int64], known: NDArray[np.int64], end: int) -> NDArray[np.float32]:
        """Returns the values of nodes by the first `known` links, float32, shape (num_nodes, `node_columns`).

        They are log(1 + links), and log(1 + links since) its last and its tenth to last, or its first one. If both ends
        have the same type, these are of the links as source, then as target.

        Args:
            nodes: Ids within their type.
            known: How many of the first links each sees.
            end: 0 for sources, 1 for targets.
        """
        rows = [self.sources, self.targets] if self.is_mutual else [(self.sources, self.targets)[end]]
        return np.concatenate([node_values(nodes, known, one) for one in rows], axis=1)

    def met(self, nodes: NDArray[np.int64], known: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the pairs that may have history: places in `nodes`, ascending, and distinct nodes of the other end.

        Args:
            nodes: Nodes of one end.
            known: How many of the first links they see.
            end: 0 if they are sources, 1 for targets.
        """
        own, other = (self.sources, self.targets)[:: 1 - 2 * end]
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]] = met_nodes(nodes, known, own, other, self.is_mutual)
        return pairs


def pair_columns(is_mutual: bool) -> int:
    """Returns the values of a pair; `is_mutual` as in `LinkHistory`."""
    return (4 if is_mutual else 2) * _OF_LIST


def node_columns(is_mutual: bool) -> int:
    """Returns the values of a node."""
    return 2 * _OF_NODE if is_mutual else _OF_NODE


@njit(cache=True, nogil=True)
def window(rows: Rows, node: int, known: int, last: int) -> tuple[int, int]:
    """Returns where the last links of `node` among the first `known` begin and end, at most `last` of them."""
    first = rows.indptr[node]
    end = first + np.searchsorted(rows.numbers[first : rows.indptr[node + 1]], known)
    return max(first, end - last), end


@njit(cache=True, nogil=True)
def write_list(found: NDArray[np.float32], rows: Rows, node: int, other: int, known: int, last: int) -> None:
    """Writes the values of `other` among the last links of `node` into `found`."""
    begin, end = window(rows, node, known, last)
    count, latest = 0, -1
    for place in range(end - 1, begin - 1, -1):
        if rows.others[place] == other:
            if count == 0:
                latest = place
            count += 1
    if count:
        found[0] = np.log1p(count)
        found[1] = count / (end - begin)
        found[2] = 1.0 / (end - latest)
        found[3] = np.log1p(known - rows.numbers[latest]) / _SCALE


@njit(cache=True, nogil=True)
def pair_values(
    heads: NDArray[np.int64],
    tails: NDArray[np.int64],
    known: NDArray[np.int64],
    sources: Rows,
    targets: Rows,
    last: int,
    is_mutual: bool,
) -> NDArray[np.float32]:
    """Returns the values of pairs; see `LinkHistory.of_pairs`."""
    lists = 4 if is_mutual else 2
    found = np.zeros((len(heads), lists * _OF_LIST), dtype=np.float32)
    for i in range(len(heads)):
        head, tail, until = heads[i], tails[i], known[i]
        write_list(found[i], sources, head, tail, until, last)
        write_list(found[i, _OF_LIST:], targets, tail, head, until, last)
        if is_mutual:
            write_list(found[i, 2 * _OF_LIST :], targets, head, tail, until, last)
            write_list(found[i, 3 * _OF_LIST :], sources, tail, head, until, last)
    return found


@njit(cache=True, nogil=True)
def node_values(nodes: NDArray[np.int64], known: NDArray[np.int64], rows: Rows) -> NDArray[np.float32]:
    """Returns the values of nodes in one direction; see `LinkHistory.of_nodes`."""
    found = np.zeros((len(nodes), _OF_NODE), dtype=np.float32)
    for i in range(len(nodes)):
        begin, end = window(rows, nodes[i], known[i], _RECENT)
        if end > begin:
            found[i, 0] = np.log1p(end - rows.indptr[nodes[i]]) / 2
            found[i, 1] = np.log1p(known[i] - rows.numbers[end - 1]) / _SCALE
            found[i, 2] = np.log1p(known[i] - rows.numbers[begin]) / _SCALE
    return found


@njit(cache=True, nogil=True)
def met_nodes(
    nodes: NDArray[np.int64], known: int, own: Rows, other: Rows, is_mutual: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs that may have history; see `LinkHistory.met`."""
    marks, size = np.full(len(other.indptr), -1, dtype=np.int64), len(other.indptr) - 1
    places, found, count = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64), 0
    for i in range(len(nodes)):
        if count + size > len(found):
            places, found = grown(places, count + size), grown(found, count + size)
        for rows in (own, other) if is_mutual else (own, own):
            begin, end = window(rows, nodes[i], known, len(rows.numbers))
            for near in rows.others[begin:end]:
                if marks[near] != i:
                    marks[near], places[count], found[count] = i, i, near
                    count += 1
    return places[:count], found[:count]


@njit(cache=True, nogil=True)
def grown(array: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Returns `array` with room for at least `size` entries."""
    longer = np.empty(max(size, 2 * len(array)), dtype=array.dtype)
    longer[: len(array)] = array
    return longer

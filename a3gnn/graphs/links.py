"""`Links`: the pairs of nodes that a link task predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.schema import Relation, Schema

#: The name in a target that stands for all relations of its types.
EVERY = "*"


def value_in(kind: str) -> tuple[str, str]:
    """Returns a target without the name of the values of edges that it ends with, and this name, or ""."""
    source, comma, end = kind.rpartition(",")
    end, _, value = end.partition("=") if comma else (end, "", "")
    return f"{source}{comma}{end}", value


def is_predicted(relation: Sequence[str], target: str) -> bool:
    """Returns whether `target`, such as `user,rates,item` or `node,*,node`, names `relation`; `*` names no reverse."""
    source, name, end = value_in(target)[0].split(",")
    ends = (relation[0], relation[2]) == (source, end)
    return ends and (name == relation[1] or (name == EVERY and not relation[1].startswith("rev_")))


@dataclass(frozen=True, eq=False)
class Links:
    """The true pairs of the predicted relations: the examples of a link task, which its train, val and test ids count.

    If `valued`, the labels of the graph are values of the pairs, which are predicted in place of the pairs themselves.

    A query is one end of a pair and its relation; its candidates are all nodes of the other end's type. Where both ends
    have the same type, each pair is ranked in both directions.

    Attributes:
        relations: The predicted relations, all between the same types.
        num_nodes: Nodes of the source and of the target type.
        pairs: Sources and targets as ids within their types, int32, shape (2, num_pairs).
        kinds: The relation of each pair as a place in `relations`, int32, shape (num_pairs,).
        mirrors: Other relations of the graph that show pairs of a predicted one (`link_split`), as a place in the
            schema's relations and one in `relations`.
        valued: Whether values of the pairs are predicted.
        ranks: The rank of each pair's time among all times of edges (`EdgeTimes`), int32, ascending: a pair sees edges
            of lower ranks alone. None without times.
    """

    relations: tuple[Relation, ...]
    num_nodes: tuple[int, int]
    pairs: NDArray[np.int32]
    kinds: NDArray[np.int32]
    mirrors: tuple[tuple[int, int], ...] = ()
    valued: bool = False
    ranks: NDArray[np.int32] | None = None

    @classmethod
    def of(
        cls,
        schema: Schema,
        target: str,
        pairs: NDArray[np.int32],
        kinds: NDArray[np.int32],
        mirrors: Iterable[Sequence[int]] = (),
        ranks: NDArray[np.int32] | None = None,
    ) -> Self:
        """Returns the pairs of the relations of `target` in `schema`; see the class for the other arguments."""
        relations = tuple(one for one in schema.relations if is_predicted(one, target))
        source, target_type = relations[0].source, relations[0].target
        places = tuple((place, kind) for place, kind in mirrors)
        num_nodes = schema.counts[source], schema.counts[target_type]
        return cls(relations, num_nodes, pairs, kinds, places, bool(value_in(target)[1]), ranks)

    @property
    def ends(self) -> tuple[str, str]:
        """The types of the sources and the targets."""
        return self.relations[0].source, self.relations[0].target

    @property
    def of_types(self) -> tuple[int, ...]:
        """The nodes of each type that is an end, the sources' first."""
        return self.num_nodes[: len(set(self.ends))]

    @property
    def directions(self) -> tuple[bool, ...]:
        """Whether queries are heads, the sources, for each direction that is ranked."""
        return (True, False) if self.ends[0] == self.ends[1] else (True,)

    def num_queries(self, are_heads: bool) -> int:
        """Returns the number of queries of a direction."""
        return len(self.relations) * self.num_nodes[0 if are_heads else 1]

    def num_candidates(self, are_heads: bool) -> int:
        """Returns the number of candidates of each query."""
        return self.num_nodes[1 if are_heads else 0]

    def queries(self, ids: NDArray[np.integer], are_heads: bool) -> NDArray[np.int64]:
        """Returns the pairs `ids` as queries and candidates, int64, shape (2, n)."""
        own, other = self.pairs[:, ids] if are_heads else self.pairs[::-1, ids]
        return np.stack([self.kinds[ids] * np.int64(self.num_nodes[0 if are_heads else 1]) + own, other])

    def at_once(self, ids: NDArray[np.integer], are_heads: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns queries at their times, and the pairs of these times, so that others are no true pairs of a query.

        Args:
            ids: Pairs with times, at least one.
            are_heads: Whether queries are heads.

        Returns:
            The query of each distinct (query, time), shape (n,). The pairs `ids` as places there and candidates, then
            all other pairs of the times of `ids`, int64, shape (2, num_pairs).
        """
        assert self.ranks is not None, "pairs have times"
        low, high = np.searchsorted(self.ranks, [self.ranks[ids].min(), self.ranks[ids].max() + 1])
        near = np.arange(low, high)[np.isin(self.ranks[low:high], self.ranks[ids])]
        every = np.concatenate([ids, np.setdiff1d(near, ids)])
        queries, candidates = self.queries(every, are_heads)
        (_, distinct), place = np.unique(np.stack([self.ranks[every], queries]), axis=1, return_inverse=True)
        return distinct, np.stack([place, candidates])

    def first_nodes(self, schema: Schema) -> tuple[int, int]:
        """Returns the ids, through all types, of the first source and the first target."""
        first, second = (schema.first_node(kind) for kind in self.ends)
        return first, second

    def of_whole_queries(self, ids: NDArray[np.int32], most: int, seed: int) -> NDArray[np.int32]:
        """Returns `ids`, or all `ids` of some queries, drawn by `seed`: about `most`, at least one query."""
        if len(ids) <= most:
            return ids
        queries = self.queries(ids, True)[0]
        distinct, place, sizes = np.unique(queries, return_inverse=True, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(distinct))
        chosen = np.zeros(len(distinct), dtype=np.bool_)
        chosen[order[: max(1, int(np.searchsorted(sizes[order].cumsum(), most, side="right")))]] = True
        return ids[chosen[place]]

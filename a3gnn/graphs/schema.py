"""`Schema`: a graph's node types and relations, and where their nodes and rows lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.storage.compiled import readonly

#: The largest number of nodes and of rows, because their ids are int32.
MOST_IDS = 2**31 - 1


class Relation(NamedTuple):
    """A type of edges: from nodes of the type `source` to nodes of the type `target`."""

    source: str
    name: str
    target: str


@dataclass(frozen=True, eq=False)
class Schema:
    """Node types and relations. A graph without types has one of each, and its relation has an empty name.

    Node ids count through all types, one type after another. A node has a row of in-neighbors for each relation into
    its type; its rows lie side by side, node after node.

    Attributes:
        types: Names of the node types.
        num_nodes: Nodes of each type.
        relations: Grouped by target type, in the order of `types`.

    Raises:
        GraphError: A relation names an unknown type or occurs twice, or there are more than 2**31 - 1 nodes or rows.
    """

    types: tuple[str, ...]
    num_nodes: tuple[int, ...]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        for relation in self.relations:
            for end in (relation.source, relation.target):
                if end not in self.types:
                    raise GraphError(
                        f"a relation must connect known types, {'__'.join(relation)} names {end!r}; the types are "
                        f"{', '.join(self.types)}"
                    )
        if len(set(self.relations)) < len(self.relations):
            raise GraphError(f"relations must be distinct, got {['__'.join(one) for one in self.relations]}")
        counts = {"nodes": int(self.layout[0, -1]), "rows, one per node and relation into its type,": self.num_rows}
        for name, count in counts.items():
            if count > MOST_IDS:
                raise GraphError(f"a graph must have at most {MOST_IDS} {name} got {count}; merge or drop relations")

    @classmethod
    def of(cls, num_nodes: Mapping[str, int], relations: Sequence[Relation]) -> Self:
        """Returns the schema of the types in `num_nodes`; a relation within a group keeps its place in `relations`."""
        types = tuple(num_nodes)
        known = [one for one in relations if one.target in num_nodes]
        grouped = sorted(known, key=lambda one: types.index(one.target))
        return cls(types, tuple(num_nodes.values()), (*grouped, *(one for one in relations if one not in known)))

    @classmethod
    def untyped(cls, num_nodes: int) -> Self:
        """Returns the schema of a graph of `num_nodes` nodes without types."""
        return cls(("",), (num_nodes,), (Relation("", "", ""),))

    @cached_property
    def layout(self) -> NDArray[np.int64]:
        """The first node, row and relation of each type, then their numbers, int64, shape (3, num_types + 1)."""
        into = [sum(one.target == kind for one in self.relations) for kind in self.types]
        rows = [count * number for count, number in zip(self.num_nodes, into, strict=True)]
        layout = np.zeros((3, len(self.types) + 1), dtype=np.int64)
        layout[:, 1:] = np.cumsum(np.array([self.num_nodes, rows, into], dtype=np.int64).reshape(3, -1), axis=1)
        return readonly(layout)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """What tells apart the random numbers of each relation, uint64, by its name alone: 0 for a graph without types.

        Two relations of one graph with equal hashes of 32 bits would draw alike, so the later one takes the next bits.
        """
        words: list[int] = []
        for relation in self.relations:
            digest = int.from_bytes(blake2b("__".join(relation).encode(), digest_size=32).digest(), "little")
            while (word := digest & 0xFFFFFFFF) in (0, *words):
                digest >>= 32
            words.append(0 if self.is_untyped else word)
        return readonly(np.array(words, dtype=np.uint64))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Nodes of each type."""
        return dict(zip(self.types, self.num_nodes, strict=True))

    @property
    def is_untyped(self) -> bool:
        """Whether the graph has no types."""
        return self.relations == (Relation("", "", ""),)

    @property
    def num_rows(self) -> int:
        """Rows: one per node and relation into its type."""
        return int(self.layout[1, -1])

    def first_node(self, kind: str) -> int:
        """Returns the id of the first node of the type `kind`."""
        return int(self.layout[0, self.types.index(kind)])

    def rows(self, relation: int, targets: NDArray[np.integer]) -> NDArray[np.integer]:
        """Returns the rows of `targets`, ids within their type, for the relation with the number `relation`."""
        kind = self.types.index(self.relations[relation].target)
        first, width = self.layout[1, kind], self.layout[2, kind + 1] - self.layout[2, kind]
        place = relation - self.layout[2, kind]
        return targets if first == place == 0 and width == 1 else first + targets.astype(np.int64) * width + place

    def rows_of(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the rows of `nodes`, ids through all types, node by node; the nodes themselves without types."""
        if self.is_untyped:
            return nodes
        places, relations = self.row_table(nodes)
        kinds = np.searchsorted(self.layout[0, 1:], nodes, side="right")[places]
        first_node, first_row, first_relation = self.layout[:, kinds]
        width = self.layout[2, kinds + 1] - first_relation
        rows = first_row + (nodes[places] - first_node) * width + relations - first_relation
        return np.asarray(rows, dtype=np.int32)

    def row_table(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the place in `nodes` and the relation of each of their rows, int32, shape (2, num_rows)."""
        kinds = np.searchsorted(self.layout[0, 1:], nodes, side="right")
        width = np.diff(self.layout[2])[kinds]
        first = self.layout[2, kinds] - width.cumsum() + width
        places = np.repeat(np.arange(len(nodes)), width)
        return np.stack([places, first[places] + np.arange(len(places))]).astype(np.int32)

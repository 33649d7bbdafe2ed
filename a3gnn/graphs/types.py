"""`Types`: what a graph with node types and relations has besides its nodes and edges; `GraphTypes` for its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.edges import EdgeTimes
from a3gnn.graphs.features import DenseFeatures, SparseFeatures, features_from
from a3gnn.graphs.links import Links, value_in
from a3gnn.graphs.schema import Relation, Schema


class GraphTypes(NamedTuple):
    """What a model of a graph with types is built for; the first argument of its factory.

    Attributes:
        in_channels: Columns of the features of each type that has features.
        num_nodes: Nodes of each type. `x_dict` has the ids of the nodes of a type without features, int64, for an
            embedding of so many rows.
        metadata: PyG's: the node types, and the relations as (source type, name, target type).
        target: The type whose nodes are predicted, or the relation whose links are, such as `user,rates,item`, or
            values of its edges, such as `user,rates,item=edge_weight`.
        edge_values: Columns of the values of edges by their name, edge_attr or edge_weight, and the relations that have
            them.
        has_times: Whether links see earlier edges alone. `forward` may then take `edge_age_dict`, too: the time from
            each edge to the link, float32, shape (num_edges,) of each relation with times, in the order of its
            edge_index.
    """

    in_channels: dict[str, int]
    num_nodes: dict[str, int]
    metadata: tuple[list[str], list[tuple[str, str, str]]]
    target: str
    edge_values: Mapping[str, dict[tuple[str, str, str], int]] = MappingProxyType({})
    has_times: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields = {**self._asdict(), "metadata": [self.metadata[0], [list(one) for one in self.metadata[1]]]}
        values = {name: [[*one, width] for one, width in of.items()] for name, of in fields.pop("edge_values").items()}
        later = {"edge_values": values, "has_times": fields.pop("has_times")}
        return fields | {name: one for name, one in later.items() if one}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the types of `to_dict`."""
        types, relations = fields["metadata"]
        values = {
            name: {(source, called, target): width for source, called, target, width in of}
            for name, of in fields.get("edge_values", {}).items()
        }
        metadata = list(types), [tuple(one) for one in relations]
        return cls(**{**fields, "metadata": metadata, "edge_values": values})

    @property
    def has_links(self) -> bool:
        """Whether links or values of edges are predicted, not nodes."""
        return "," in self.target

    @property
    def predicted(self) -> tuple[str, ...]:
        """The types whose rows a model returns: the target, or both ends of links."""
        return tuple(dict.fromkeys(value_in(self.target)[0].split(",")[::2]))

    @property
    def num_embedded(self) -> dict[str, int]:
        """Nodes of each type that has a row of weights per node: without features, or at an end of links."""
        ends = self.predicted if self.has_links else ()
        return {kind: n for kind, n in self.num_nodes.items() if kind not in self.in_channels or kind in ends}

    @property
    def width(self) -> int:
        """The most columns of a type's features."""
        return max([0, *self.in_channels.values()])


@dataclass(frozen=True, eq=False)
class Types:
    """The types of a graph. Its nodes count through all types, one type after another.

    Attributes:
        schema: Types and relations.
        rows: Pointers of the rows of `Schema` into the graph's `indices`, int64, shape (num_rows + 1,).
        features: The features of each type; None for a type without any.
        links: The links that are predicted, or the edges whose values are; None if nodes are.
        edge_columns: Columns of each relation's values of edges by their name; 0 for a relation without any. The
            graph's values have the most of a relation, and zeros beyond the others'.
        times: When each of the graph's edges can be seen, if links see earlier edges alone. Edges of a row are in the
            order of time then, and may repeat.
    """

    schema: Schema
    rows: NDArray[np.int64]
    features: tuple[DenseFeatures | SparseFeatures | None, ...]
    target: str
    links: Links | None = None
    edge_columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    times: EdgeTimes | None = None

    @property
    def for_model(self) -> GraphTypes:
        """What a model is built for."""
        named = zip(self.schema.types, self.features, strict=True)
        columns = {kind: one.shape[1] for kind, one in named if one is not None}
        relations = [(one.source, one.name, one.target) for one in self.schema.relations]
        metadata = list(self.schema.types), relations
        values = {
            name: {one: width for one, width in zip(relations, widths, strict=True) if width}
            for name, widths in self.edge_columns.items()
        }
        return GraphTypes(columns, self.schema.counts, metadata, self.target, values, self.times is not None)

    @property
    def first(self) -> int:
        """The id of the first node of the target type."""
        return self.schema.first_node(self.target)

    @property
    def num_targets(self) -> int:
        """Nodes of the target type."""
        return self.schema.counts[self.target]

    @property
    def row_ends(self) -> NDArray[np.int64]:
        """Pointers to the in-neighbors of each node in all relations, int64, shape (num_nodes + 1,)."""
        first, row, relation = self.schema.layout
        ends = [
            self.rows[low:high:width] if width else np.full(count, self.rows[low])
            for low, high, width, count in zip(row, row[1:], np.diff(relation), np.diff(first), strict=False)
        ]
        return np.concatenate([*ends, self.rows[-1:]])

    @property
    def nbytes(self) -> int:
        """Bytes of all features as stored."""
        return sum(one.nbytes for one in self.features if one is not None)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays by their names in a converted folder."""
        named = {
            f"{name}_{place}": array
            for place, one in enumerate(self.features)
            if one is not None
            for name, array in one.arrays().items()
        }
        links = {} if self.links is None else {"pairs": self.links.pairs, "pair_kinds": self.links.kinds}
        if self.times is not None and self.links is not None and self.links.ranks is not None:
            links["pair_ranks"] = self.links.ranks
            links |= {f"time_{name}": array for name, array in self.times._asdict().items()}
        return {"rows": self.rows, **links, **named}

    def to_dict(self) -> dict[str, Any]:
        """Returns all but the arrays as JSON types."""
        schema = self.schema
        return {
            "types": list(schema.types),
            "num_nodes": list(schema.num_nodes),
            "relations": [list(one) for one in schema.relations],
            "target": self.target,
            **(
                {"edge_columns": {name: list(of) for name, of in self.edge_columns.items()}}
                if self.edge_columns
                else {}
            ),
            **({} if self.links is None else {"mirrors": [list(one) for one in self.links.mirrors]}),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Returns the types of `to_dict` and `arrays`."""
        relations = tuple(Relation(*one) for one in fields["relations"])
        schema = Schema(tuple(fields["types"]), tuple(fields["num_nodes"]), relations)
        features = []
        for place in range(len(schema.types)):
            end = f"_{place}"
            own = {
                name.removesuffix(end): one for name, one in arrays.items() if name[:1] == "x" and name.endswith(end)
            }
            features.append(features_from(own) if own else None)
        links, times = None, None
        if "pairs" in arrays:
            given = arrays["pairs"], arrays["pair_kinds"], fields.get("mirrors", ()), arrays.get("pair_ranks")
            links = Links.of(schema, fields["target"], *given)
        if "time_ranks" in arrays:
            times = EdgeTimes(*(arrays[f"time_{name}"] for name in EdgeTimes._fields))
        columns = {name: tuple(widths) for name, widths in fields.get("edge_columns", {}).items()}
        return cls(schema, arrays["rows"], tuple(features), fields["target"], links, columns, times)

"""`GraphCharacteristics`: the numbers that describe a graph to the surrogate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from a3gnn._fields import Stored
from a3gnn.metric import Target

#: Shares of the nodes at which `GraphCharacteristics.cached_edge_mass` is known. Nodes are ranked by how often they are
#: in-neighbors, hottest first. Stored graphs and surrogates have them.
CACHE_FRACTIONS: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8)

#: Bytes per node of the map from node ids to cached rows, which is part of `cache_bytes`.
CACHE_INDEX_BYTES = 4
#: Most bytes that the policy ahead takes for blocks under way and counts, unless a row has more than a block; and bytes
#: per row beside the row: its last mini-batch, and its place among the free ones (`a3gnn.features.ahead`).
AHEAD_BYTES, AHEAD_ROW_BYTES = 13 << 20, 8


@dataclass(frozen=True, slots=True)
class GraphCharacteristics(Stored):
    """A graph in numbers. Degrees are in-degrees; edges are directed.

    Attributes:
        name: The graph's name, for people.
        fingerprint: Hash of its content: equal for equal graphs wherever they are stored.
        num_nodes: Nodes.
        num_edges: Directed edges.
        mean_degree: Mean in-degree.
        p95_degree: 95th percentile of the in-degree.
        max_degree: Largest in-degree.
        degree_gini: Gini coefficient of the in-degrees, 0 (all equal) to 1.
        num_features: Columns of the feature matrix.
        feature_density: Share of stored entries; 1 for dense features.
        feature_bytes: Bytes of the feature matrix as stored.
        row_bytes: Mean bytes of a feature row in the feature store, and so of one cached row.
        sparse_features: Whether the features are CSR.
        num_classes: Outputs of a model per node: the number of classes or labels, or 1 for values.
        num_train: Train seeds.
        num_val: Validation nodes.
        num_test: Test nodes.
        label_rate: Train seeds per node.
        homophily: Share of the edges between labeled nodes that join equal labels; 0 if labels are not classes.
        num_components: Weakly connected components.
        largest_component: Share of the nodes in the largest one.
        cached_edge_mass: Share of the edges whose source is one of the hottest nodes, at `CACHE_FRACTIONS`.
        target: Kind of labels: classes, several labels per node, or values (`a3gnn.graphs.labels`).
        label_spread: For values, the mean absolute difference of train labels from their median; None for others.
        relations: Relations, each with fanouts of its own; 0 for a graph without types. Nodes, edges and degrees are
            those of all types and relations then, and `num_features` is the largest of a type.
        rows_per_node: Relations in which a node with in-neighbors has some, mean; 1 for a graph without types.
        ends: Nodes of each type that predicted links join, the sources' first: one number if both ends have the same
            type; empty if nodes are predicted. Train, validation and test seeds are links, then.
    """

    name: str
    fingerprint: str
    num_nodes: int
    num_edges: int
    mean_degree: float
    p95_degree: float
    max_degree: int
    degree_gini: float
    num_features: int
    feature_density: float
    feature_bytes: int
    row_bytes: float
    sparse_features: bool
    num_classes: int
    num_train: int
    num_val: int
    num_test: int
    label_rate: float
    homophily: float
    num_components: int
    largest_component: float
    cached_edge_mass: tuple[float, ...]
    target: Target = "classes"
    label_spread: float | None = None
    relations: int = 0
    rows_per_node: float = 1.0
    ends: tuple[int, ...] = ()

    def cached_mass(self, cache_bytes: np.ndarray | float, row_bytes: np.ndarray | float | None = None) -> np.ndarray:
        """Returns the share of the edges whose source is in a static cache of `cache_bytes`, float64, in [0, 1].

        It is interpolated between `CACHE_FRACTIONS`. `row_bytes` is the size of a row, by default that of a feature
        row. The cache holds the nodes that are in-neighbors most often (PaGraph's degree).
        """
        for_rows = np.asarray(cache_bytes, dtype=np.float64) - CACHE_INDEX_BYTES * self.num_nodes
        of_rows = np.maximum((self.row_bytes if row_bytes is None else row_bytes) * self.num_nodes, 1.0)
        fraction = np.clip(for_rows / of_rows, 0.0, 1.0)
        known = np.concatenate([[0.0], CACHE_FRACTIONS, [1.0]])
        mass = np.concatenate([[0.0], self.cached_edge_mass, [1.0]])
        return np.asarray(np.interp(fraction, known, mass))

    @property
    def value_bytes(self) -> int:
        """Bytes of a stored feature: 4 (float32) or 2 (float16)."""
        entries = max(self.num_nodes * self.num_features * self.feature_density, 1.0)
        if self.sparse_features:
            return round((self.feature_bytes - 8 * (self.num_nodes + 1)) / entries) - 4
        return round(self.feature_bytes / entries)

    def table_row_entries(self, model: str) -> float:
        """Returns the expected stored entries per row of the input layer's table (input_aggregation full).

        If each column of a row is stored with probability p, a sum of d rows stores a share 1 - (1 - p) ** d of the
        columns. Tables of sparse features have down to half of that, because neighbors' rows are more alike and degrees
        differ.
        """
        summed = self.mean_degree + (model != "sage")  # sage keeps a node's own row apart from the mean
        share = 1 - (1 - self.feature_density) ** summed if self.sparse_features else 1.0
        return self.num_features * (share + self.feature_density * (model == "sage"))

    def table_bytes(self, model: str) -> float:
        """Returns the expected bytes of the input layer's table: float32, in CSR if features are sparse."""
        entries = self.table_row_entries(model)
        return self.num_nodes * (8 * entries + 8 if self.sparse_features else 4 * entries)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types, without those that are not needed: of other targets, and of types."""
        fields = dataclasses.asdict(self) | {"cached_edge_mass": list(self.cached_edge_mass)}
        if self.target == "classes":
            del fields["target"], fields["label_spread"]
        if not self.relations:
            del fields["relations"], fields["rows_per_node"]
        if not self.ends:
            del fields["ends"]
        return fields

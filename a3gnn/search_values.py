"""The values that a search tries of a knob, where they depend on the graph and the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from a3gnn.characteristics import CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.hardware import Hardware

Values = tuple[Any, ...]
#: The values that are tried of a knob on a graph and a machine, from those that its declaration lists.
SearchValues = Callable[[Values, GraphCharacteristics, Hardware], Values]

#: Shares of the feature rows that the cache may hold, beside none. Guess.
CACHE_SHARES: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8)
#: Times the features' bytes that a table of sparse rows may take, beyond which it is refused. Guess.
MOST_TABLE_GROWTH = 4
#: Stages that can each have cores of their own: with fewer cores there is nothing to isolate.
_ISOLATED_STAGES = 3
#: Ordering seeds by proximity traverses every edge before each trial: above so many edges, which take seconds, a search
#: tries it only if it is fixed (`--fix seed_order=proximity`). Guess.
_MAX_ORDERED_EDGES = 100_000_000


def only_where(condition: Callable[[GraphCharacteristics, Hardware], bool], otherwise: Values) -> SearchValues:
    """Returns the rule that tries all values where `condition` holds and `otherwise` elsewhere."""
    return lambda values, graph, hardware: values if condition(graph, hardware) else otherwise


def below_train_seeds(values: Values, graph: GraphCharacteristics, hardware: Hardware) -> Values:
    """Returns the batch sizes below the number of train seeds, and the largest.

    Of those that hold every train seed, which run identically, the largest stands for all: it is the default's, so that
    the default lies in the space.
    """
    return tuple(dict.fromkeys([*(size for size in values if size < graph.num_train), values[-1]]))


def up_to_the_cores(values: Values, graph: GraphCharacteristics, hardware: Hardware) -> Values:
    """Returns up to four numbers of workers, from 1 to 4 or to the cores where there are more."""
    return tuple(int(n) for n in np.geomspace(1, max(4, hardware.num_cores), 4).round())


def shares_of_the_rows(values: Values, graph: GraphCharacteristics, hardware: Hardware) -> Values:
    """Returns no bytes, and the bytes of a cache for each of `CACHE_SHARES` of the feature rows and for its index."""
    rows, index = graph.row_bytes * graph.num_nodes, CACHE_INDEX_BYTES * graph.num_nodes
    return (0, *(int(share * rows + index) for share in CACHE_SHARES))


def has_device(graph: GraphCharacteristics, hardware: Hardware) -> bool:
    """Returns whether there is an accelerator."""
    return hardware.has_device


def has_dense_rows(graph: GraphCharacteristics, hardware: Hardware) -> bool:
    """Returns whether dynamic caches can hold the rows: no store has one of sparse rows."""
    return not graph.sparse_features


def is_quickly_ordered(graph: GraphCharacteristics, hardware: Hardware) -> bool:
    """Returns whether ordering the seeds by proximity takes seconds at most."""
    return graph.num_edges <= _MAX_ORDERED_EDGES


def has_cores_to_isolate(graph: GraphCharacteristics, hardware: Hardware) -> bool:
    """Returns whether each stage can have cores of its own."""
    return hardware.num_cores >= _ISOLATED_STAGES

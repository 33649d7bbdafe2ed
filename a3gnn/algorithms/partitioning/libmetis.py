"""METIS with two constraints: as many nodes, and as many train nodes, in each part.

`pymetis.part_graph` has one constraint: given two weights per node it takes the first half of them for all nodes,
without an error. The library that it is built on has more, and is called here by ctypes.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.graphs.partitioning.metis import metis_seed

# METIS 5's metis.h: the number of options, and the status of success and of missing memory.
_NUM_OPTIONS, _OK, _NO_MEMORY = 40, 1, -3
# Up to so many parts METIS bisects, as pymetis does and METIS's manual advises; beyond, it cuts k ways at once.
_MOST_BISECTED = 8
_FUNCTIONS = "METIS_PartGraphRecursive", "METIS_PartGraphKway"


def has_two_constraints() -> bool:
    """Returns whether the installed pymetis lets METIS's functions be called: not where it hides its symbols."""
    return _library() is not None


def two_constraint_parts(
    both_ways: csr_array, is_train: NDArray[np.bool_], num_parts: int, seed: int
) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), by METIS with two weights per node.

    METIS aims at 1.03 times the mean in both at most, and doesn't always reach it.

    Args:
        both_ways: The symmetrised graph.
        is_train: Which nodes are train nodes, shape (num_nodes,); one at least.
        num_parts: At least 2.
        seed: METIS's.

    Raises:
        MemoryError: METIS had too little memory.
        RuntimeError: METIS refused the graph.
    """
    library = _library()
    assert library is not None
    internal = _internal()
    width = np.dtype(np.int64 if internal._idx_type_width() == 64 else np.int32)
    num_nodes = len(is_train)
    options = np.empty(_NUM_OPTIONS, dtype=width)
    library.METIS_SetDefaultOptions(_pointer(options))
    options[int(internal.options_indices.SEED)] = metis_seed(seed)
    weights = np.stack([np.ones(num_nodes, dtype=width), is_train.astype(width)], axis=1)
    starts, neighbours = both_ways.indptr.astype(width), both_ways.indices.astype(width)
    counts = [np.array([count], dtype=width) for count in (num_nodes, weights.shape[1], num_parts)]
    cut, parts = np.empty(1, dtype=width), np.empty(num_nodes, dtype=width)
    nodes, constraints, wanted = map(_pointer, counts)
    inputs = (nodes, constraints, _pointer(starts), _pointer(neighbours), _pointer(weights))
    status = getattr(library, _FUNCTIONS[num_parts > _MOST_BISECTED])(
        *inputs, None, None, wanted, None, None, _pointer(options), _pointer(cut), _pointer(parts)
    )
    if status == _NO_MEMORY:
        raise MemoryError("METIS could not allocate")
    if status != _OK:
        raise RuntimeError(f"METIS refused the graph with status {status}")
    return parts.astype(np.int32)


@cache
def _library() -> ctypes.CDLL | None:
    library = ctypes.CDLL(_internal().__file__)
    return library if all(hasattr(library, name) for name in _FUNCTIONS) else None


def _internal() -> Any:
    return import_module("pymetis._internal")


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)

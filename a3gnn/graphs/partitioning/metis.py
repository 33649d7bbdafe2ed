"""METIS: parts with few edges between them, for graphs whose adjacency fits in RAM several times over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from a3gnn.errors import MemoryLimitError
from a3gnn.graphs.arrays import GraphArrays

# METIS seeds C's srand, for which 0 and 1 are the same seed.
_NUM_SEEDS = 2**31 - 2


def metis_seed(seed: int) -> int:
    """Returns the seed for METIS, in [1, 2**31 - 2], from any `seed` >= 0."""
    return seed % _NUM_SEEDS + 1


def symmetrised(graph: GraphArrays) -> csr_array:
    """Returns the graph in METIS's form: each edge once in both directions, and no self loops."""
    targets = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), np.diff(graph.indptr))
    proper = targets != graph.indices  # METIS takes no self loops
    ones = np.ones(np.count_nonzero(proper), dtype=np.int8)
    one_way = coo_array((ones, (targets[proper], graph.indices[proper])), shape=(graph.num_nodes,) * 2).tocsr()
    return one_way + one_way.T.tocsr()


def out_of_memory(graph: GraphArrays, error: Exception, instead: str) -> MemoryLimitError:
    """Returns the error for METIS, or the preparation of its input, out of memory; `instead` names an alternative."""
    return MemoryLimitError(
        f"METIS needs the {graph.num_edges:,} edges of {graph.name} in RAM several times over and ran out of it "
        f"({error}); {instead}, or partition the graph on a larger machine"
    )


def metis_parts(graph: GraphArrays, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), cutting few edges of the symmetrised graph.

    Raises:
        MemoryLimitError: Memory ran out, for our copies of the adjacency or for METIS's.
    """
    try:
        return cut_by_metis(symmetrised(graph), num_parts, seed)
    except (MemoryError, RuntimeError) as error:  # on a valid graph, METIS raises for lack of memory only
        raise out_of_memory(graph, error, "partitioner 'blocks' needs a few bytes per node") from error


def cut_by_metis(both_ways: csr_array, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node of a symmetrised graph, int32, shape (num_nodes,).

    Raises:
        MemoryError: Memory ran out.
        RuntimeError: It ran out in METIS.
    """
    import pymetis

    _, parts = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(both_ways.indptr, both_ways.indices),
        options=pymetis.Options(seed=metis_seed(seed)),
    )
    return np.asarray(parts, dtype=np.int32)

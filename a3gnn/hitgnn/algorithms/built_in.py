"""The built-in algorithms (HitGNN, Table I), by their names in `--algorithm`."""

from __future__ import annotations

from a3gnn.errors import unknown_name
from a3gnn.graphs.partition import random_parts
from a3gnn.hitgnn.algorithms import ALGORITHM_NAMES, AlgorithmName
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.p3 import PartialSums
from a3gnn.hitgnn.algorithms.partitioners import distdgl_partition, pagraph_partition
from a3gnn.hitgnn.algorithms.stored import by_dimension, by_out_degree, by_partition

#: METIS, balanced in nodes and in train nodes; each rank stores its part (Zheng et al., "DistDGL", 2020).
DISTDGL = Algorithm("distdgl", distdgl_partition, by_partition)
#: Greedily balanced train nodes; each rank stores the nodes of the highest out-degree (Lin et al., "PaGraph", 2020).
PAGRAPH = Algorithm("pagraph", pagraph_partition, by_out_degree)

#: Train nodes divided at random; each rank stores some columns of all rows (Gandhi and Iyer, "P3", 2021).
P3 = Algorithm("p3", random_parts, by_dimension, PartialSums)

ALGORITHMS: dict[AlgorithmName, Algorithm] = {"distdgl": DISTDGL, "pagraph": PAGRAPH, "p3": P3}


def named(name: str) -> Algorithm:
    """Returns the built-in algorithm of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHM_NAMES)
    return ALGORITHMS[name]

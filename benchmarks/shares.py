"""What each of N ranks has to gather and train of a mini-batch whose seeds they share (docs/many_machines.md).

    python -m benchmarks.shares GRAPH [--ranks 2 8 64 512] [--batch-size 1024] [--fanouts 25 10] [--batches 3]

Prints, as JSON, the share of a mini-batch's input rows that the seeds of one rank reach: of the rank that has most,
for the others wait for it, as a mean over mini-batches. GRAPH is the name of a file in the folder of real graphs
($A3GNN_DATA), or anything that `Graph.load` takes.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise

import numpy as np

from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.seeding import generator
from benchmarks.engine.graphs import spec_of


def largest_share(subgraph: Subgraph, ranks: int) -> float:
    """Returns the share of a mini-batch's nodes that the seeds of one rank reach, of the rank with most, in (0, 1]."""
    bounds = np.linspace(0, subgraph.num_seeds, ranks + 1).round().astype(int)
    return max(share(subgraph, first, last) for first, last in pairwise(bounds))


def share(subgraph: Subgraph, first: int, last: int) -> float:
    """Returns the share of a mini-batch's nodes that its seeds from `first` to before `last` reach, in [0, 1]."""
    reached = np.zeros(subgraph.num_nodes, dtype=bool)
    reached[first:last] = True
    for num_rows in subgraph.hop_sizes[:-1]:
        from_reached = np.repeat(reached[:num_rows], np.diff(subgraph.indptr[: num_rows + 1]))
        reached[subgraph.indices[: len(from_reached)][from_reached]] = True
    return float(reached.mean())


def main() -> None:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description="What each rank has of a mini-batch.")
    parser.add_argument("graph", metavar="GRAPH")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8, 64, 512])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[25, 10])
    parser.add_argument("--batches", type=int, default=3)
    options = parser.parse_args()
    graph = Graph.load(spec_of(options.graph))
    sampler = NeighbourSampler(graph.indptr, graph.indices, options.fanouts, seed=0)
    order = generator(0, "shares").permutation(graph.train_ids)
    batches = [
        sampler.sample(order[at * options.batch_size : (at + 1) * options.batch_size].astype(np.int32), 0, at)
        for at in range(options.batches)
    ]
    found = {str(n): round(float(np.mean([largest_share(one, n) for one in batches])), 4) for n in options.ranks}
    print(json.dumps({"shares": found, "nodes": float(np.mean([one.num_nodes for one in batches]))}))


if __name__ == "__main__":
    main()

"""Times the exact ranking of all candidates for a set's test pairs, with its memory, and ranks heuristics beside it.

    python -m benchmarks.ranking GRAPH.npz [--relation SOURCE__NAME__TARGET] [--columns 200] [--block 64MiB]

The scores are dot products of random rows, so their quality is chance; those of heuristics are real. Without
`--relation`, all relations of a graph with one type are ranked, both sides, as knowledge graphs are judged.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from a3gnn import rank_pairs
from a3gnn.evaluation.heuristics import item_neighbors, popularity
from a3gnn.evaluation.ranking import Ranks
from a3gnn.graphs.typed import read_hetero
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.units import format_size

TRAIN, TEST = 0, 2


def main() -> None:
    """Prints a line for the dot products, and one for each heuristic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--relation")
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--block", default="64MiB")
    options = parser.parse_args()
    data = read_hetero(options.graph)
    kinds = [kind for kind in data.edge_types if options.relation in (None, "__".join(kind))]
    kinds = [kind for kind in kinds if "edge_split" in data[kind]]
    sides = [(one, row) for one in kinds for row in ((0, 1) if options.relation is None else (0,))]
    torch.manual_seed(0)
    rows = {kind: torch.randn(data[kind].num_nodes, options.columns) for kind in data.node_types}
    weights = {kind: torch.randn(options.columns) for kind in kinds}
    rank_pairs(lambda queries, candidates: torch.zeros(len(queries), len(candidates)), [[0], [0]], 2)  # compiles
    with MemoryGuard() as guard:
        idle, begin = guard.recent_bytes(), perf_counter()
        parts = []
        for kind, row in sides:
            queries, candidates = rows[kind[2 * row]] * weights[kind], rows[kind[2 - 2 * row]]
            pairs, split = data[kind].edge_index[[row, 1 - row]], data[kind].edge_split

            def score(ids: torch.Tensor, others: torch.Tensor, queries=queries, candidates=candidates) -> torch.Tensor:  # type: ignore[no-untyped-def]
                return queries[ids] @ candidates[int(others[0]) : int(others[-1]) + 1].T

            if (split == TEST).any():
                known = [pairs[:, split != TEST]]
                parts.append(rank_pairs(score, pairs[:, split == TEST], len(candidates), known, block=options.block))
        seconds, peak = perf_counter() - begin, guard.recent_bytes() - idle
    number = sum(len(part.filtered) for part in parts)
    print(
        f"dot products of {options.columns} random columns: {number:,} ranks in {seconds:.2f} s on {os.cpu_count()} "
        f"cores, {format_size(max(peak, 0))} above idle, MRR {_mean(parts):.4f}"
    )
    for name in ("popularity", "item neighbors") if options.relation is not None else ():
        ((kind, _),) = sides
        counts = data[kind[0]].num_nodes, data[kind[2]].num_nodes
        pairs, split = data[kind].edge_index, data[kind].edge_split
        train = pairs[:, split == TRAIN]
        heuristic = popularity(train, counts[1]) if name == "popularity" else item_neighbors(train, *counts)
        begin = perf_counter()
        ranks = rank_pairs(heuristic, pairs[:, split == TEST], counts[1], [pairs[:, split != TEST]])
        print(
            f"{name}: MRR {ranks.mrr:.4f}, hits@10 {ranks.hits(10):.4f}, recall@20 {ranks.recall(20):.4f}, NDCG@20 "
            f"{ranks.ndcg(20):.4f} in {perf_counter() - begin:.2f} s"
        )


def _mean(parts: list[Ranks]) -> float:
    return float((1 / np.concatenate([part.filtered for part in parts])).mean())


if __name__ == "__main__":
    main()

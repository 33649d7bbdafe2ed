"""Partitioners: the share of edges inside parts, expected and measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from a3gnn.config import Partitioner, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.kernels import cut_edges
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.volume import kept_edges
from benchmarks.engine.graphs import spec_of
from benchmarks.partitioners import PARTITIONERS

PARTS = (2, 4, 8)
#: Rounds, each with another seed: METIS's parts hardly depend on it.
_ROUNDS: dict[Partitioner, int] = {"metis": 1, "blocks": 3, "random": 1}


@dataclass(frozen=True, slots=True)
class Kept:
    """Edges inside parts as a share of all edges: measured (the median over seeds) and expected."""

    graph: str
    num_parts: int
    partitioner: str
    measured: float
    expected: float


def comparisons(spec: str) -> Iterator[Kept]:
    """Yields each partitioner with 2, 4 and 8 parts on the graph of `spec`."""
    graph = Graph.load(spec_of(spec))
    known = graph.characteristics()
    for num_parts in PARTS:
        for partitioner, rounds in _ROUNDS.items():
            made = [PARTITIONERS[partitioner](graph, num_parts, seed) for seed in range(rounds)]
            cut = statistics.median(cut_edges(graph.indptr, graph.indices, parts) for parts in made)
            config = TrainConfig(num_partitions=num_parts, partitioner=partitioner)
            yield Kept(
                spec,
                num_parts,
                partitioner,
                1 - cut / graph.num_edges,
                float(kept_edges(as_columns([config]), known)[0]),
            )


def tables(rows: Sequence[Kept]) -> list[Table]:
    """Returns a row per graph, measured / expected; and the errors."""
    names = list(_ROUNDS)
    by_cell = {(row.graph, row.num_parts, row.partitioner): row for row in rows}
    cells = Table("graph", *(f"{name} {num_parts}" for name in names for num_parts in PARTS))
    for graph in dict.fromkeys(row.graph for row in rows):
        own = (by_cell[graph, num_parts, name] for name in names for num_parts in PARTS)
        cells.add_row(graph.partition(",")[0], *(f"{row.measured:.2f}/{row.expected:.2f}" for row in own))
    errors = Table("partitioner", "edges kept off by", "at most", "on")
    for name in names:
        worst = max((row for row in rows if row.partitioner == name), key=_error)
        mean = statistics.fmean(_error(row) for row in rows if row.partitioner == name)
        errors.add_row(name, f"{mean:.3f}", f"{_error(worst):.2f}", worst.graph.partition(",")[0])
    return [cells, errors]


def _error(row: Kept) -> float:
    return abs(row.expected - row.measured)

"""Milliseconds per mini-batch of a typed graph: a3gnn's sampler and pyg-lib's, in turns, one thread.

    python -m benchmarks.typed_sampling GRAPH.npz ... [--fanouts 15 10] [--seeds 1024] [--batches 30] [--timed]
        [--json FILE]

A graph is an .npz file with node_types, num_nodes, edge_types and edge_index__TYPE; reverses of all relations are
added. Seeds are nodes of the type with the most in-edges. a3gnn's time is given twice: sampling alone, and with what a
`HeteroData` needs, which is ids per type, edge lists and edge ids per relation. pyg-lib returns both at once. With
`--timed`, each seed has a tree of its own and sees edges up to its time. Each mini-batch is sampled by each in turn, in
an order that alternates. Figures are medians over mini-batches, with the quartiles. pyg-lib must be installed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.graphs.edges import EdgeList, Edges
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.typed import by_type

Arm = Callable[[NDArray[np.int32], int], int]


class TypedGraph:
    """A graph of an .npz file, with the reverses of its relations."""

    def __init__(self, path: Path, timed: bool) -> None:
        with np.load(path, allow_pickle=False) as file:
            counts = dict(zip(map(str, file["node_types"]), file["num_nodes"].tolist(), strict=True))
            lists: dict[Relation, EdgeList] = {}
            for name in map(str, file["edge_types"]):
                source, middle, target = name.split("__")
                sources, targets = file[f"edge_index__{name}"]
                times = file[f"edge_time__{name}"] if timed and f"edge_time__{name}" in file else None
                lists[Relation(source, middle, target)] = EdgeList(sources, targets, times=times)
                lists[Relation(target, f"rev_{middle}", source)] = EdgeList(targets, sources, times=times)
        self.name, self.schema = path.stem, Schema.of(counts, list(lists))
        self.lists = [lists[relation] for relation in self.schema.relations]
        into = dict.fromkeys(counts, 0)
        for relation, edges in zip(self.schema.relations, self.lists, strict=True):
            into[relation.target] += len(edges.sources)
        self.seed_type = max(into, key=lambda kind: into[kind])
        timed_lists = [edges.times for edges in self.lists if edges.times is not None]
        self.times = np.concatenate(timed_lists) if timed_lists else None


def arms_of(graph: TypedGraph, fanouts: list[int]) -> dict[str, Arm]:
    """Returns what samples a mini-batch, by name; each returns the number of sampled edges."""
    edges = Edges.of_relations(graph.schema, graph.lists)
    timed = graph.times is not None
    sampler = Sampler(edges, fanouts, seed=0, disjoint=timed)
    first = graph.schema.first_node(graph.seed_type)

    def until(seeds: NDArray[np.int32], batch: int) -> NDArray[Any] | None:
        return None if graph.times is None else np.random.default_rng(batch).choice(graph.times, size=len(seeds))

    def alone(seeds: NDArray[np.int32], batch: int) -> int:
        bound = until(seeds, batch)
        ranks = None if bound is None or edges.times is None else edges.times.rank_at(bound)
        return sampler.sample(seeds + np.int32(first), 0, batch, ranks).num_edges

    def listed(seeds: NDArray[np.int32], batch: int) -> int:
        bound = until(seeds, batch)
        ranks = None if bound is None or edges.times is None else edges.times.rank_at(bound)
        view = by_type(sampler.sample(seeds + np.int32(first), 0, batch, ranks), graph.schema)
        return sum(index.shape[1] for index in view.edge_index)

    return {"a3gnn": alone, "a3gnn with edge lists": listed, "pyg-lib": pyg_lib_of(graph, fanouts, until)}


def pyg_lib_of(graph: TypedGraph, fanouts: list[int], until: Callable[..., NDArray[Any] | None]) -> Arm:
    """Returns pyg-lib's typed sampler of `graph`."""
    import pyg_lib.sampler

    colptr, rows, times = {}, {}, {}
    counts = graph.schema.counts
    for relation, edges in zip(graph.schema.relations, graph.lists, strict=True):
        keys = (edges.targets,) if edges.times is None else (edges.times, edges.targets)
        order, name = np.lexsort(keys), tuple(relation)
        degrees = np.bincount(edges.targets, minlength=counts[relation.target])
        colptr[name] = torch.from_numpy(np.concatenate([[0], degrees.cumsum()]))
        rows[name] = torch.from_numpy(edges.sources[order].astype(np.int64))
        if edges.times is not None:
            times[name] = torch.from_numpy(edges.times[order])
    kinds, timed = [tuple(relation) for relation in graph.schema.relations], graph.times is not None
    numbers = dict.fromkeys(kinds, fanouts)

    def sample(seeds: NDArray[np.int32], batch: int) -> int:
        bound = until(seeds, batch)
        found = pyg_lib.sampler.hetero_neighbor_sample(
            colptr,
            rows,
            {graph.seed_type: torch.from_numpy(seeds.astype(np.int64))},
            numbers,
            edge_time_dict=times if timed else None,
            seed_time_dict=None if bound is None else {graph.seed_type: torch.from_numpy(bound)},
            csc=True,
            disjoint=timed,
            return_edge_id=True,
        )
        return sum(len(row) for row in found[0].values())

    return sample


def measured(graph: TypedGraph, fanouts: list[int], size: int, batches: int) -> dict[str, Any]:
    """Returns the row of `graph`."""
    arms = arms_of(graph, fanouts)
    total = graph.schema.counts[graph.seed_type]
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    edges: dict[str, list[int]] = {name: [] for name in arms}
    for batch in range(batches + 3):  # three warm up
        seeds = np.random.default_rng(batch).choice(total, size=min(size, total), replace=False).astype(np.int32)
        for name in list(arms)[:: 1 if batch % 2 else -1]:
            begin = perf_counter()
            count = arms[name](seeds, batch)
            if batch >= 3:
                seconds[name].append(perf_counter() - begin)
                edges[name].append(count)
    row: dict[str, Any] = {"graph": graph.name, "relations": len(graph.schema.relations), "seed_type": graph.seed_type}
    return row | {name: quartiles(seconds[name]) | {"edges": float(np.mean(edges[name]))} for name in arms}


def quartiles(seconds: list[float]) -> dict[str, float]:
    """Returns the median of `seconds` and the quartiles around it, in milliseconds."""
    low, middle, high = np.percentile(np.array(seconds) * 1e3, [25, 50, 75])
    return {"ms": middle, "low": low, "high": high}


def print_arms(row: dict[str, Any], names: tuple[str, ...], first: str, edges: float) -> None:
    """Prints the arms `names` of a graph beside the arm `first`; a mini-batch has `edges`."""
    print(f"{row['graph']}: {row['relations']} relations, {edges:,.0f} edges a mini-batch")
    for name in names:
        one, peer = row[name], row[first]["ms"]
        print(f"  {name:22} {one['ms']:8.3f} ms ({one['low']:.3f} to {one['high']:.3f}), x{peer / one['ms']:.2f}")


def print_mean(rows: list[dict[str, Any]], first: str, name: str) -> None:
    """Prints the geometric mean of the ratios of the arms `first` and `name`."""
    ratios = np.log([row[first]["ms"] / row[name]["ms"] for row in rows])
    print(f"geometric mean of {first} / {name}: {np.exp(ratios.mean()):.2f}")


def main() -> None:
    """Measures, and prints a row per graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--fanouts", nargs="+", type=int, default=[15, 10])
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measured(TypedGraph(path, asked.timed), asked.fanouts, asked.seeds, asked.batches) for path in asked.graphs]
    for row in rows:
        print_arms(row, ("a3gnn", "a3gnn with edge lists", "pyg-lib"), "pyg-lib", row["a3gnn"]["edges"])
    print_mean(rows, "pyg-lib", "a3gnn with edge lists")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

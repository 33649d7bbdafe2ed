"""How much a mini-batch holds: nodes, edges and cache hits, expected from the graph's characteristics alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import Task
from a3gnn_surrogate.columns import Columns, cached_share
from a3gnn_surrogate.replacement import replaced_hit_rate

Array = NDArray[np.float64]

#: Share of the edges between random parts that a partitioner keeps inside its parts: at degree 1 without hubs, its fall
#: with the logarithm of the mean degree, and with hubs. Fitted to 17 graphs; a graph that was left out is missed by 0.1
#: (`python -m benchmarks.laws partitions`).
_PARTITION_GAIN = {"metis": (1.16, 0.08, 0.29), "blocks": (1.25, 0.15, 0.82)}
#: What packing whole components into parts loses where the largest fills one.
_PACKING_LOSS = 0.3

#: Share of its nodes that a small mini-batch saves where its seeds lie close together, on a graph without hubs.
_PROXIMITY_SAVING = 0.43


@dataclass(frozen=True, slots=True)
class BatchVolume:
    """What a full mini-batch holds; every array is float64, shape (n_configs,).

    Attributes:
        seeds: Seeds.
        batches: Mini-batches an epoch, a fraction of one for the last, smaller one.
        steps: Mini-batches an epoch, whole.
        nodes: Distinct nodes after each hop, seeds first: num_layers + 1 arrays.
        edges: Edges sampled at each hop, the seeds' hop first: num_layers arrays.
        hit_rate: Share of the input nodes that are cached.
        cached_mass: Share p of neighbour entries that are cached.
        kept_edges: Share of the edges that partitioning keeps.
    """

    seeds: Array
    batches: Array
    steps: Array
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    hit_rate: Array
    cached_mass: Array
    kept_edges: Array

    @property
    def input_nodes(self) -> Array:
        """Distinct nodes whose features are read."""
        return self.nodes[-1]

    @property
    def sampled_edges(self) -> Array:
        """Edges of all hops."""
        return np.asarray(np.sum(self.edges, axis=0))


@dataclass(frozen=True, slots=True)
class _Classes:
    """Nodes lumped by hotness, hottest first, and split by the cache; arrays are (n_configs, n_classes).

    Attributes:
        cached: Cached nodes of each class that a part holds.
        uncached: The others.
        degree: Mean in-degree inside a part.
        draw_share: Probability that one unbiased draw lands on one given node.
        mass: Share p of neighbour entries that are cached, shape (n_configs, 1).
    """

    cached: Array
    uncached: Array
    degree: Array
    draw_share: Array
    mass: Array


def kept_edges(columns: Columns, graph: GraphCharacteristics) -> Array:
    """Returns the share of edges inside parts, float64, shape (n_configs,): all for one part, 1 / k for random ones.

    A partitioner that looks at edges does better on sparse graphs without hubs, and loses few where whole components
    are small enough for a part.
    """
    parts = np.maximum(columns["num_partitions"], 1)
    filled = parts * graph.largest_component
    packed = np.where(filled <= 1, 1 - _PACKING_LOSS * filled, 0.0)
    gain = np.zeros(len(parts))
    for name, (start, by_degree, by_hubs) in _PARTITION_GAIN.items():
        law = start - by_degree * np.log(max(graph.mean_degree, 1.0)) - by_hubs * graph.degree_gini
        gain = np.where(columns["partitioner"] == name, np.clip(np.maximum(law, packed), 0.0, 1.0), gain)
    return np.asarray((1 + (parts - 1) * gain) / parts)


def batch_volume(columns: Columns, task: Task, graph: GraphCharacteristics) -> BatchVolume:
    """Returns the expected volume of a full mini-batch of each configuration.

    The design's recursion p_l(v) = 1 - prod (1 - p_{l-1}(u) min(1, k_l / deg u)), with the nodes lumped into classes
    of equal hotness, so that a hop is one exponential a class. Hotness comes from `cached_edge_mass`; in- and
    out-degree are taken to agree.
    """
    parts = columns["num_partitions"].astype(np.float64)
    seeds = np.minimum(columns["batch_size"], np.maximum(graph.num_train / parts, 1.0))
    kept = kept_edges(columns, graph)
    classes = _classes(columns, graph, kept)
    total = classes.cached + classes.uncached
    start = np.minimum(seeds[:, None] / np.maximum(total.sum(axis=1, keepdims=True), 1.0), 1.0)
    seen = [start * classes.cached, start * classes.uncached]
    frontier = seen[0] + seen[1]
    nodes, edges = [seeds], []
    for fanout in task.fanouts:
        draws, hits = _draws(frontier, classes, fanout, columns["bias_rate"][:, None])
        edges.append(draws + hits)
        reached = _reach(seen, classes, hits, draws)
        frontier = reached[0] + reached[1] - seen[0] - seen[1]
        seen = reached
        nodes.append((seen[0] + seen[1]).sum(axis=1))
    near = _proximity_nodes(columns, nodes[-1] / np.maximum(total.sum(axis=1), 1.0), graph)
    nodes[1:] = [np.maximum(near * found, seeds) for found in nodes[1:]]
    seen = [near[:, None] * found for found in seen]
    static = seen[0].sum(axis=1) / np.maximum(nodes[-1], 1.0)
    # A static cache holds rows of every part, a dynamic one fills up with those of the part at hand.
    rows = np.minimum(classes.cached.sum(axis=1) * parts, total.sum(axis=1))
    hit_rate = replaced_hit_rate(columns, graph, static, seen[0] + seen[1], total, rows)
    steps = parts * np.ceil(np.maximum(graph.num_train / parts, 1.0) / seeds)
    return BatchVolume(
        seeds, graph.num_train / seeds, steps, tuple(nodes), tuple(edges), hit_rate, classes.mass[:, 0], kept
    )


def _proximity_nodes(columns: Columns, covered: Array, graph: GraphCharacteristics) -> Array:
    """Returns the share of its nodes that a mini-batch still needs under its seed order.

    Seeds by proximity share neighbours, but hubs are in every mini-batch wherever its seeds lie, and one that covers
    most of its part has nowhere else to go (`python -m benchmarks.laws caches` on eleven graphs).

    Args:
        columns: Canonical.
        covered: Share of a part's nodes that a mini-batch of random seeds needs, shape (n_configs,).
        graph: The graph's characteristics.
    """
    saved = _PROXIMITY_SAVING * (1 - graph.degree_gini) * (1 - np.minimum(covered, 1.0))
    return np.where(columns["seed_order"] == "proximity", 1 - saved, 1.0)


def _classes(columns: Columns, graph: GraphCharacteristics, kept: Array) -> _Classes:
    edges_at = np.array([0.0, *CACHE_FRACTIONS, 1.0])
    mass_at = np.array([0.0, *graph.cached_edge_mass, 1.0])
    width, mass = np.diff(edges_at), np.diff(mass_at)
    covered = np.clip((cached_share(columns, graph)[:, None] - edges_at[:-1]) / width, 0.0, 1.0)
    nodes = width * graph.num_nodes / columns["num_partitions"][:, None]
    degree = graph.mean_degree * mass / width * kept[:, None]
    p = graph.cached_mass(columns["cache_bytes"])[:, None]
    return _Classes(covered * nodes, (1 - covered) * nodes, degree, mass / np.maximum(nodes, 1e-9), p)


def _draws(frontier: Array, classes: _Classes, fanout: int, bias: Array) -> tuple[Array, Array]:
    """Returns the draws of a hop that miss and those that hit the cache, each float64, shape (n_configs,).

    h = g p / (1 + p (g - 1)) a draw. Without replacement the bias fades as the fanout nears the degree: a node that
    gives all its neighbours has nothing to choose.
    """
    taken = classes.degree if fanout < 0 else np.minimum(classes.degree, fanout)
    choice = 1 - taken / np.maximum(classes.degree, 1e-9)
    g = 1 + (bias - 1) * choice
    hit = g * classes.mass / (1 + classes.mass * (g - 1))
    draws = frontier * taken
    hits = (draws * hit).sum(axis=1)
    return draws.sum(axis=1) - hits, hits


def _reach(seen: list[Array], classes: _Classes, hits: Array, misses: Array) -> list[Array]:
    """Returns the distinct nodes seen after a hop, cached and uncached: those a Poisson number of draws meets."""
    p = classes.mass
    per_hit = np.where(p > 0, hits[:, None] / np.maximum(p, 1e-9), 0.0)
    per_miss = np.where(p < 1, misses[:, None] / np.maximum(1 - p, 1e-9), 0.0)
    return [
        nodes - (nodes - old) * np.exp(-draws * classes.draw_share)
        for old, nodes, draws in zip(seen, (classes.cached, classes.uncached), (per_hit, per_miss), strict=True)
    ]

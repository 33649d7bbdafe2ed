"""How much a mini-batch holds: nodes, edges and cache hits, expected from the graph's characteristics alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from a3gnn.characteristics import AHEAD_ROW_BYTES, CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import AHEAD, DYNAMIC_POLICIES
from a3gnn.task import EMBEDDING, NegativeDraws, Task
from a3gnn_surrogate.columns import (
    Array,
    Columns,
    ahead_rows,
    cached_share,
    fanouts,
    is_whole,
    reads_table,
    stored_row_bytes,
)

# Fitted by hand: each is near the least error that `python -m benchmarks.analytic_model caches` at commit 10d4978
# prints for 11 graphs.
#: Breadth-first sequences under proximity, _SEQUENCES (batch size / _SEEDS) ** _SEQUENCES_EXPONENT. Their number
#: depends on labels; the graphs' medians (`ProximityOrder.num_sequences`) are 8 at 128 seeds and 40 at 1,024.
_SEQUENCES, _SEEDS, _SEQUENCES_EXPONENT = 9.0, 128.0, 0.73
#: Ratio of effective to real size of a dynamic cache under proximity, within the components that its sequences visit.
_PROXIMITY_GROWTH = 1.15
#: LRU begins to differ from FIFO if the rows of this many mini-batches fit into the cache; with one more, it is fully
#: LRU.
_LRU_FROM_BATCHES = 0.75

#: Gain that is lost when whole components are packed into parts and the largest one fills a part. Guess.
_PACKING_LOSS = 0.3
#: Share of its nodes that a small mini-batch with seeds by proximity saves on a graph without hubs. Fitted by hand;
#: least squares over the rows of `python -m benchmarks.analytic_model caches` at commit 10d4978 gives 0.45.
_PROXIMITY_SAVING = 0.43

# Numerics of the search for the characteristic time, in mini-batches.
_BISECTIONS = 50
_MAX_CHARACTERISTIC_TIME = 1e9


class _PartitionGain(NamedTuple):
    """A partitioner's gain, start - per_log_degree log(mean degree) - per_gini Gini.

    The gain is the share of the edges that random parts would cut and this partitioner keeps.
    """

    start: float
    per_log_degree: float
    per_gini: float


# Fitted by hand to 17 graphs, between several least-squares fits; `python -m benchmarks.analytic_model partitions` at
# commit 10d4978 prints the remaining errors. Least squares over its rows gives (1.16, 0.09, 0.23) and
# (1.23, 0.15, 0.76), and misses the gain on a graph that is left out by 0.1.
_PARTITION_GAIN = {"metis": _PartitionGain(1.16, 0.08, 0.29), "blocks": _PartitionGain(1.25, 0.15, 0.82)}


@dataclass(frozen=True, slots=True)
class BatchVolume:
    """Contents of a full mini-batch; every array is float64, shape (n_configs,).

    Attributes:
        seeds: Number of seeds: nodes, or links.
        batches: Mini-batches per epoch; the last, smaller one counts as a fraction.
        steps: Mini-batches per epoch, whole.
        nodes: Distinct nodes after each hop, first the seeds, or the ends of links and of their negatives: an array per
            hop, and one more.
        edges: Edges sampled at each hop, the seeds' hop first. If the input layer reads a table, the last array is 0
            and the last hop finds no nodes. With several trainers, nodes and edges are totals over all shares.
        sampling_reads: Edges and nodes of the whole mini-batch, which is sampled once; 0 for the whole graph, which is
            not sampled again.
        hit_rate: Share of the input nodes that are cached.
        cached_mass: Share p of neighbor entries that are cached.
        kept_edges: Share of the edges that partitioning keeps.
    """

    seeds: Array
    batches: Array
    steps: Array
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    sampling_reads: Array
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


def batch_volume(columns: Columns, task: Task, graph: GraphCharacteristics) -> BatchVolume:
    """Returns the expected volume of a full mini-batch of each configuration.

    The recursion over nodes, p_l(v) = 1 - prod (1 - p_{l-1}(u) min(1, k_l / deg u)), is evaluated over classes of equal
    hotness instead, so that a hop is one exponential per class. Hotness comes from `cached_edge_mass`; in- and
    out-degree are assumed equal.
    """
    parts = columns["num_partitions"].astype(np.float64)
    seeds = np.minimum(columns["batch_size"], np.maximum(graph.num_train / parts, 1.0))
    kept = kept_edges(columns, graph)
    classes = _hotness_classes(columns, task, graph, kept)
    total = classes.nodes.per_class
    first = end_nodes(seeds, task, graph) if graph.ends else seeds
    seen = classes.nodes.scaled(np.minimum(first[:, None] / np.maximum(total.sum(axis=1, keepdims=True), 1.0), 1.0))
    frontier = seen.per_class
    nodes, edges = [first], []
    hops = fanouts(columns, task)
    hops[-1] = np.where(reads_table(columns), 0.0, hops[-1])
    if task.model == EMBEDDING:  # without an encoder, nothing is sampled
        hops = [np.zeros_like(one) for one in hops]
    for fanout in hops:
        # Each relation into a node has the fanout; those of a node are taken to be alike.
        fanout = fanout * graph.rows_per_node
        draws = _draws(frontier, classes, fanout[:, None], columns["bias_rate"][:, None])
        edges.append(draws.misses + draws.hits)
        reached = _reach(seen, classes, draws)
        frontier = reached.cached + reached.uncached - seen.cached - seen.uncached
        seen = reached
        nodes.append(seen.per_class.sum(axis=1))
    if (whole := is_whole(columns)).any():
        nodes = [first, *(np.where(whole, float(graph.num_nodes), found) for found in nodes[1:])]
        share = graph.num_train / max(graph.num_nodes, 1)  # of the edges, into seeds, which the last layer computes
        of_hops = [share, 1 - share, *(0.0 for _ in edges[2:])]
        edges = [np.where(whole, part * graph.num_edges, hop) for part, hop in zip(of_hops, edges, strict=False)]
    near = _proximity_nodes(columns, nodes[-1] / np.maximum(total.sum(axis=1), 1.0), graph)
    nodes[1:] = [np.maximum(near * found, first) for found in nodes[1:]]
    seen = seen.scaled(near[:, None])
    static = seen.cached.sum(axis=1) / np.maximum(nodes[-1], 1.0)
    # A static cache holds rows of every part, a dynamic one fills up with rows of the current part.
    rows = np.minimum(classes.nodes.cached.sum(axis=1) * parts, total.sum(axis=1))
    rows = np.where(columns["cache_policy"] == AHEAD, ahead_rows(columns, task, graph), rows)
    samples = topology_bytes(nodes, edges) / (stored_row_bytes(columns, task, graph) + AHEAD_ROW_BYTES)
    hit_rate = dynamic_hit_rate(columns, graph, static, seen.per_class, total, rows, samples)
    steps = parts * np.ceil(np.maximum(graph.num_train / parts, 1.0) / seeds)
    batches, reads = graph.num_train / seeds, np.where(whole, 0.0, np.sum(edges, axis=0) + nodes[-1])
    return BatchVolume(seeds, batches, steps, tuple(nodes), tuple(edges), reads, hit_rate, classes.mass[:, 0], kept)


def topology_bytes(nodes: Sequence[Array], edges: Sequence[Array]) -> Array:
    """Returns the bytes of a mini-batch's ids and CSR: int32 each, float64, shape (n_configs,).

    Args:
        nodes: `BatchVolume.nodes`.
        edges: `BatchVolume.edges`.
    """
    return np.asarray(4.0 * (2 * nodes[-1] + np.sum(edges, axis=0)))


def end_nodes(pairs: Array, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the distinct nodes of mini-batches of `pairs` links and of what they compete with, float64.

    All are taken as drawn uniformly, though nodes of many links are ends more often.
    """
    draws = NegativeDraws.of(task.negatives)
    rivals = draws.amount * (pairs if draws.loss == "binary" else np.ones_like(pairs))
    drawn = [2 * (pairs + rivals)] if len(graph.ends) == 1 else [pairs, pairs + rivals]
    found = [-count * np.expm1(-of_type / count) for of_type, count in zip(drawn, graph.ends, strict=True)]
    return np.asarray(np.sum(found, axis=0))


def _proximity_nodes(columns: Columns, covered: Array, graph: GraphCharacteristics) -> Array:
    """Returns the share of its nodes that a mini-batch still needs under its seed order.

    Seeds by proximity share neighbors. But hubs are in every mini-batch wherever its seeds are, and a mini-batch that
    covers most of its part can save little.

    Args:
        columns: Canonical.
        covered: Share of a part's nodes that a mini-batch of random seeds needs, shape (n_configs,).
        graph: The graph's characteristics.
    """
    saved = _PROXIMITY_SAVING * (1 - graph.degree_gini) * (1 - np.minimum(covered, 1.0))
    return np.where(columns["seed_order"] == "proximity", 1 - saved, 1.0)


def kept_edges(columns: Columns, graph: GraphCharacteristics) -> Array:
    """Returns the share of edges inside parts, float64, shape (n_configs,): all for one part, 1 / k for random ones.

    A partitioner that uses the edges keeps more on sparse graphs without hubs, and loses few if whole components are
    small enough for a part.
    """
    parts = np.maximum(columns["num_partitions"], 1)
    filled = parts * graph.largest_component
    packed = np.where(filled <= 1, 1 - _PACKING_LOSS * filled, 0.0)
    gain = np.zeros(len(parts))
    for name, fit in _PARTITION_GAIN.items():
        fitted = fit.start - fit.per_log_degree * np.log(max(graph.mean_degree, 1.0)) - fit.per_gini * graph.degree_gini
        gain = np.where(columns["partitioner"] == name, np.clip(np.maximum(fitted, packed), 0.0, 1.0), gain)
    return np.asarray((1 + (parts - 1) * gain) / parts)


class _ByCache(NamedTuple):
    """Nodes per class of hotness, float64, shape (n_configs, n_classes): the cached ones and the others."""

    cached: Array
    uncached: Array

    @property
    def per_class(self) -> Array:
        return self.cached + self.uncached

    def scaled(self, factor: Array) -> _ByCache:
        return _ByCache(factor * self.cached, factor * self.uncached)


@dataclass(frozen=True, slots=True)
class _HotnessClasses:
    """Nodes grouped by hotness, hottest first, and split by the cache; arrays are (n_configs, n_classes)."""

    nodes: _ByCache  # nodes of each class that a part holds
    degree: Array  # mean in-degree inside a part
    draw_share: Array  # probability that one unbiased draw picks one given node
    mass: Array  # share p of neighbor entries that are cached, shape (n_configs, 1)


class _Draws(NamedTuple):
    """Draws of one hop, each float64, shape (n_configs,)."""

    hits: Array
    misses: Array


def _hotness_classes(columns: Columns, task: Task, graph: GraphCharacteristics, kept: Array) -> _HotnessClasses:
    edges_at = np.array([0.0, *CACHE_FRACTIONS, 1.0])
    mass_at = np.array([0.0, *graph.cached_edge_mass, 1.0])
    width, mass = np.diff(edges_at), np.diff(mass_at)
    covered = np.clip((cached_share(columns, task, graph)[:, None] - edges_at[:-1]) / width, 0.0, 1.0)
    nodes = width * graph.num_nodes / columns["num_partitions"][:, None]
    degree = graph.mean_degree * mass / width * kept[:, None]
    p = graph.cached_mass(columns["cache_bytes"], stored_row_bytes(columns, task, graph))[:, None]
    return _HotnessClasses(_ByCache(covered * nodes, (1 - covered) * nodes), degree, mass / np.maximum(nodes, 1e-9), p)


def _draws(frontier: Array, classes: _HotnessClasses, fanout: Array, bias: Array) -> _Draws:
    """Returns the draws of a hop that hit and that miss the cache.

    A draw hits with probability h = g p / (1 + p (g - 1)). Sampling is without replacement, so the bias g weakens as
    the fanout, shape (n_configs, 1), approaches the degree: if all neighbors are taken, there is no choice.
    """
    taken = np.minimum(classes.degree, fanout)
    choice = 1 - taken / np.maximum(classes.degree, 1e-9)
    g = 1 + (bias - 1) * choice
    hit = g * classes.mass / (1 + classes.mass * (g - 1))
    draws = frontier * taken
    hits = (draws * hit).sum(axis=1)
    return _Draws(hits, draws.sum(axis=1) - hits)


def _reach(seen: _ByCache, classes: _HotnessClasses, draws: _Draws) -> _ByCache:
    """Returns the distinct nodes seen after a hop; draws per node are taken as Poisson distributed."""
    p = classes.mass
    per_hit = np.where(p > 0, draws.hits[:, None] / np.maximum(p, 1e-9), 0.0)
    per_miss = np.where(p < 1, draws.misses[:, None] / np.maximum(1 - p, 1e-9), 0.0)
    return _ByCache(
        *(
            nodes - (nodes - old) * np.exp(-drawn * classes.draw_share)
            for old, nodes, drawn in zip(seen, classes.nodes, (per_hit, per_miss), strict=True)
        )
    )


def dynamic_hit_rate(
    columns: Columns,
    graph: GraphCharacteristics,
    static: Array,
    batch_nodes: Array,
    nodes: Array,
    rows: Array,
    samples: Array,
) -> Array:
    """Returns the share of input rows that a configuration's cache serves, float64, shape (n_configs,).

    Under the independent reference model, a node that a mini-batch needs with probability q is cached with probability
    q T / (1 + q T) by FIFO and 1 - (1 - q) ** T by LRU, which CLOCK approximates. T is the characteristic time in
    mini-batches, at which the expected number of cached nodes equals the cache's rows (Che et al., 2002; Martina et
    al., 2014). A mini-batch reads each node once. If it needs more rows than the cache holds, LRU has no recency to
    use, and equals FIFO.

    Seeds by proximity stay within the components that their sequences are in, as if the graph were smaller.

    Args:
        columns: Canonical.
        graph: The graph's characteristics.
        static: Hit rate of a static cache, shape (n_configs,).
        batch_nodes: Distinct nodes of each class of hotness in a mini-batch, shape (n_configs, n_classes).
        nodes: Nodes of each class, of the same shape.
        rows: Rows that the cache holds, shape (n_configs,).
        samples: Rows that the sample of a mini-batch takes the room of, shape (n_configs,), for the policy ahead.
    """
    result, ahead = static.copy(), columns["cache_policy"] == AHEAD
    held = np.where(columns["feature_tier"] == "disk", rows, 0.0)
    lag, most = ahead_batches(columns, graph)
    result[ahead] = _ahead_hit_rate(*(one[ahead] for one in (batch_nodes, nodes, held, samples, lag, most)))
    at = np.flatnonzero(np.isin(columns["cache_policy"], DYNAMIC_POLICIES) & (rows > 0))
    if not len(at):
        return result
    batch_nodes, nodes, rows = batch_nodes[at], nodes[at], rows[at]
    near = columns["seed_order"][at] == "proximity"
    growth = np.where(near, _apparent_growth(columns["batch_size"][at], graph), 1.0)
    capacity = np.minimum(rows * growth, nodes.sum(axis=1))
    found = _che_hit_rate(batch_nodes, nodes, capacity, lru=False)
    lru = columns["cache_policy"][at] == "clock"
    batches_held = (rows / np.maximum(batch_nodes.sum(axis=1), 1e-9))[lru]
    found[lru] = _lru_hit_rate(found[lru], batches_held, batch_nodes[lru], nodes[lru], capacity[lru])
    result[at] = found
    return result


def ahead_batches(columns: Columns, graph: GraphCharacteristics) -> tuple[Array, Array]:
    """Returns how many mini-batches the policy ahead has ready, and most that a sweep serves, shape (n_configs,)."""
    lag = np.where(columns["parallel_mode"] == "sequential", 0, columns["num_workers"]) + 2.0
    return lag, np.maximum(lag, np.ceil(graph.num_train / columns["batch_size"] / 4))


def _lru_hit_rate(fifo: Array, batches_held: Array, batch_nodes: Array, nodes: Array, capacity: Array) -> Array:
    """Returns LRU's hit rate: FIFO's in a cache that holds few mini-batches, Che's in one that holds more."""
    recency = np.clip(batches_held - _LRU_FROM_BATCHES, 0.0, 1.0)
    return fifo + recency * (_che_hit_rate(batch_nodes, nodes, capacity, lru=True) - fifo)


def _apparent_growth(batch_size: Array, graph: GraphCharacteristics) -> Array:
    """Returns the ratio of effective to real cache size under proximity, about 1 / the visited share of the graph."""
    sequences = _SEQUENCES * (batch_size / _SEEDS) ** _SEQUENCES_EXPONENT
    visited = 1 - (1 - min(graph.largest_component, 1 - 1e-9)) ** np.maximum(sequences, 1.0)
    return np.asarray(_PROXIMITY_GROWTH / np.maximum(visited, 1e-9))


def _che_hit_rate(batch_nodes: Array, nodes: Array, capacity: Array, *, lru: bool) -> Array:
    """Returns Che's hit rate of LRU or else FIFO, shape (n_configs,), by bisection of log(1 + T)."""
    needed = np.clip(batch_nodes / np.maximum(nodes, 1e-9), 0.0, 1.0 - 1e-9)
    probability = partial(_cached_probability, lru=lru)
    cached = probability(needed, _characteristic_time(needed, nodes, capacity, probability))
    return np.asarray((batch_nodes * cached).sum(axis=1) / np.maximum(batch_nodes.sum(axis=1), 1e-9))


def _ahead_hit_rate(
    batch_nodes: Array, nodes: Array, capacity: Array, samples: Array, lag: Array, most: Array
) -> Array:
    """Returns the share of rows that an earlier mini-batch in flight has read, shape (n_configs,).

    `lag` mini-batches are ready, and a sweep of the file serves N others, at most `most`, a quarter of an epoch. A row
    is read from the disk if none of the T = N + `lag` - 1 before needed it, with probability (1 - q) ** T. Then it
    waits for half of a sweep, in the mean, before it takes room. `capacity` is the expected number of rows that do,
    with the room of all `samples`.
    """
    share = samples / np.maximum(nodes.sum(axis=1), 1.0)  # of a sample, as `held` is summed over all nodes

    def held(needed: Array, times: Array) -> Array:
        missed = 1 - _cached_probability(needed, times, lru=True)
        waits = np.maximum(times - lag, 0.0)[:, None] / 2
        return np.asarray(1 - missed * (1 - needed) - waits * needed * missed + (share * times)[:, None])

    needed = np.clip(batch_nodes / np.maximum(nodes, 1e-9), 0.0, 1.0 - 1e-9)
    times = np.minimum(_characteristic_time(needed, nodes, capacity, held), most + lag - 1)
    found = (batch_nodes * _cached_probability(needed, times, lru=True)).sum(axis=1)
    return np.asarray(found / np.maximum(batch_nodes.sum(axis=1), 1e-9))


def _characteristic_time(
    needed: Array, nodes: Array, capacity: Array, probability: Callable[[Array, Array], Array]
) -> Array:
    """Returns the mini-batches after which the expected number of cached nodes is `capacity`, shape (n_configs,).

    `probability` returns the chance that a node is cached, by `needed` and the number of mini-batches.
    """
    low, high = np.zeros(len(capacity)), np.full(len(capacity), np.log1p(_MAX_CHARACTERISTIC_TIME))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_long = (nodes * probability(needed, np.expm1(middle))).sum(axis=1) > capacity
        low, high = np.where(too_long, low, middle), np.where(too_long, middle, high)
    return np.expm1(low)


def _cached_probability(needed: Array, characteristic_time: Array, *, lru: bool) -> Array:
    """Returns the probability that a node is cached; `needed` is (n, n_classes), the time (n,) in mini-batches."""
    times = characteristic_time[:, None]
    if lru:
        return np.asarray(-np.expm1(times * np.log1p(-needed)))
    return np.asarray(needed * times / (1 + needed * times))

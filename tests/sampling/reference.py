"""What samplers must return, in plain Python: slow, and without any of their kernels."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

_MASK = 2**64 - 1


def mix(word: int) -> int:
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _MASK
    return word ^ word >> 31


def fold(key: int, word: int) -> int:
    return mix((key + 0x9E3779B97F4A7C15 * (word + 1)) & _MASK)


def uniform(stream: int, counter: int) -> float:
    return (fold(stream, counter) >> 12) * 2.0**-52


def below(stream: int, counter: int, bound: int) -> int:
    return fold(stream, counter) * bound >> 64


class Edge(NamedTuple):
    """An in-edge: its source, its place in the original list, its weight and its time."""

    source: int
    place: int
    weight: float = 1.0
    time: float = -math.inf


class Row(NamedTuple):
    """A node's in-edges in one relation: the relation's number and word, the node's id in its type; if it has times."""

    edges: list[Edge]
    relation: int
    word: int
    node: int
    timed: bool = False


@dataclass(frozen=True)
class Options:
    """What decides the draws, beside the seeds; `cached` are the preferred nodes."""

    fanouts: tuple[int | tuple[int, ...], ...]
    seed: int
    epoch: int
    batch: int
    bias: float = 1.0
    cached: frozenset[int] = frozenset()
    weighted: bool = False
    replace: bool = False
    disjoint: bool = False
    last: bool = False


@dataclass
class Tree:
    """A tree's nodes, each one's rows (relation; sources by place in `nodes`, places), and the nodes known by hop."""

    nodes: list[int]
    rows: list[list[tuple[int, list[tuple[int, int]]]]] = field(default_factory=list)
    known: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Expected:
    n_id: list[int]
    indptr: list[int]
    indices: list[int]
    hop_sizes: tuple[int, ...]
    e_id: list[int]
    tree: list[int]
    rows: list[tuple[int, int]]


def picks_of(stream: int, row: list[Edge], fanout: int, options: Options) -> list[int]:
    """Returns the picked offsets of a row whose preferred in-neighbors come first."""
    degree = len(row)
    if fanout == 0:
        return []
    if fanout < 0 or degree == 0 or (degree <= fanout and not options.replace):
        return list(range(degree))
    weights = [edge.weight for edge in row]
    if options.weighted and options.replace:
        totals = list(accumulate(weights))
        if totals[-1] == 0:
            return []
        return [bisect_right(totals, uniform(stream, draw) * totals[-1]) for draw in range(fanout)]
    if options.weighted:
        return _by_keys({i: math.log(uniform(stream, i)) / w for i, w in enumerate(weights) if w > 0}, fanout)
    if options.replace:
        return [below(stream, draw, degree) for draw in range(fanout)]
    cached = sum(edge.source in options.cached for edge in row) if options.bias > 1 else 0
    inside, outside, taken = float(cached), float(degree - cached), 0
    for draw in range(fanout if cached else 0):
        if uniform(stream, draw) * (options.bias * inside + outside) < options.bias * inside:
            inside, taken = inside - 1, taken + 1
        else:
            outside -= 1
    preferred = _floyd(stream, fanout, 0, cached, range(taken))
    return preferred + _floyd(stream, fanout, cached, degree - cached, range(taken, fanout))


def _floyd(stream: int, counter: int, low: int, size: int, draws: range) -> list[int]:
    picks: list[int] = []
    for draw in draws:
        top = size - draws.stop + draw
        pick = below(stream, counter + draw, top + 1)
        picks.append(low + (top if low + pick in picks else pick))
    return picks


def _by_keys(keys: dict[int, float], fanout: int) -> list[int]:
    """Returns the offsets of the largest keys; one that is displaced leaves its place to the one that displaces it."""
    picks: list[int] = []
    for offset, key in keys.items():
        if len(picks) < fanout:
            picks.append(offset)
            continue
        least = min(range(fanout), key=lambda place: keys[picks[place]])
        if key > keys[picks[least]]:
            picks[least] = offset
    return picks


def sample(rows: list[list[Edge]], seeds: list[int], options: Options) -> Expected:
    """Returns the neighborhood of `seeds`; `rows` are the in-edges of each node, by source, then place."""
    if options.bias > 1:
        rows = [sorted(row, key=lambda edge: edge.source not in options.cached) for row in rows]
    return sample_typed([[Row(row, 0, 0, node)] for node, row in enumerate(rows)], seeds, options)


def sample_typed(
    rows: list[list[Row]], seeds: list[int], options: Options, until: list[float] | None = None
) -> Expected:
    """Returns the neighborhood of `seeds`; `rows` are those of each node, and a tree shows edges `until` its time."""
    roots = [[seed] for seed in seeds] if options.disjoint else [seeds]
    ends = until or [math.inf] * len(roots)
    trees = [_grown(rows, nodes, tree, options, ends[tree]) for tree, nodes in enumerate(roots)]
    return _by_hop(trees, len(options.fanouts))


def _grown(rows: list[list[Row]], seeds: list[int], number: int, options: Options, until: float) -> Tree:
    """Returns tree `number`, sampled to its end."""
    tree, place = Tree(list(seeds), known=[len(seeds)]), {}
    for i, seed in enumerate(seeds):
        place.setdefault(seed, i)
    root = fold(fold(mix(options.seed), options.epoch), options.batch)
    for hop, fanouts in enumerate(options.fanouts):
        for i in range(len(tree.rows), tree.known[-1]):
            node = tree.nodes[i]
            tree.rows.append([])
            for row in rows[node]:
                fanout = fanouts[row.relation] if isinstance(fanouts, tuple) else fanouts
                stream = fold(fold(root, hop | row.word << 32), row.node)
                if number > 0:
                    stream = fold(stream, number)
                elif place[node] != i:  # a repeated seed
                    stream = fold(stream, i)
                shown = [edge for edge in row.edges if not row.timed or edge.time <= until]
                if row.timed and options.last and fanout >= 0:
                    shown = shown[max(len(shown) - fanout, 0) :]
                picked = [shown[offset] for offset in picks_of(stream, shown, fanout, options)]
                for edge in picked:
                    if edge.source not in place:
                        place[edge.source] = len(tree.nodes)
                        tree.nodes.append(edge.source)
                if row.edges or not row.word:  # empty rows are left out where there are types
                    tree.rows[-1].append((row.relation, [(place[edge.source], edge.place) for edge in picked]))
        tree.known.append(len(tree.nodes))
    return tree


def _by_hop(trees: list[Tree], hops: int) -> Expected:
    """Returns all trees in one: nodes and rows hop by hop, in each hop tree by tree."""
    at: dict[tuple[int, int], int] = {}
    sizes = []
    for hop in range(hops + 1):
        for number, tree in enumerate(trees):
            for i in range(tree.known[hop - 1] if hop else 0, tree.known[hop]):
                at[number, i] = len(at)
        sizes.append(len(at))
    indptr, indices, e_id, rows = [0], [], [], []
    for number, i in at:
        for relation, row in trees[number].rows[i] if i < len(trees[number].rows) else []:
            rows.append((at[number, i], relation))
            indices += [at[number, source] for source, _ in row]
            e_id += [place for _, place in row]
            indptr.append(len(indices))
    nodes = [trees[number].nodes[i] for number, i in at]
    return Expected(nodes, indptr, indices, tuple(sizes), e_id, [number for number, _ in at], rows)

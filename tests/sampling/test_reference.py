"""Every sampler against `tests.sampling.reference`, bit for bit: nodes, rows, hops, ids of edges and trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from a3gnn.graphs.edges import Edges
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from tests.sampling.reference import Edge, Expected, Options, sample

FANOUTS = ((), (1,), (-1,), (2, 3), (3, -1), (-1, 2), (5, 1, 2), (70, 2), (2, 90))


class Case:
    """A random graph with repeated edges, loops, nodes without edges and a long row; and seeds, some repeated."""

    def __init__(self, number: int, *, repeats: bool) -> None:
        draw = np.random.default_rng(number)
        self.nodes = int(draw.integers(2, 120))
        sources, targets = draw.integers(0, self.nodes, size=(2, int(draw.integers(0, 4 * self.nodes))))
        targets[: len(targets) // 3] = 0  # a row of up to 160 edges
        targets[targets == 1] = 0  # a node without in-neighbors
        pairs = np.stack([sources, targets], axis=1)
        self.pairs = draw.permutation(pairs)
        self.weights = draw.choice([0.0, 0.5, 1.0, 3.0], size=len(pairs)) * draw.random(len(pairs))
        self.seeds = draw.choice(self.nodes, size=min(self.nodes, int(draw.integers(1, 12))), replace=False)
        self.seeds[0] = 0 if not (self.seeds == 0).any() else self.seeds[0]
        if repeats:
            self.seeds = draw.permutation(np.concatenate([self.seeds, draw.choice(self.seeds, size=3)]))
        cached = frozenset(np.flatnonzero(draw.random(self.nodes) < 0.4).tolist())
        keys = (int(draw.integers(0, 2**64, dtype=np.uint64)), int(draw.integers(0, 9)), int(draw.integers(0, 2**40)))
        self.options = Options(FANOUTS[number % len(FANOUTS)], *keys, cached=cached)

    @property
    def mask(self) -> np.ndarray:
        mask = np.zeros(self.nodes, dtype=np.bool_)
        mask[list(self.options.cached)] = True
        return mask

    def edges(self, weighted: bool) -> Edges:
        return Edges.of(self.pairs[:, 0], self.pairs[:, 1], self.nodes, self.weights if weighted else None)

    def expected(self, options: Options) -> Expected:
        rows: list[list[Edge]] = [[] for _ in range(self.nodes)]
        for source, place in sorted((int(source), place) for place, (source, _) in enumerate(self.pairs)):
            rows[self.pairs[place, 1]].append(Edge(source, place, float(self.weights[place])))
        return sample(rows, self.seeds.tolist(), options)


def same(one: Subgraph, expected: Expected, *, ids: bool = True) -> None:
    for name in ("n_id", "indptr", "indices"):
        array = getattr(one, name)
        assert array.dtype == np.int32
        assert array.tolist() == getattr(expected, name)
    assert one.hop_sizes == expected.hop_sizes
    assert (one.e_id is not None) == ids
    if one.e_id is not None:
        assert one.e_id.dtype == np.int64
        assert one.e_id.tolist() == expected.e_id


CASES = pytest.mark.parametrize("number", range(27))
HOW = {
    "uniform": {},
    "biased": {"bias": 3.0},
    "replace": {"replace": True},
    "weighted": {"weighted": True},
    "weighted, replace": {"weighted": True, "replace": True},
}


@CASES
@pytest.mark.parametrize("seeds", ["distinct", "repeated", "disjoint"])
@pytest.mark.parametrize("how", HOW)
def test_edges_are_those_of_the_reference(number: int, seeds: str, how: str) -> None:
    case = Case(number, repeats=seeds != "distinct")
    options = replace(case.options, disjoint=seeds == "disjoint", **HOW[how])
    sampler = Sampler(
        case.edges(options.weighted),
        options.fanouts,
        seed=options.seed,
        bias_rate=options.bias,
        cached=case.mask,
        replace=options.replace,
        disjoint=options.disjoint,
    )
    for _ in range(2):  # the second call uses the map that the first one returned
        subgraph = sampler.sample(case.seeds.astype(np.int32), options.epoch, options.batch)
        expected = case.expected(options)
        same(subgraph, expected)
        assert (subgraph.tree is None) == (not options.disjoint)
        if subgraph.tree is not None:
            assert subgraph.tree.tolist() == expected.tree


@CASES
@pytest.mark.parametrize("bias", [1.0, 3.0])
@pytest.mark.parametrize("sampler", [Sampler, DeviceSampler])
def test_neighbors_are_those_of_the_reference(number: int, bias: float, sampler: type) -> None:
    case = Case(number, repeats=False)
    edges, options = replace(case.edges(weighted=False), ids=None), replace(case.options, bias=bias)
    made = sampler(edges, options.fanouts, seed=options.seed, bias_rate=bias, cached=case.mask)
    for _ in range(2):
        subgraph = made.sample(case.seeds.astype(np.int32), options.epoch, options.batch)
        same(subgraph, case.expected(options), ids=False)


def test_the_cases_have_what_samplers_may_get_wrong() -> None:
    cases = [Case(number, repeats=True) for number in range(27)]
    degrees = [np.bincount(case.pairs[:, 1], minlength=case.nodes) for case in cases]
    assert max(map(max, degrees)) > 100
    assert all((degree == 0).any() for degree in degrees)
    assert any(len(np.unique(case.pairs, axis=0)) < len(case.pairs) for case in cases)
    assert any((case.pairs[:, 0] == case.pairs[:, 1]).any() for case in cases)
    for options in HOW.values():
        results = [case.expected(replace(case.options, **options)) for case in cases]
        assert len({tuple(result.e_id) for result in results}) > 20
    deep = [case.expected(case.options) for case in cases if len(case.options.fanouts) == 3]
    assert any(result.hop_sizes[0] < result.hop_sizes[1] < result.hop_sizes[2] for result in deep)

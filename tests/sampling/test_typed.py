"""Samples of typed and timed graphs against `tests.sampling.reference`, bit for bit; leaks; and the view by type."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.edges import EdgeList, Edges
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.sampling.typed import by_type
from tests.sampling.reference import Edge, Options, Row, sample_typed

FANOUTS = ((), (2,), (-1,), (2, 3), (3, -1, 1), (4, 70))


class Case:
    """A random graph of several types: relations without edges, types without relations, repeats, ties in time."""

    def __init__(self, number: int, *, times: bool = False, weights: bool = False) -> None:
        self.draw = draw = np.random.default_rng(number)
        types = [f"t{kind}" for kind in range(int(draw.integers(1, 6)))]
        self.counts = {kind: int(draw.integers(1, 40)) for kind in types}
        names = {Relation(*draw.choice(types, 1), f"r{draw.integers(3)}", *draw.choice(types, 1)) for _ in range(8)}
        self.schema = Schema.of(self.counts, sorted(names))
        self.lists = [self.edge_list(relation, number, times, weights) for relation in self.schema.relations]
        if times and all(one.times is None for one in self.lists):
            self.lists[0] = self.lists[0]._replace(times=np.zeros(len(self.lists[0].sources), dtype=np.int64))
        total = sum(self.counts.values())
        self.seeds = draw.choice(total, size=min(total, int(draw.integers(1, 12))), replace=False)
        keys = (int(draw.integers(0, 2**64, dtype=np.uint64)), int(draw.integers(0, 9)), int(draw.integers(0, 2**40)))
        fanouts = FANOUTS[number % len(FANOUTS)]
        if number % 2:  # one for each relation, 0 included
            fanouts = tuple(tuple(draw.integers(-1, 4, size=len(self.schema.relations)).tolist()) for _ in fanouts)
        self.options = Options(fanouts, *keys)

    def edge_list(self, relation: Relation, number: int, times: bool, weights: bool) -> EdgeList:
        draw, size = self.draw, int(self.draw.integers(0, 120))
        sources = draw.integers(0, self.counts[relation.source], size=size)
        targets = draw.integers(0, self.counts[relation.target], size=size)
        targets[: size // 3] = 0  # a long row
        weight = draw.choice([0.0, 0.5, 3.0], size=size) if weights else None
        timed = times and draw.random() < 0.7
        time = draw.integers(-5, 20, size=size) if number % 2 else draw.normal(size=size).round(1)
        return EdgeList(sources, targets, weight, time if timed else None)

    @property
    def edges(self) -> Edges:
        return Edges.of_relations(self.schema, self.lists)

    def rows(self) -> list[list[Row]]:
        rows: list[list[Row]] = []
        for kind, count in self.counts.items():
            into = [number for number, one in enumerate(self.schema.relations) if one.target == kind]
            rows += [[self.row(number, node) for number in into] for node in range(count)]
        return rows

    def row(self, number: int, node: int) -> Row:
        edges, first = self.lists[number], self.schema.first_node(self.schema.relations[number].source)
        listed = []
        for place in np.flatnonzero(edges.targets == node).tolist():
            weight = 1.0 if edges.weights is None else float(edges.weights[place])
            time = -math.inf if edges.times is None else float(edges.times[place])
            listed.append(Edge(first + int(edges.sources[place]), place, weight, time))
        timed = any(one.times is not None for one in self.lists)
        listed.sort(key=lambda edge: (edge.time if timed else edge.source, edge.place))
        return Row(listed, number, int(self.schema.words[number]), node, edges.times is not None)

    def sample(self, options: Options, until: np.ndarray | None = None) -> Subgraph:
        edges, how = self.edges, {"replace": options.replace, "disjoint": options.disjoint, "last": options.last}
        sampler = Sampler(edges, options.fanouts, seed=options.seed, **how)
        ranks = None if edges.times is None or until is None else edges.times.rank_at(until)
        return sampler.sample(self.seeds.astype(np.int32), options.epoch, options.batch, ranks)


def same(case: Case, options: Options, until: np.ndarray | None = None) -> None:
    one, expected = (
        case.sample(options, until),
        sample_typed(case.rows(), case.seeds.tolist(), options, None if until is None else until.tolist()),
    )
    for name in ("n_id", "indptr", "indices", "e_id"):
        assert getattr(one, name).tolist() == getattr(expected, name)
    assert one.hop_sizes == expected.hop_sizes
    assert list(zip(*one.rows.tolist(), strict=True)) == expected.rows
    assert (one.tree is None) == (not options.disjoint)
    assert one.tree is None or one.tree.tolist() == expected.tree


@pytest.mark.parametrize("number", range(36))
@pytest.mark.parametrize("how", [{}, {"replace": True}, {"disjoint": True}, {"weighted": True}])
def test_samples_are_those_of_the_reference(number: int, how: dict[str, bool]) -> None:
    case = Case(number, weights="weighted" in how)
    same(case, replace(case.options, **how))


@pytest.mark.parametrize("number", range(36))
@pytest.mark.parametrize("how", [{}, {"last": True}, {"replace": True}, {"replace": True, "last": True}])
def test_timed_samples_are_those_of_the_reference(number: int, how: dict[str, bool]) -> None:
    case = Case(number, times=True)
    case.seeds = case.draw.choice(case.seeds, size=len(case.seeds))  # a node at several times
    until = case.draw.integers(-8, 24, size=len(case.seeds))
    same(case, replace(case.options, disjoint=True, **how), until)


def test_the_cases_have_what_samplers_may_get_wrong() -> None:
    cases = [Case(number, times=True) for number in range(36)]
    assert any(not len(edges.sources) for case in cases for edges in case.lists)
    assert any({one.target for one in case.schema.relations} < {*case.counts} for case in cases)
    assert any(len({one.times is None for one in case.lists}) == 2 for case in cases)
    assert any(len(case.schema.relations) > 5 for case in cases)
    known = [case.edges.times for case in cases]
    assert all(times is not None and len(times.distinct) for times in known)


@pytest.mark.parametrize("last", [False, True])
def test_no_edge_is_later_than_its_seed(last: bool) -> None:
    for number in range(20):
        case = Case(number, times=True)
        nodes, draws = sum(case.counts.values()), np.random.default_rng(number)
        case.seeds = draws.integers(0, nodes, size=300)
        until = draws.integers(-8, 24, size=300)
        view = by_type(case.sample(replace(case.options, fanouts=(3, 3), disjoint=True, last=last), until), case.schema)
        for number, relation in enumerate(case.schema.relations):
            times = case.lists[number].times
            if times is not None:
                tree = view.tree[case.schema.types.index(relation.target)][view.edge_index[number][1]]
                assert (times[view.e_id[number]] <= until[tree]).all()


def test_each_edge_that_a_seed_may_see_is_drawn_as_often() -> None:
    schema = Schema.of({"a": 12, "b": 1}, [Relation("a", "to", "b")])
    times = np.arange(12) % 5
    edges = Edges.of_relations(schema, [EdgeList(np.arange(12), np.zeros(12, dtype=np.int64), times=times)])
    assert edges.times is not None
    seeds = np.full(20_000, 12, dtype=np.int32)
    until = edges.times.rank_at(np.full(20_000, 2))
    drawn = Sampler(edges, (3,), seed=0, disjoint=True).sample(seeds, 0, 0, until).e_id
    counts = np.bincount(drawn, minlength=12)
    assert (counts[times > 2] == 0).all()
    assert chisquare(counts[times <= 2]).pvalue > 1e-3
    assert counts.sum() == 60_000


def test_the_latest_edges_are_taken_by_time_then_by_place() -> None:
    schema = Schema.of({"a": 6, "b": 1}, [Relation("a", "to", "b")])
    times = np.array([2, 0, 1, 1, 9, 1])
    edges = Edges.of_relations(schema, [EdgeList(np.arange(6), np.zeros(6, dtype=np.int64), times=times)])
    sampler = Sampler(edges, (2,), seed=0, disjoint=True, last=True)
    for until, taken in ((1, [3, 5]), (5, [5, 0]), (9, [0, 4]), (0, [1]), (-1, [])):
        ranks = edges.times.rank_at(np.array([until]))
        assert sampler.sample(np.array([6], dtype=np.int32), 0, 0, ranks).e_id.tolist() == taken


@pytest.mark.parametrize("number", range(36))
def test_a_view_by_type_has_every_node_and_edge(number: int) -> None:
    case = Case(number)
    subgraph = case.sample(replace(case.options, disjoint=number % 3 == 0))
    view, schema = by_type(subgraph, case.schema), case.schema
    for kind, (first, end) in enumerate(pairwise(schema.layout[0].tolist())):
        of_kind = (subgraph.n_id >= first) & (subgraph.n_id < end)
        assert view.n_id[kind].tolist() == (subgraph.n_id[of_kind] - first).tolist()
        steps = [of_kind[a:b].sum() for a, b in pairwise((0, *subgraph.hop_sizes))]
        assert view.num_sampled_nodes[kind].tolist() == steps
        if subgraph.tree is not None:
            assert view.tree[kind].tolist() == subgraph.tree[of_kind].tolist()
    for number, relation in enumerate(schema.relations):
        ends = [view.n_id[schema.types.index(kind)] for kind in (relation.source, relation.target)]
        ids = view.e_id[number]
        assert ends[0][view.edge_index[number][0]].tolist() == case.lists[number].sources[ids].tolist()
        assert ends[1][view.edge_index[number][1]].tolist() == case.lists[number].targets[ids].tolist()
        assert view.num_sampled_edges[number].sum() == len(ids)
        begin = 0
        for count in view.num_sampled_edges[number]:
            assert (np.diff(view.edge_index[number][1][begin : begin + count]) >= 0).all()
            begin += count
    assert sum(map(len, view.e_id)) == subgraph.num_edges


def test_a_relation_more_moves_no_other_draw() -> None:
    case = Case(1)
    schema, lists = case.schema, case.lists
    more = Schema.of(case.counts, [Relation("t0", "new", "t0"), *schema.relations])
    place = {relation: number for number, relation in enumerate(schema.relations)}
    new = EdgeList(np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64))
    edges = Edges.of_relations(more, [lists[place[one]] if one in place else new for one in more.relations])
    seeds = np.arange(sum(case.counts.values()), dtype=np.int32)
    before = by_type(Sampler(case.edges, (2,), seed=3).sample(seeds, 0, 0), schema)
    after = by_type(Sampler(edges, (2,), seed=3).sample(seeds, 0, 0), more)
    for number, relation in enumerate(schema.relations):
        assert before.e_id[number].tolist() == after.e_id[more.relations.index(relation)].tolist()


def test_induced_edges_are_all_between_the_nodes() -> None:
    for number in range(12):
        case = Case(number)
        nodes = np.unique(case.seeds).astype(np.int32)
        indptr, sources, ids = Sampler(case.edges, (), seed=0).induced(nodes)
        rows = [row for node in nodes.tolist() for row in case.rows()[node]]
        expected = [[(edge.source, edge.place) for edge in row.edges if edge.source in nodes] for row in rows]
        found = [(int(nodes[source]), int(place)) for source, place in zip(sources, ids, strict=True)]
        assert [found[a:b] for a, b in pairwise(indptr.tolist())] == expected


@pytest.mark.parametrize("missing", [np.nan, np.iinfo(np.int64).min])
def test_missing_times_are_refused(missing: float) -> None:
    schema = Schema.of({"a": 3}, [Relation("a", "to", "a")])
    times = np.array([1, missing, 2])
    with pytest.raises(UsageError, match="times must be known, 1 of 3 are missing"):
        Edges.of_relations(schema, [EdgeList(np.arange(3), np.arange(3), times=times)])


def test_arguments_that_do_not_fit_are_refused() -> None:
    schema = Schema.of({"a": 3}, [Relation("a", "to", "a")])
    ends = np.arange(3), np.arange(3)
    with pytest.raises(UsageError, match="times must be 3 numbers"):
        Edges.of_relations(schema, [EdgeList(*ends, times=np.arange(2))])
    with pytest.raises(UsageError, match="weights must be left out"):
        Edges.of_relations(schema, [EdgeList(*ends, weights=np.ones(3), times=np.arange(3))])
    timed = Edges.of_relations(schema, [EdgeList(*ends, times=np.arange(3))])
    with pytest.raises(UsageError, match="need disjoint=True"):
        Sampler(timed, (1,), seed=0)
    with pytest.raises(UsageError, match="bias_rate must be 1 with times"):
        Sampler(timed, (1,), seed=0, bias_rate=2.0, disjoint=True)


def test_schemas_that_can_not_be_are_refused() -> None:
    with pytest.raises(GraphError, match="a__to__b names 'b'; the types are a"):
        Schema.of({"a": 1}, [Relation("a", "to", "b")])
    with pytest.raises(GraphError, match="relations must be distinct"):
        Schema.of({"a": 1}, [Relation("a", "to", "a")] * 2)
    with pytest.raises(GraphError, match="at most 2147483647 nodes"):
        Schema.of({"a": 2**31}, [])
    with pytest.raises(GraphError, match="at most 2147483647 rows"):
        Schema.of({"a": 2**30}, [Relation("a", name, "a") for name in "xy"])


def test_words_come_from_names_alone() -> None:
    one = Schema.of({"a": 1, "b": 2}, [Relation("a", "x", "b"), Relation("b", "y", "a")])
    other = Schema.of({"b": 9, "a": 3, "c": 1}, [Relation("c", "z", "c"), *reversed(one.relations)])
    words = dict(zip(other.relations, other.words.tolist(), strict=True))
    assert [words[relation] for relation in one.relations] == one.words.tolist()
    assert Schema.untyped(3).words.tolist() == [0]

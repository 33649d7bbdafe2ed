from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import EdgeList, Edges
from a3gnn.graphs.links import Links
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.pipeline.pairs import LinkExamples, PairSeeds
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.typed import by_type
from a3gnn.task import NegativeDraws

USERS, ITEMS = 30, 50
SCHEMA = Schema(("tag", "user", "item"), (7, USERS, ITEMS), (Relation("user", "likes", "item"),))
WITHIN = Schema(("tag", "node"), (7, USERS), tuple(Relation("node", name, "node") for name in ("a", "b")))


def links(within: bool = False, count: int = 200) -> Links:
    rng = np.random.default_rng(0)
    sizes = (USERS, USERS) if within else (USERS, ITEMS)
    pairs = np.stack([rng.integers(size, size=count) for size in sizes]).astype(np.int32)
    relations = WITHIN.relations if within else SCHEMA.relations
    return Links(relations, sizes, pairs, rng.integers(len(relations), size=count).astype(np.int32))


def minibatch(
    of: Links, negatives: str, ids: np.ndarray, *, epoch: int = 0, seed: int = 0
) -> tuple[np.ndarray, LinkExamples]:
    schema = WITHIN if len(of.directions) == 2 else SCHEMA
    maker = PairSeeds(
        of, schema, np.arange(min(150, of.pairs.shape[1]), dtype=np.int32), NegativeDraws.of(negatives), seed
    )
    batch, examples = maker.planned(PlannedBatch(index=3, part=0, seeds=ids), epoch)
    return batch.seeds, examples


def nodes_of(seeds: np.ndarray, of: Links, tails: bool) -> np.ndarray:
    """Returns the seeds of the type of the tails or the heads, as ids within it, in order."""
    schema = WITHIN if len(of.directions) == 2 else SCHEMA
    kind = of.ends[tails]
    own = seeds - schema.first_node(kind)
    return own[(own >= 0) & (own < schema.counts[kind])]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("negatives", ["binary:3", "softmax:9", "softmax"])
def test_places_lead_back_to_the_pairs_and_to_their_rivals(within: bool, negatives: str) -> None:
    of, ids = links(within), np.array([5, 149, 5, 8], dtype=np.int32)
    seeds, found = minibatch(of, negatives, ids)
    assert len(np.unique(seeds)) == len(seeds)
    heads, tails = nodes_of(seeds, of, False), nodes_of(seeds, of, True)
    np.testing.assert_array_equal(heads[found.heads], of.pairs[0, ids])
    np.testing.assert_array_equal(tails[found.tails], of.pairs[1, ids])
    np.testing.assert_array_equal(found.relations, of.kinds[ids])
    assert [one.are_heads for one in found.rivals] == ([True, False] if within else [True])
    train = {(int(k), int(h), int(t)) for k, (h, t) in zip(of.kinds[:150], of.pairs[:, :150].T, strict=True)}
    for one in found.rivals:
        rivals = (tails if one.are_heads else heads)[one.nodes]
        shapes = {"binary:3": (4, 3), "softmax:9": (9,), "softmax": np.unique(rivals).shape}
        assert rivals.shape == shapes[negatives]
        for row, pair in enumerate(ids):
            head, tail = of.pairs[:, pair].tolist()
            for column, rival in enumerate(rivals[row] if rivals.ndim == 2 else rivals):
                pair_of_rival = (int(of.kinds[pair]), *((head, rival) if one.are_heads else (rival, tail)))
                is_known = pair_of_rival in train
                assert is_known == (False if one.known is None else bool(one.known[row, column]))
    if negatives == "softmax":
        assert all(bool(one.known.any(dim=1).all()) for one in found.rivals if one.known is not None)


def test_negatives_depend_on_seed_epoch_and_minibatch_alone() -> None:
    of, ids = links(), np.arange(40, dtype=np.int32)
    one, again, later, other = (
        minibatch(of, "binary:2", ids, epoch=epoch, seed=seed)[1].rivals[0].nodes
        for epoch, seed in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, later)
    assert not torch.equal(one, other)


def test_both_directions_draw_other_negatives() -> None:
    of = links(within=True)
    seeds, found = minibatch(of, "softmax:20", np.arange(9, dtype=np.int32))
    first, second = (seeds[one.nodes].tolist() for one in found.rivals)
    assert first != second


def test_negatives_cover_all_free_candidates() -> None:
    of = links()
    seen: set[int] = set()
    for epoch in range(150):
        seeds, found = minibatch(of, "binary:4", np.array([7], dtype=np.int32), epoch=epoch)
        seen |= set(nodes_of(seeds, of, True)[found.rivals[0].nodes].ravel().tolist())
    taken = {int(t) for h, t in of.pairs[:, :150].T if h == of.pairs[0, 7]}
    assert seen == set(range(ITEMS)) - taken


def test_a_query_without_a_free_candidate_is_an_error() -> None:
    every = np.stack([np.zeros(ITEMS), np.arange(ITEMS)]).astype(np.int32)
    of = Links(SCHEMA.relations, (USERS, ITEMS), every, np.zeros(ITEMS, dtype=np.int32))
    with pytest.raises(UsageError, match="no train pair"):
        minibatch(of, "binary:1", np.array([0], dtype=np.int32))


def shown_edges(of: Links, schema: Schema, lists: list[EdgeList], ids: np.ndarray, fanouts: list[int], hides: bool):
    """Returns the sampled edges of each relation as (source, target, place in its list), and all nodes."""
    maker = PairSeeds(of, schema, np.arange(150, dtype=np.int32), NegativeDraws.of("binary:2"), 0, hides=hides)
    batch, examples = maker.planned(PlannedBatch(index=3, part=0, seeds=ids), 0)
    whole = Sampler(Edges.of_relations(schema, lists), fanouts, seed=0).sample(batch.seeds, 0, 3)
    view = by_type(maker.without(whole, examples), schema)
    found = []
    for relation, edges, places in zip(schema.relations, view.edge_index, view.e_id, strict=True):
        ends = [view.n_id[schema.types.index(kind)] for kind in (relation.source, relation.target)]
        found.append(set(zip(ends[0][edges[0]].tolist(), ends[1][edges[1]].tolist(), places.tolist(), strict=True)))
    return found, [one.tolist() for one in view.n_id]


@pytest.mark.parametrize("fanouts", [[-1, -1], [3, 2]])
@pytest.mark.parametrize("within", [False, True])
def test_hidden_pairs_are_all_edges_of_the_minibatch_and_their_reverses(within: bool, fanouts: list[int]) -> None:
    rng = np.random.default_rng(5)
    pairs = np.stack([rng.integers(12, size=150), rng.integers(12, size=150)]).astype(np.int32)  # repeated ones, too
    kinds = rng.integers(2, size=150).astype(np.int32)
    ends = ("node", "node") if within else ("user", "item")
    names = [Relation(ends[0], name, ends[1]) for name in ("a", "b", "other")]
    names += [Relation(ends[1], name, ends[0]) for name in ("rev_a", "rev_b", "rev_other", "mirror")]
    names += [Relation("tag", "of", ends[0]), Relation(ends[0], "has", "tag")]
    counts = {"tag": 7, "node": USERS} if within else {"tag": 7, "user": USERS, "item": ITEMS}
    schema = Schema.of(counts, names)
    own = [pairs[:, kinds == kind].astype(np.int64) for kind in range(2)]
    tags = np.stack([rng.integers(7, size=40), rng.integers(12, size=40)])
    edges = dict(
        zip(names, [*own, own[0], *(one[::-1] for one in (*own, own[0], own[1])), tags, tags[::-1]], strict=True)
    )
    places = {one.name: schema.relations.index(one) for one in names}
    mirrors = ((places["rev_a"], 0), (places["rev_b"], 1), (places["mirror"], 1))
    sizes = schema.counts[ends[0]], schema.counts[ends[1]]
    of = Links(tuple(names[:2]), sizes, pairs, kinds, mirrors)
    ids = rng.permutation(150)[:25].astype(np.int32)
    lists = [EdgeList(*edges[one]) for one in schema.relations]
    given = of, schema, lists, ids, fanouts
    before, nodes = shown_edges(*given, hides=False)
    after, same = shown_edges(*given, hides=True)
    assert nodes == same
    trained = {(int(kinds[i]), *pairs[:, i].tolist()) for i in ids}
    hidden = 0
    for relation, shown, left in zip(schema.relations, before, after, strict=True):
        kind = {"a": 0, "rev_a": 0, "b": 1, "rev_b": 1, "mirror": 1}.get(relation.name)
        is_reversed = relation.name in ("rev_a", "rev_b", "mirror")
        expected = {
            (source, target, place)
            for source, target, place in shown
            if not ((kind, source, target) in trained and (within or not is_reversed))
            and not ((kind, target, source) in trained and (within or is_reversed))
        }
        assert left == expected, relation
        hidden += len(shown) - len(left)
    assert hidden > 20

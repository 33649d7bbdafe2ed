"""`link_split` hides what is to be predicted, and `check_link_split` finds each leak that a slow reference finds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import RandomLinkSplit

from a3gnn import check_link_split, link_split
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.link_split import LinkPart, LinkSplit

PARTS = ("train", "val", "test")
#: A relation between two types, one within a type, and those beside them.
BETWEEN, WITHIN = ("user", "rates", "item"), ("user", "knows", "user")
OTHERS = {
    BETWEEN: (("item", "rev_rates", "user"), ("item", "liked_by", "user"), ("user", "views", "item")),
    WITHIN: (("user", "rev_knows", "user"), ("user", "follows", "user")),
}
Edge = tuple[int, int, int]  # source, target, time


class Case(NamedTuple):
    """A link split in plain Python, to be judged by `reference` and by `check_link_split`."""

    relation: Any
    timed: bool
    messages: dict[str, dict[Any, list[Edge]]]
    pairs: dict[str, list[Edge]]
    negatives: dict[str, list[Edge]]


# --- the reference ---------------------------------------------------------------------------------------------------


def mirrored(relation: Any, other: Any, edge: Edge) -> list[tuple[int, int]]:
    """The pairs of `relation` that an edge of `other` shows."""
    u, v = edge[:2]
    if relation is None:
        return [(u, v), (v, u)]
    straight = [(u, v)] if other[::2] == relation[::2] else []
    return straight + ([(v, u)] if other[::2] == relation[::2][::-1] else [])


def mirrors(case: Case) -> set[Any]:
    relation, everywhere = case.relation, {other for part in case.messages.values() for other in part}
    own = [edge for part in case.messages.values() for edge in part.get(relation, [])]
    own += [edge for part in case.pairs.values() for edge in part]
    known = {frozenset(mirrored(relation, relation, edge)) for edge in own}
    found = set()
    for other in everywhere - {relation}:
        edges = [edge for part in case.messages.values() for edge in part.get(other, [])]
        seen = {frozenset(pairs) for edge in edges if (pairs := mirrored(relation, other, edge))}
        alike = other[1] == f"rev_{relation[1]}" and mirrored(relation, other, (0, 1, 0))
        if alike or (seen & known and 2 * len(seen & known) >= min(len(seen), len(known))):
            found.add(other)
    return found


def reference(case: Case) -> Counter[tuple[str, str]]:
    """The number of leaked pairs by part and kind."""
    found: Counter[tuple[str, str]] = Counter()
    relation, also = case.relation, mirrors(case)
    within = relation is None or relation[0] == relation[2]
    for at, part in enumerate(PARTS):
        places = [case.messages[earlier] for earlier in PARTS[: at + 1]]
        shown = [(other, edge) for place in places for other, edges in place.items() for edge in edges]
        shown += [(relation, edge) for earlier in PARTS[:at] for edge in case.pairs[earlier]]
        own = set() if case.timed else {edge[:2] for other, edge in shown if other == relation}
        mirror = {pair for other, edge in shown if other in also for pair in mirrored(relation, other, edge)}
        for u, v, time in case.pairs[part] if at else ():
            found[part, "edges"] += (u, v) in own
            found[part, "reversed"] += within and (v, u) in own and (u, v) not in own
            found[part, "relations"] += (u, v) in mirror
            found[part, "times"] += case.timed and any(time <= edge[2] for other, edge in shown if other == relation)
        edges = {edge[:2] for place in case.messages.values() for edge in place.get(relation, [])}
        found[part, "negatives"] += sum(edge[:2] in edges for edge in case.negatives[part]) if not case.timed else 0
    return +found


# --- random cases ----------------------------------------------------------------------------------------------------


def random_case(rng: np.random.Generator, form: str) -> Case:
    """A split without a leak of its own, except by chance: each pair is in one part, and so is its reverse."""
    relation = (BETWEEN, WITHIN)[rng.integers(2)] if form == "hetero" else None
    timed = bool(rng.integers(4) == 0)
    edges = [tuple(edge) for edge in rng.integers(0, (9, 9, 50), (int(rng.integers(6, 22)), 3)).tolist()]
    if timed:
        parts = [sum(edge[2] >= cut for cut in (20, 35)) for edge in edges]
    else:
        part_of = {pair: int(rng.choice(3, p=(0.6, 0.2, 0.2))) for pair in {frozenset(edge[:2]) for edge in edges}}
        parts = [part_of[frozenset(edge[:2])] for edge in edges]
    pairs = {
        name: [edge for edge, part in zip(edges, parts, strict=True) if part == at] for at, name in enumerate(PARTS)
    }
    shown = {"train": pairs["train"], "val": pairs["train"], "test": pairs["train"] + pairs["val"]}
    if form == "arrays":
        shown = {"train": pairs["train"], "val": [], "test": []}
    messages: dict[str, dict[Any, list[Edge]]] = {name: {relation: list(edges)} for name, edges in shown.items()}
    negatives: dict[str, list[Edge]] = {name: [] for name in PARTS}
    if form == "data" and not timed:
        known = {edge[:2] for edge in edges}
        free = [(u, v, 0) for u in range(9) for v in range(9) if (u, v) not in known]
        negatives = {name: [free[at] for at in rng.integers(0, len(free), 3)] for name in PARTS}
    for other in OTHERS.get(relation, ()):
        if kind := int(rng.integers(3)):  # a mirror, or edges by chance
            for name in PARTS:
                chance = [tuple(edge) for edge in rng.integers(0, (9, 9, 50), (4, 3)).tolist()]
                reversed_ = [(v, u, t) if other[0] == "item" else (u, v, t) for u, v, t in shown[name]]
                hidden = {frozenset(edge[:2]) for part in ("val", "test") for edge in pairs[part]} if timed else set()
                clean = [edge for edge in reversed_ if frozenset(edge[:2]) not in hidden]
                messages[name][other] = clean if kind == 1 else chance
    return Case(relation, timed, messages, {name: list(edges) for name, edges in pairs.items()}, negatives)


def plant(case: Case, rng: np.random.Generator) -> None:
    """Adds what may be a leak."""
    part = ("val", "test")[rng.integers(2)]
    if not case.pairs[part]:
        return
    u, v, time = case.pairs[part][rng.integers(len(case.pairs[part]))]
    arrays = case.relation is None and not case.messages["test"][None] and not case.messages["val"][None]
    where = "train" if arrays else PARTS[rng.integers(3)]
    own = case.messages[where][case.relation]
    within = case.relation is None or case.relation == WITHIN
    others = [other for other in case.messages[where] if other != case.relation]
    kinds = ["edge", "pair", "time"] + ["reversed"] * within + ["negative"] * (not arrays) + ["other"] * bool(others)
    kind = kinds[rng.integers(len(kinds))]
    if kind == "edge":
        own += [(u, v, time)] * int(rng.integers(1, 3))
    elif kind == "reversed":
        own.append((v, u, time))
    elif kind == "time":
        own.append((*rng.integers(0, 9, 2).tolist(), time + int(rng.integers(-1, 2))))
    elif kind == "pair":
        case.pairs["train" if part == "val" else PARTS[rng.integers(2)]].append((u, v, time))
    elif kind == "negative" and not case.timed:
        case.negatives[PARTS[rng.integers(3)]].append((u, v, time))
    elif kind == "other":
        other = others[rng.integers(len(others))]
        case.messages[where][other].append((v, u, time) if other[0] == "item" else (u, v, time))
    if arrays:
        case.messages["train"][None] = case.pairs["train"] = [*{*own, *case.pairs["train"]}]


def ids(edges: list[Edge]) -> np.ndarray:
    return np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T


def times(edges: list[Edge]) -> np.ndarray:
    return np.array([edge[2] for edge in edges], dtype=np.int64)


def inputs(case: Case, form: str) -> list[Any]:
    """The three parts as arrays, as `Data` with negatives, or as `HeteroData`."""
    found: list[Any] = []
    for name in PARTS:
        if form == "arrays":
            index = ids(case.pairs[name])
            found.append((index, times(case.pairs[name])) if case.timed else index)
            continue
        data = Data() if form == "data" else HeteroData()
        for other, edges in case.messages[name].items():
            store = data if other is None else data[other]
            store.edge_index = torch.from_numpy(ids(edges))
            if case.timed and other == case.relation:
                store.time = torch.from_numpy(times(edges))
        store = data if case.relation is None else data[case.relation]
        both = case.pairs[name] + case.negatives[name]
        store.edge_label_index = torch.from_numpy(ids(both))
        store.edge_label = torch.ones(len(both))
        store.edge_label[len(case.pairs[name]) :] = 0
        if case.timed:
            store.edge_label_time = torch.from_numpy(times(both))
        found.append(data)
    return found


def reported(parts: list[Any], **options: Any) -> Counter[tuple[str, str]]:
    """The leaked pairs by part and kind, of the message."""
    try:
        check_link_split(*parts, **options)
    except GraphError as error:
        found = re.findall(r"([\d,]+) of [\d,]+ (train|val|test) pairs.*?allow='(\w+)'", str(error))
        return Counter({(part, kind): int(number.replace(",", "")) for number, part, kind in found})
    return Counter()


# A quarter of them has each kind of leak fifty times.
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.weekly) for block in range(1, 4))])
def test_ten_thousand_splits_with_planted_leaks_are_judged_as_by_the_reference(block: int) -> None:
    rng, seen = np.random.default_rng(block), Counter[str]()
    for number in range(2_500):
        form = ("arrays", "arrays", "data", "hetero")[number % 4]
        case = random_case(rng, form)
        for _ in range(int(rng.integers(3))):
            plant(case, rng)
        wanted = reference(case)
        options = {"time_attr": "time"} if case.timed and form != "arrays" else {}
        assert reported(inputs(case, form), **options) == wanted, (number, case)
        seen.update({kind for _, kind in wanted} or {"none"})
    assert min(seen[kind] for kind in ("edges", "reversed", "relations", "times", "negatives", "none")) > 50, seen


# --- link_split ------------------------------------------------------------------------------------------------------


def random_graph(rng: np.random.Generator, kind: str) -> Any:
    """Edges with duplicates, loops and times, numbered by `edge_attr`; mirrors called `rev_NAME` or not."""
    number = int(rng.integers(12, 50))
    index = torch.from_numpy(rng.integers(0, 12, (2, number)))
    if kind == "undirected":
        index = torch.cat([index, index.flip(0)], dim=1)[:, torch.from_numpy(rng.permutation(2 * number))]
    time = torch.from_numpy(rng.integers(0, 40, index.shape[1]))
    if kind in ("directed", "undirected"):
        return Data(edge_index=index, edge_attr=torch.arange(index.shape[1]), time=time, num_nodes=200)
    data, relation = HeteroData(), BETWEEN if kind == "between" else WITHIN
    data[relation].edge_index, data[relation].time = index, time
    data[relation].edge_attr = torch.arange(number)
    for other in OTHERS[relation]:
        shown = index if other[0] == "user" else index.flip(0)
        data[other].edge_index = shown[:, torch.from_numpy(rng.permutation(number)[: int(rng.integers(1, number))])]
    return data


def relation_of(kind: str) -> Any:
    return {"between": BETWEEN, "within": WITHIN}.get(kind)


def as_case(split: LinkSplit, relation: Any, timed: bool) -> Case:
    """The split in plain Python."""
    messages: dict[str, dict[Any, list[Edge]]] = {}
    pairs: dict[str, list[Edge]] = {}
    for name, part in zip(PARTS, split, strict=True):
        messages[name] = {
            store._key: triples(store.edge_index, store.get("time", torch.zeros(store.edge_index.shape[1])))
            for store in part.data.edge_stores
        }
        index = part.edge_label_index if relation is None else part.edge_label_index[1]
        pairs[name] = triples(
            index, torch.zeros(index.shape[1]) if part.edge_label_time is None else part.edge_label_time
        )
    return Case(relation, timed, messages, pairs, {name: [] for name in PARTS})


def triples(index: torch.Tensor, time: torch.Tensor) -> list[Edge]:
    return [tuple(map(int, edge)) for edge in zip(*index.tolist(), time.tolist(), strict=True)]  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["directed", "undirected", "between", "within"])
@pytest.mark.parametrize("timed", [False, True])
def test_splits_leak_nothing_by_the_reference_and_by_the_check(kind: str, timed: bool) -> None:
    rng, relation = np.random.default_rng(7), relation_of(kind)
    options: dict[str, Any] = {"time_attr": "time"} if timed else {}
    for _ in range(60):
        data = random_graph(rng, kind)
        ratio = float(rng.choice([0.0, 0.4]))
        split = link_split(data, 0.2, 3, edge_type=relation, disjoint_train_ratio=ratio, seed=1, **options)
        case = as_case(split, relation, timed)
        assert not reference(case)
        check_link_split(*split, **options)
        store = data if relation is None else data[relation]
        for part in split:
            kept = part.data if relation is None else part.data[relation]
            assert torch.equal(kept.edge_index, store.edge_index[:, kept.edge_attr]), "attributes stay with their edges"
            assert torch.equal(kept.time, store.time[kept.edge_attr])
            assert kept.edge_attr.tolist() == sorted(kept.edge_attr.tolist())
        one = tuple[int, ...] if kind == "between" else frozenset[int]
        if ratio and not timed:
            hidden = {one(edge[:2]) for edge in case.pairs["train"]}
            assert not hidden & {one(edge[:2]) for edge in case.messages["train"][relation]}
        shares = [{one(edge[:2]) for edge in case.pairs[name]} for name in PARTS]
        if not timed:
            assert not shares[0] & shares[1]
            assert not shares[2] & (shares[0] | shares[1])
            assert len(shares[1]) == int(0.2 * len({one(edge[:2]) for edge in triples(store.edge_index, store.time)}))
            assert len(shares[2]) == 3
        else:
            moments = [{edge[2] for edge in case.pairs[name]} for name in PARTS]
            assert max(moments[0]) < min(moments[1]) <= max(moments[1]) < min(moments[2])


def test_the_part_of_a_pair_depends_on_the_seed_and_the_pair() -> None:
    rng = np.random.default_rng(3)
    index = torch.from_numpy(rng.integers(0, 400, (2, 3000)))

    def parts(index: torch.Tensor, seed: int = 0) -> dict[tuple[int, ...], str]:
        split = link_split(Data(edge_index=index), seed=seed)
        return {
            tuple(pair): name
            for name, part in zip(PARTS, split, strict=True)
            for pair in part.edge_label_index.T.tolist()
        }

    found = parts(index)
    assert parts(index[:, torch.from_numpy(rng.permutation(3000))]) == found
    more = parts(torch.cat([index, torch.tensor([[500], [501]])], dim=1))
    assert sum(more[pair] != part for pair, part in found.items()) <= 4
    other = parts(index, seed=1)
    assert sum(other[pair] != part for pair, part in found.items()) > 1000


def test_labels_and_numbers_of_nodes_come_along() -> None:
    index = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 8]])
    data = Data(edge_index=index, edge_label=torch.arange(8) % 3, note="kept")
    split = link_split(data, 2, 2)
    for part in split:
        assert part.data.num_nodes == 9
        assert part.data.note == "kept"
        assert part.edge_label.tolist() == [int(source) % 3 for source in part.edge_label_index[0]]
    assert data.to_dict().keys() == {"edge_index", "edge_label", "note"}
    assert data.edge_index.shape[1] == 8
    hetero = HeteroData()
    hetero["a", "to", "b"].edge_index = index
    assert [link_split(hetero, 1, 1).train.data[kind].num_nodes for kind in ("a", "b")] == [8, 9]


def test_only_one_direction_of_undirected_pairs_is_predicted() -> None:
    once = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    both = Data(edge_index=torch.cat([once, once.flip(0)], dim=1))
    assert sum(part.edge_label_index.shape[1] for part in link_split(both, 1, 1)) == 6
    assert sum(part.edge_label_index.shape[1] for part in link_split(both, 1, 1, is_undirected=False)) == 12
    assert (
        sum(part.edge_label_index.shape[1] for part in link_split(Data(edge_index=once), 1, 1, is_undirected=True)) == 6
    )


# --- splits of PyG ---------------------------------------------------------------------------------------------------


def undirected_data() -> Data:
    index = torch.from_numpy(np.unique(np.random.default_rng(0).integers(0, 50, (2, 150)), axis=1))
    index = index[:, index[0] < index[1]]
    return Data(x=torch.ones(50, 1), edge_index=torch.cat([index, index.flip(0)], dim=1))


def bipartite(reverse: str) -> HeteroData:
    index = torch.from_numpy(np.unique(np.random.default_rng(0).integers(0, 30, (2, 150)), axis=1))
    data = HeteroData({"user": {"num_nodes": 30}, "item": {"num_nodes": 30}})
    data[BETWEEN].edge_index = index
    data["item", reverse, "user"].edge_index = index.flip(0)[:, torch.randperm(index.shape[1])]
    return data


@pytest.mark.parametrize("split_labels", [False, True])
def test_pygs_split_of_undirected_data_leaks_unless_it_is_told_so(split_labels: bool) -> None:
    data = undirected_data()
    check_link_split(*RandomLinkSplit(is_undirected=True, split_labels=split_labels)(data))
    leaky = RandomLinkSplit(split_labels=split_labels)(data)
    with pytest.raises(GraphError, match=r"test pairs are reversed edges of training or message passing, such as \("):
        check_link_split(*leaky)
    check_link_split(*leaky, allow="reversed")


@pytest.mark.parametrize("reverse", ["rev_rates", "rated_by"])
def test_pygs_split_leaks_without_the_reverse_relation(reverse: str) -> None:
    data, other = bipartite(reverse), ("item", reverse, "user")
    found = reported(list(RandomLinkSplit(edge_types=BETWEEN)(data)))
    wanted = {
        (name, "relations"): int(share * data[BETWEEN].num_edges) for name, share in (("val", 0.1), ("test", 0.2))
    }
    assert set(found) == set(wanted)
    assert all(abs(found[key] - wanted[key]) <= 1 for key in found)
    check_link_split(*RandomLinkSplit(edge_types=BETWEEN, rev_edge_types=other)(data))


def test_a_mirror_of_few_pairs_is_hidden_and_found_if_it_is_named() -> None:
    data, other = bipartite("sold_to"), ("item", "sold_to", "user")
    few = data[other].edge_index[:, :20]
    data[other].edge_index = torch.cat([few, torch.randint(30, 60, (2, 200))], dim=1)
    data["item"].num_nodes = data["user"].num_nodes = 60
    split = RandomLinkSplit(edge_types=BETWEEN)(data)
    assert not reported(list(split))
    assert reported(list(split), rev_edge_type=other).keys() <= {("val", "relations"), ("test", "relations")}
    assert reported(list(split), rev_edge_type=[other])
    check_link_split(*link_split(data, edge_type=BETWEEN, rev_edge_type=other), rev_edge_type=other)


def test_pairs_of_a_data_and_arrays_can_be_mixed() -> None:
    data = undirected_data()
    train, val, test = RandomLinkSplit(is_undirected=True, add_negative_train_samples=False, neg_sampling_ratio=0.0)(
        data
    )
    check_link_split(train, val.edge_label_index, test.edge_label_index.numpy())
    assert reported([train, val.edge_label_index, torch.cat([test.edge_label_index, val.edge_label_index], dim=1)]) == {
        ("test", "edges"): val.edge_label_index.shape[1]
    }


def test_a_class_of_edges_is_not_taken_for_negatives_in_silence() -> None:
    data = undirected_data()
    split = RandomLinkSplit(is_undirected=True, neg_sampling_ratio=0.0)(
        Data(x=data.x, edge_index=data.edge_index, edge_label=torch.zeros(data.num_edges, dtype=torch.long))
    )
    with pytest.raises(GraphError, match=r"train pairs are labeled as negatives, but are edges.*negative_label=None"):
        check_link_split(*split)
    check_link_split(*split, negative_label=None)


# --- real sets -------------------------------------------------------------------------------------------------------


def test_the_stored_splits_of_real_sets(typed_folder: Path) -> None:
    with np.load(typed_folder / "wn18rr.npz", allow_pickle=False) as archive:
        name = "synset__derivationally_related_form__synset"
        index, part = archive[f"edge_index__{name}"], archive[f"edge_split__{name}"]
    split = [index[:, part == code] for code in range(3)]
    found = reported(split)
    assert found["test", "reversed"] / split[2].shape[1] > 0.9  # the benchmark's own
    assert not reported(split, allow=["reversed"])
    for file, name in (("college_msg", "user__messages__user"), ("bitcoin_otc", "user__rates__user")):
        with np.load(typed_folder / f"{file}.npz", allow_pickle=False) as archive:
            index, part, time = (archive[f"edge_{kind}__{name}"] for kind in ("index", "split", "time"))
        check_link_split(*((index[:, part == code], time[part == code]) for code in range(3)))
        assert reported([index[:, part == code] for code in range(3)])["test", "edges"] > (
            0 if file == "college_msg" else -1
        )
        data = Data(edge_index=torch.from_numpy(index), time=torch.from_numpy(time))
        timed: tuple[dict[str, Any], ...] = ({}, {"time_attr": "time"})
        for options in timed:
            check_link_split(*link_split(data, **options), **options)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_val": 1.0}, UsageError, "num_val must be a share in"),
        ({"num_val": -1}, UsageError, "num_val must be an integer >= 0, got -1"),
        ({"num_test": 1000}, GraphError, "must leave a pair for training"),
        ({"num_val": 0.001}, GraphError, "val must have an edge, got none"),
        ({"time_attr": "times"}, UsageError, "time_attr must be an attribute of the edges, got 'times'"),
        ({"edge_type": BETWEEN}, UsageError, "edge_type must be one of the edges, got"),
        ({"rev_edge_type": BETWEEN}, UsageError, "rev_edge_type must be between the types"),
        ({"seed": -1}, UsageError, "seed must be an integer >= 0"),
    ],
)
def test_a_wrong_argument_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        link_split(undirected_data(), **options)


def test_wrong_data_is_refused() -> None:
    data = undirected_data()
    with pytest.raises(UsageError, match="data must be a PyG Data or HeteroData, got str"):
        link_split("graph.npz")
    with pytest.raises(GraphError, match="an adjacency matrix has edges, too"):
        link_split(Data(edge_index=data.edge_index, adj_t=torch.eye(50).to_sparse_csr()))
    with pytest.raises(UsageError, match=r"edge_type must be one of .*rates.*, got None"):
        link_split(bipartite("rev_rates"))
    with pytest.raises(UsageError, match="is_undirected must be False or None"):
        link_split(bipartite("rev_rates"), edge_type=BETWEEN, is_undirected=True)
    for missing in (float("nan"), torch.iinfo(torch.int64).min):
        time = torch.full((data.num_edges,), missing)
        with pytest.raises(GraphError, match=f"must be known, {data.num_edges} of {data.num_edges} are missing"):
            link_split(Data(edge_index=data.edge_index, time=time), time_attr="time")
    with pytest.raises(GraphError, match=r"must have an edge, got none.*edges of one time stay together"):
        link_split(Data(edge_index=data.edge_index, time=torch.ones(data.num_edges)), time_attr="time")


def test_a_part_that_can_not_be_checked_is_refused() -> None:
    data = undirected_data()
    split = link_split(data)
    with pytest.raises(UsageError, match="val must have edge_label_index"):
        check_link_split(data, data, data)
    with pytest.raises(UsageError, match="allow must be one of edges, negatives, relations, reversed, times"):
        check_link_split(*split, allow="mirrors")
    with pytest.raises(UsageError, match="val must have edge_label_time of its pairs if time_attr is given"):
        check_link_split((data.edge_index, torch.ones(data.num_edges)), split.val, time_attr="time")
    index = data.edge_index
    with pytest.raises(UsageError, match="either all parts must have times or none"):
        check_link_split((index, torch.ones(index.shape[1])), index)
    with pytest.raises(UsageError, match="time_attr must be the name of the edges' times"):
        check_link_split(*(LinkPart(*part[:3], torch.ones(part.edge_label.shape[0])) for part in split))

"""Link prediction: `link_split` hides the pairs to be predicted, `check_link_split` finds leaks in any split."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import GraphError, UsageError, unknown_name
from a3gnn.graphs.arrays import MAX_NODES
from a3gnn.graphs.edges import known_times
from a3gnn.graphs.pyg import remedy_for
from a3gnn.graphs.validate import check_edges
from a3gnn.seeding import derive

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

#: A relation of a `HeteroData`; None is the one of a `Data`.
Relation: TypeAlias = tuple[str, str, str] | None
_Ids: TypeAlias = NDArray[np.int64]
#: Where edges are shown, and which of the pairs they show, bool, shape (pairs,).
_Place: TypeAlias = tuple[str, NDArray[np.bool_]]

#: Two relations are mirrors if they share this part of the pairs of either: inverse relations of RDF graphs share three
#: quarters and more, others nearly none.
_MIRROR_SHARE = 0.5
#: The kinds of leaks: what is wrong with the pairs, and the remedy.
_KINDS = {
    "edges": ("are edges", "hide them and their duplicates, as link_split does"),
    "reversed": ("are reversed edges", "split at random by link_split, or by RandomLinkSplit(is_undirected=True)"),
    "relations": ("are edges, in another relation,", "hide them there, as link_split and rev_edge_types of PyG do"),
    "times": ("are not later than all edges", "split at a time, as link_split(time_attr=...) does"),
    "negatives": ("are labeled as negatives, but are edges", "give negative_label=None if that label is a class"),
}


class LinkPart(NamedTuple):
    """One part of a link split; its fields are arguments of `LinkNeighborLoader`.

    Attributes:
        data: The input, with the edges of this part's message passing alone.
        edge_label_index: Pairs to be predicted, int64, shape (2, pairs); of a `HeteroData`, behind their relation.
        edge_label: Attribute `edge_label` of their edges, or float32 ones, shape (pairs, ...).
        edge_label_time: Times of the pairs, shape (pairs,); None for a random split.
    """

    data: Data | HeteroData
    edge_label_index: Tensor | tuple[tuple[str, str, str], Tensor]
    edge_label: Tensor
    edge_label_time: Tensor | None = None


class LinkSplit(NamedTuple):
    """A split for link prediction."""

    train: LinkPart
    val: LinkPart
    test: LinkPart


def with_hidden(data: HeteroData, parts: Mapping[tuple[str, str, str], _Ids]) -> HeteroData:
    """Returns `data` without the edges of `parts` that are in a part above 0, in their relations and in mirrors.

    Args:
        data: The graph.
        parts: The part of each edge of some relations.
    """
    index = {one.relation: one.ids for one in _edges("data", data, None) if one.relation is not None}
    size, kept = _size(index.values()), {name: part <= 0 for name, part in parts.items()}
    for relation, part in parts.items():
        hidden = _keys(index[relation][:, part > 0], size, _flips(relation, relation))
        for mirror in mirrors_of(relation, index):
            if mirror not in parts:
                shown = ~np.isin(_keys(index[mirror], size, _flips(relation, mirror)), hidden)
                kept[mirror] = kept.get(mirror, True) & shown
    made: HeteroData = _with_edges(data, {name: np.flatnonzero(one) for name, one in kept.items()}, None)
    return made


def mirrors_of(
    relation: tuple[str, str, str], index: Mapping[tuple[str, str, str], _Ids]
) -> list[tuple[str, str, str]]:
    """Returns the relations that mirror `relation`, as in `link_split`.

    Args:
        relation: A key of `index`.
        index: The edges of each relation, int64, shape (2, num_edges).
    """
    size = _size(index.values())
    edges = [_Edges("", name, ids, None) for name, ids in index.items()]
    pairs = np.unique(_keys(index[relation], size, _flips(relation, relation)))
    found = _mirrors(relation, edges, pairs, size, _named(None, relation, index))
    return [one for one in found if one is not None]


def random_parts(index: _Ids, relation: tuple[str, str, str], num_val: float, num_test: float, seed: int) -> _Ids:
    """Returns the part of each edge of a relation: 0 for train, 1 for val, 2 for test, int64, shape (num_edges,).

    They are drawn as by `link_split`, but each edge has one, those of an undirected relation included. `index`, int64,
    has shape (2, num_edges); other arguments are as in `link_split`.
    """
    size = _size([index])
    pairs, place = np.unique(_keys(index, size, _flips(relation, relation)), return_inverse=True)
    borders = _borders(num_val, num_test, 0.0, len(pairs))
    parts: _Ids = np.searchsorted(borders, _ranks(pairs, size, seed), side="right")[place]
    _check_filled(parts, num_val, num_test, 0.0)
    return parts - 1


class _Edges(NamedTuple):
    """Edges that a part shows, in its message passing or as pairs of training; without times, `times` is None."""

    place: str
    relation: Relation
    ids: _Ids
    times: NDArray[Any] | None


class _Part(NamedTuple):
    """A part of a split to be checked: edges of its message passing, and pairs of one relation to be predicted."""

    messages: list[_Edges]
    pairs: _Edges
    negatives: _Edges


def link_split(
    data: Data | HeteroData,
    num_val: float = 0.1,
    num_test: float = 0.2,
    *,
    edge_type: Relation = None,
    rev_edge_type: Relation | Collection[tuple[str, str, str]] = None,
    is_undirected: bool | None = None,
    disjoint_train_ratio: float = 0.0,
    time_attr: str | None = None,
    seed: int = 0,
) -> LinkSplit:
    """Splits the edges of one relation for link prediction, so that message passing shows no pair to be predicted.

    As in PyG's `RandomLinkSplit`, training and validation use train edges for message passing, testing uses train and
    validation edges. Pairs are hidden in mirrors of the relation, too: relations called `rev_NAME`, and relations that
    share half of the pairs of either, in any direction.

    At random, a pair, its reverse and its duplicates fall into one part, by `seed` and the pair: another edge moves
    few of the others. By time, each time falls into one part. Earlier edges of the same pair are history, and other
    relations with `time_attr` are cut at the same times.

    Args:
        data: The graph.
        num_val: Validation pairs (by time: edges), a share as a float or a number as an integer.
        num_test: Test pairs, the same.
        edge_type: The relation to split, if a `HeteroData` has several.
        rev_edge_type: Further mirrors of the relation.
        is_undirected: Whether to predict each pair in one direction only; None does if each edge has its reverse.
        disjoint_train_ratio: Train pairs that only training predicts while its message passing uses the others, a share
            or a number. With 0, training uses all train pairs for both.
        time_attr: Name of the edges' times; None splits at random.
        seed: Seed of a random split.

    Raises:
        UsageError: An argument is not valid.
        GraphError: Edges or times are not valid, or too few for each part.
    """
    edges = {one.relation: one for one in _edges("data", data, time_attr)}
    relation = _known_relation(edge_type, edges)
    index, times, flips = edges[relation].ids, edges[relation].times, _flips(relation, relation)
    if time_attr is not None and times is None:
        raise UsageError(f"time_attr must be an attribute of {_called(relation)}, got {time_attr!r}")
    size = _size(one.ids for one in edges.values())
    pairs, place = np.unique(_keys(index, size, flips), return_inverse=True)
    borders = _borders(num_val, num_test, disjoint_train_ratio, len(pairs) if times is None else len(times))
    if times is None:
        of_pair = np.searchsorted(borders, _ranks(pairs, size, seed), side="right")
        parts = {relation: of_pair[place]}
    else:
        parts = _parts_by_time(edges, np.sort(times)[borders[borders < len(times)]])
        of_pair = np.zeros(len(pairs), dtype=np.int64)
        np.maximum.at(of_pair, place, parts[relation])
    _check_filled(parts[relation], num_val, num_test, disjoint_train_ratio)
    for name in _mirrors(relation, edges.values(), pairs, size, _named(rev_edge_type, relation, edges)):
        if name not in parts:  # pairs that the relation doesn't have stay visible
            keys = _keys(edges[name].ids, size, _flips(relation, name))
            at = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
            parts[name] = np.where(pairs[at] == keys, of_pair[at], 0)
    predicted = _one_direction(index, place, times, is_undirected, len(flips) == 2)
    made = []
    for code, last in enumerate((0 if disjoint_train_ratio else 1, 1, 2), 1):
        shown = _with_edges(data, {name: np.flatnonzero(part <= last) for name, part in parts.items()}, time_attr)
        chosen = np.flatnonzero(predicted & (parts[relation] == code))
        made.append(_link_part(data, shown, relation, chosen, time_attr))
    return LinkSplit(*made)


def _parts_by_time(edges: Mapping[Relation, _Edges], cuts: NDArray[Any]) -> dict[Relation, NDArray[np.int64]]:
    """Returns the part of each edge of the relations with times, by how many of `cuts` are not later."""
    return {
        name: np.searchsorted(cuts, one.times, side="right") for name, one in edges.items() if one.times is not None
    }


def check_link_split(
    train: Any,
    val: Any,
    test: Any = None,
    *,
    edge_type: Relation = None,
    rev_edge_type: Relation | Collection[tuple[str, str, str]] = None,
    time_attr: str | None = None,
    key: str = "edge_label",
    negative_label: int | None = 0,
    allow: str | Collection[str] = (),
) -> None:
    """Checks that neither training nor message passing shows the pairs of validation and test in a link split.

    Kinds of leaks, with the names that `allow` takes:

    * `edges`: a pair is an edge of message passing, or a pair of training; a test pair is a validation pair.
    * `reversed`: the same for its reverse, in a relation within one type of nodes.
    * `relations`: a pair is an edge of a mirror of the relation (see `link_split`).
    * `times`: with times, a pair is not later than all edges and pairs of earlier parts, and all edges of its own
      message passing. Edges with times are leaks by their times alone.
    * `negatives`: a pair is labeled as a negative, but is an edge of message passing.

    Args:
        train: Part for training: a `Data` or `HeteroData` of PyG's `RandomLinkSplit`, a part of `link_split`, pairs of
            shape (2, pairs), or a tuple of pairs and their times. Pairs alone are also the edges of message passing.
        val: Part for validation, the same. Pairs alone add no edges to message passing.
        test: Part for test, the same; None if there is none.
        edge_type: The relation to check; None checks those with `edge_label_index`.
        rev_edge_type: Further mirrors of the relation.
        time_attr: Name of the edges' times; a `Data` needs `edge_label_time`, too.
        key: Name of the labels, as of `RandomLinkSplit`; `KEY_index` has the pairs.
        negative_label: The label that marks negatives; None if no pair is a negative.
        allow: Kinds of leaks that are intended, such as `reversed` for a benchmark of directed relations.

    Raises:
        UsageError: An argument is not valid.
        GraphError: The split leaks.
    """
    allowed = (allow,) if isinstance(allow, str) else tuple(allow)
    for kind in allowed:
        if kind not in _KINDS:
            raise unknown_name("allow", kind, _KINDS)
    given = {"train": train, "val": val} | ({} if test is None else {"test": test})
    texts: list[str] = []
    for relation in _predicted(val, train, edge_type, key):
        parts = [_part(name, part, relation, time_attr, key, negative_label) for name, part in given.items()]
        if len({part.pairs.times is None for part in parts}) > 1:
            raise UsageError("either all parts must have times or none; give (pairs, times) for each, or time_attr")
        texts += [text for kind, text in _leaks(parts, relation, rev_edge_type) if kind not in allowed]
    if texts:
        raise GraphError(f"a link split must hide the pairs of val and test, but {'. '.join(texts)}")


def _leaks(parts: list[_Part], relation: Relation, rev_edge_type: Any) -> Iterator[tuple[str, str]]:
    """Yields the kind and the text of each leak."""
    messages, pairs = [one for part in parts for one in part.messages], [part.pairs for part in parts]
    size = _size(one.ids for part in parts for one in (*part.messages, part.pairs, part.negatives))
    known = np.unique(_keys(_joined([*messages, *pairs], relation), size, _flips(relation, relation)))
    named = _named(rev_edge_type, relation, {one.relation for one in messages})
    mirrors = {relation, *_mirrors(relation, messages, known, size, named)}
    for at, part in enumerate(parts):
        shown = [*pairs[:at], *(one for earlier in parts[: at + 1] for one in earlier.messages)]
        for kind, by_place in _shown(part.pairs, shown if at else [], mirrors, size).items():
            yield kind, _text(kind, part.pairs, by_place)
    own = [one for one in messages if one.relation == relation]
    for part in parts:
        if by_place := _shown(part.negatives, own, {relation}, size).get("edges", []):
            yield "negatives", _text("negatives", part.negatives, by_place)


def _shown(pairs: _Edges, shown: list[_Edges], mirrors: set[Relation], size: int) -> dict[str, list[_Place]]:
    """Returns for each kind of leak which of the pairs each of `shown` shows; kinds without a leak lack."""
    both = _flips(pairs.relation, pairs.relation)
    found: dict[str, list[_Place]] = {}
    for one in shown:
        leaked: dict[str, NDArray[np.bool_]] = {}
        if one.times is not None:
            if pairs.times is not None and len(one.times):
                leaked["times"] = pairs.times <= one.times.max()
        elif one.relation == pairs.relation:
            own = _keys(one.ids, size, (False,))
            leaked = {
                name: np.isin(_keys(pairs.ids, size, (flip,)), own)
                for flip, name in zip(both, ("edges", "reversed"), strict=False)
            }
        elif one.relation in mirrors:
            keys = _keys(one.ids, size, _flips(pairs.relation, one.relation))
            leaked["relations"] = np.isin(_keys(pairs.ids, size, both), keys)
        for kind, which in leaked.items():
            found.setdefault(kind, []).append((one.place, which))
    edges = [which for _, which in found.get("edges", [])]
    found["reversed"] = [(place, which & ~np.any(edges, axis=0)) for place, which in found.get("reversed", [])]
    return {kind: places for kind, places in found.items() if any(which.any() for _, which in places)}


def _text(kind: str, pairs: _Edges, by_place: list[_Place]) -> str:
    wrong, remedy = _KINDS[kind]
    leaked: NDArray[np.bool_] = np.any([which for _, which in by_place], axis=0)
    first = int(np.argmax(leaked))
    place = [place for place, which in by_place if which[first]][-1]
    of = f" of {pairs.relation}" if pairs.relation else ""
    at = f" at {pairs.times[first]}" if pairs.times is not None else ""
    return (
        f"{int(leaked.sum()):,} of {len(leaked):,} {pairs.place}{of} {wrong} of training or message passing, "
        f"such as ({pairs.ids[0, first]}, {pairs.ids[1, first]}){at} in {place}; {remedy}, or give allow={kind!r}"
    )


def _part(
    name: str, part: Any, relation: Relation, time_attr: str | None, key: str, negative_label: int | None
) -> _Part:
    """Returns a part of a split in the form that is checked."""
    place, negative = f"{name} pairs", None
    if isinstance(part, LinkPart):
        messages, times = _edges(name, part.data, time_attr), part.edge_label_time
        given = part.edge_label_index
        index = _index(place, given[1] if isinstance(given, tuple) else given)
    elif hasattr(part, "edge_stores"):
        messages, relation = _edges(name, part, time_attr), _known_relation(relation, _relations(part))
        store = part.edge_stores[_relations(part).index(relation)]
        times, (index, negative) = store.get(f"{key}_time"), _labeled(name, store, key, negative_label)
    else:
        given, times = part if isinstance(part, tuple) and np.ndim(part[0]) == 2 else (part, None)
        index = _index(place, given)
        messages = [_Edges("train messages", relation, index, _times(place, times, index))] if name == "train" else []
        time_attr = time_attr or ("" if times is not None else None)
    if time_attr is None and times is not None:
        raise UsageError(f"time_attr must be the name of the edges' times, because {name} has {key}_time, got None")
    if time_attr is not None and times is None and index.shape[1]:
        raise UsageError(f"{name} must have {key}_time of its pairs if time_attr is given")
    positive = np.ones(index.shape[1], dtype=np.bool_) if negative is None else ~negative
    found = None if time_attr is None else _times(place, np.zeros(0) if times is None else times, index)
    pairs = _Edges(place, relation, index[:, positive], None if found is None else found[positive])
    return _Part(messages, pairs, _Edges(place, relation, index[:, ~positive], None))


def _labeled(name: str, store: Any, key: str, negative_label: int | None) -> tuple[_Ids, NDArray[np.bool_] | None]:
    """Returns the pairs in a part of `RandomLinkSplit`, and which of them are negatives."""
    signed = (f"pos_{key}_index", f"neg_{key}_index") if f"pos_{key}_index" in store else (f"{key}_index",)
    keys = [one for one in signed if one in store]
    if not keys and name != "train":
        raise UsageError(f"{name} must have {key}_index, as a part of RandomLinkSplit does; pairs alone will do, too")
    found = [_index(f"{one} of {name}", store[one]) for one in keys]
    index = np.concatenate([*found, np.zeros((2, 0), dtype=np.int64)], axis=1)
    if len(signed) == 2:
        return index, np.arange(index.shape[1]) >= found[0].shape[1]
    labels = None if negative_label is None or not keys else store.get(key)
    if labels is None or labels.ndim != 1:
        return index, None
    if len(labels) != index.shape[1]:
        raise GraphError(
            f"{key} of {name} must have a label per pair, got {len(labels):,} for {index.shape[1]:,} pairs"
        )
    return index, _array(labels) == negative_label


def _predicted(val: Any, train: Any, edge_type: Relation, key: str) -> list[Relation]:
    """Returns the relations to check: `edge_type`, or those with pairs in `val`."""
    if edge_type is None and isinstance(val, LinkPart):
        return [val.edge_label_index[0] if isinstance(val.edge_label_index, tuple) else None]
    keys = (f"{key}_index", f"pos_{key}_index")
    if edge_type is None and hasattr(val, "edge_stores"):
        return [store._key for store in val.edge_stores if any(one in store for one in keys)] or [None]
    graph = train.data if isinstance(train, LinkPart) else train
    return [_known_relation(edge_type, _relations(graph)) if hasattr(graph, "edge_stores") else edge_type]


def _relations(data: Any) -> list[Relation]:
    return [store._key for store in data.edge_stores]


def _edges(name: str, data: Any, time_attr: str | None) -> list[_Edges]:
    """Returns the edges of each relation of a `Data` or `HeteroData`."""
    if not hasattr(data, "edge_stores") or not hasattr(data, "node_stores"):
        raise UsageError(f"{name} must be a PyG Data or HeteroData, got {type(data).__name__}{remedy_for(data)}")
    found = []
    for store in data.edge_stores:
        relation: Relation = store._key
        if "adj_t" in store or "adj" in store:
            raise GraphError(
                f"{_called(relation)} of {name} must have edge_index alone, but an adjacency matrix has edges, too; "
                "leave out the transform ToSparseTensor, and apply it to the parts"
            )
        if "edge_index" in store:
            place = f"{name} messages"
            index = _index(f"edge_index of {_called(relation)}", store["edge_index"])
            times = store[time_attr] if time_attr is not None and time_attr in store else None
            found.append(_Edges(place, relation, index, _times(f"{time_attr} of {_called(relation)}", times, index)))
    if not found:
        raise UsageError(f"{name} must have edge_index, got none; data.edge_index = ... adds it")
    return found


def _index(name: str, given: Any) -> _Ids:
    """Returns pairs of ids, int64, shape (2, pairs)."""
    index = _array(given)
    try:
        check_edges(index, MAX_NODES)
    except GraphError as error:
        raise GraphError(f"{name}: {error}") from None
    return index.reshape(2, -1).astype(np.int64, copy=False)


def _times(name: str, given: Any, index: _Ids) -> NDArray[Any] | None:
    """Returns a time per pair of `index`, of dates in nanoseconds; None without times."""
    if given is None:
        return None
    times = _array(given)
    times = times[:, 0] if times.ndim == 2 and times.shape[1] == 1 else times
    times = times.astype("M8[ns]").view(np.int64) if times.dtype.kind == "M" else times
    return known_times(name, times, index.shape[1], "edge", GraphError)


def _array(given: Any) -> NDArray[Any]:
    """Returns an array, or a tensor on any device, as an array."""
    if not hasattr(given, "detach"):
        return np.asarray(given)
    import torch

    array: NDArray[Any] = given.detach().cpu().as_subclass(torch.Tensor).numpy()  # EdgeIndex has no array
    return array


def _known_relation(relation: Any, relations: Collection[Relation]) -> Relation:
    """Returns `relation`, or the only one of `relations` if it is None."""
    found: Relation = tuple(relation) if isinstance(relation, list) else relation
    if found in relations:
        return found
    if found is None and len(relations) == 1:
        return next(iter(relations))
    known = ", ".join(map(_called, relations))
    raise UsageError(f"edge_type must be one of {known}, got {relation!r}")


def _called(relation: Relation) -> str:
    return "the edges" if relation is None else str(relation)


def _named(given: Any, relation: Relation, relations: Collection[Relation]) -> set[Relation]:
    """Returns the mirrors of `relation` by name: those given, and those that are called its reverse."""
    named = {given} if isinstance(given, tuple) and isinstance(given[0], str) else {*(given or ())}
    for one in named:
        if one not in relations or not _flips(relation, one):
            of = ", ".join(_called(name) for name in relations if name != relation and _flips(relation, name)) or "none"
            raise UsageError(f"rev_edge_type must be between the types of {_called(relation)} ({of}), got {one!r}")
    for one in relations:
        if one and relation and (one[1] == f"rev_{relation[1]}" or relation[1] == f"rev_{one[1]}"):
            named.add(one)
    return {one for one in named if one != relation and _flips(relation, one)}


def _mirrors(
    relation: Relation, edges: Iterable[_Edges], pairs: _Ids, size: int, named: set[Relation]
) -> Iterator[Relation]:
    """Yields the relations whose pairs are mostly those of `relation`, whose sorted keys are `pairs`; and `named`."""
    edges = list(edges)
    for other in dict.fromkeys(one.relation for one in edges):
        flips = _flips(relation, other)
        if other == relation or not flips:
            continue
        keys = np.unique(_keys(_joined(edges, other), size, flips))
        shared = np.isin(keys, pairs, assume_unique=True).sum()
        if other in named or shared >= max(1.0, _MIRROR_SHARE * min(len(keys), len(pairs))):
            yield other


def _flips(relation: Relation, other: Relation) -> tuple[bool, ...]:
    """Returns how pairs of `other` are pairs of `relation`: as they are (False), reversed (True), both or neither."""
    ends, others = ((one[0], one[2]) if one else None for one in (relation, other))
    return tuple(flip for flip, order in ((False, others), (True, others and others[::-1])) if ends == order)


def _keys(index: _Ids, size: int, flips: tuple[bool, ...]) -> _Ids:
    """Returns a number per pair, int64; with both `flips`, it is that of the reversed pair, too."""
    first, second = index[::-1] if flips == (True,) else index
    keys: _Ids = (
        np.minimum(first, second) * size + np.maximum(first, second) if len(flips) == 2 else first * size + second
    )
    return keys


def _joined(edges: Iterable[_Edges], relation: Relation) -> _Ids:
    """Returns all edges of `relation`, int64, shape (2, edges)."""
    found = [one.ids for one in edges if one.relation == relation]
    return np.concatenate([*found, np.zeros((2, 0), dtype=np.int64)], axis=1)


def _size(indices: Iterable[_Ids]) -> int:
    """Returns a number above all ids."""
    return max((int(index.max()) + 1 for index in indices if index.size), default=1)


def _ranks(pairs: _Ids, size: int, seed: int) -> _Ids:
    """Returns the place of each pair in a random order; the order of two pairs depends on them and the seed alone."""

    def mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:  # SplitMix64's finalizer, as a3gnn.sampling.random.mix
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))

    low, high = (ids.astype(np.uint64) for ids in np.divmod(pairs, size))
    hashes = mix(mix(low + np.uint64(derive(whole_number("seed", seed, 0), "link_split"))) + high)
    ranks = np.empty(len(pairs), dtype=np.int64)
    ranks[np.lexsort((pairs, hashes))] = np.arange(len(pairs))
    return ranks


def _borders(num_val: float, num_test: float, disjoint: float, total: int) -> _Ids:
    """Returns the places in an order of `total` where the pairs of training, of validation and of test begin."""
    val, test = (_amount(name, value, total) for name, value in (("num_val", num_val), ("num_test", num_test)))
    train = total - val - test
    if train <= 0:
        raise GraphError(
            f"num_val and num_test must leave a pair for training, got {val:,} and {test:,} of {total:,} pairs"
        )
    alone = _amount("disjoint_train_ratio", disjoint, train) if disjoint else train
    return np.array([max(train - alone, 0), train, train + val])


def _amount(name: str, value: Any, total: int) -> int:
    if isinstance(value, float | np.floating):
        if not 0 <= value < 1:
            raise UsageError(f"{name} must be a share in [0.0, 1.0) or an integer, got {value!r}")
        return int(value * total)
    return whole_number(name, value, 0, "or a share in [0.0, 1.0)")


def _check_filled(part: _Ids, num_val: float, num_test: float, disjoint: float) -> None:
    """Checks that each part that is asked for has an edge."""
    counts = np.bincount(part, minlength=4)
    names = ("message passing of train", "train", "val", "test")
    wanted = (disjoint, 1, num_val, num_test)
    for name, number, amount in zip(names, counts, wanted, strict=True):
        if amount and not number:
            raise GraphError(
                f"{name} must have an edge, got none of {len(part):,}, divided into {', '.join(map(str, counts[1:]))}; "
                "give it a larger share, or 0; edges of one time stay together"
            )


def _one_direction(
    index: _Ids, place: _Ids, times: NDArray[Any] | None, is_undirected: bool | None, within: bool
) -> NDArray[np.bool_]:
    """Returns which edges are to be predicted: for an undirected relation, one direction of each pair and time."""
    if is_undirected and not within:
        raise UsageError("is_undirected must be False or None for a relation between two types of nodes, got True")
    if times is not None:
        _, moment = np.unique(times, return_inverse=True)
        _, place = np.unique(place * (int(moment.max()) + 1) + moment, return_inverse=True)
    rising, falling = index[0] < index[1], index[0] > index[1]
    up, down = (np.bincount(place[chosen], minlength=int(place.max()) + 1) for chosen in (rising, falling))
    if is_undirected is None:
        is_undirected = within and np.array_equal(up, down)
    return ~(falling & (up[place] > 0)) if is_undirected else np.ones(len(place), dtype=np.bool_)


def _with_edges(data: Any, chosen: Mapping[Relation, _Ids], time_attr: str | None) -> Any:
    """Returns a shallow copy of `data` with the `chosen` edges of some relations, and as many nodes as `data`."""
    made = copy(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG's about nodes that it counts by edges
        numbers = {store._key: store.num_nodes for store in data.node_stores}
    for store in data.edge_stores:
        for end, row in zip((0, 2), store.get("edge_index", ()), strict=False):
            kind = None if store._key is None else store._key[end]
            least = int(row.max()) + 1 if len(row) else 0
            numbers[kind] = max(least, numbers.get(kind) or 0)
    for kind, number in numbers.items():
        (made if kind is None else made[kind]).num_nodes = number
    asked = copy(made)  # in which PyG caches which attributes are of edges
    for store, of in zip(made.edge_stores, asked.edge_stores, strict=True):
        for name in list(of.keys()) if of._key in chosen else ():
            if name in ("edge_index", time_attr) or of.is_edge_attr(name):
                store[name] = _rows(of[name], chosen[of._key], data.__cat_dim__(name, of[name], of))
    return made


def _rows(values: Any, ids: _Ids, dim: Any) -> Any:
    """Returns the rows `ids` of a tensor along `dim`, of an array, or of a list."""
    import torch

    if isinstance(values, torch.Tensor):
        return values.index_select(dim, torch.from_numpy(ids).to(values.device))
    return type(values)(values[at] for at in ids) if isinstance(values, list | tuple) else values[ids]


def _link_part(data: Any, shown: Any, relation: Relation, chosen: _Ids, time_attr: str | None) -> LinkPart:
    """Returns the part that shows the edges of `shown` and predicts the edges `chosen` of `data`."""
    import torch

    store = data if relation is None else data[relation]
    index = _rows(store["edge_index"], chosen, 1).detach().as_subclass(torch.Tensor)
    label = _rows(store["edge_label"], chosen, 0) if "edge_label" in store else index.new_ones(len(chosen)).float()
    time = None if time_attr is None else torch.as_tensor(_rows(store[time_attr], chosen, 0)).reshape(-1)
    return LinkPart(shown, index if relation is None else (relation, index), label, time)

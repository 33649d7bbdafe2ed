"""`link_task`: the links that a task predicts, or the edges whose values it predicts, and the graph without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, UsageError, nearest
from a3gnn.graphs.assemble import judged_labels, naming_graph
from a3gnn.graphs.event_task import edge_times_of, event_links
from a3gnn.graphs.labels import is_labeled
from a3gnn.graphs.link_split import check_link_split, link_split, random_parts, with_hidden
from a3gnn.graphs.links import is_predicted
from a3gnn.graphs.pyg import array_of
from a3gnn.graphs.split import Split
from a3gnn.graphs.validate import check_labels
from a3gnn.option_names import option
from a3gnn.units import count

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from a3gnn.graphs.target import Target

_Key = tuple[str, str, str]
_NAMES = ("train", "val", "test")
#: The part of edges without a value.
_UNKNOWN = 3
_UNUSED_TIMES = "times of edges are not used if their values are predicted: each sees all edges of train"


class LinkTask(NamedTuple):
    """The links or edges that a task predicts.

    Attributes:
        shown: The graph for message passing, without validation and test links; with `times`, all of it.
        pairs: The pairs, sources and targets within their types, int32, shape (2, n).
        kinds: The relation of each, int32, shape (n,).
        part: 0 for train, 1 for validation, 2 for test, 3 for an edge without a value, int64, shape (n,).
        notes: Remarks for users.
        labels: The values that are predicted, as stored (`a3gnn.graphs.labels`), shape (n, ...); zeros for links.
        outputs: A model's outputs per pair: 0 for links.
        times: The time of each link, ascending: each sees earlier edges alone. None without times.
    """

    shown: HeteroData
    pairs: NDArray[np.int32]
    kinds: NDArray[np.int32]
    part: NDArray[np.int64]
    notes: tuple[str, ...]
    labels: NDArray[Any]
    outputs: int = 0
    times: NDArray[Any] | None = None


def link_task(data: HeteroData, numbers: dict[str, int], target: Target, split: Split | None) -> LinkTask:
    """Returns the links to be predicted, or the edges whose values are, and the graph without them.

    A relation's own split is its `edge_split`: 0 for train, 1 for validation, 2 for test. Validation and test pairs are
    hidden in their relation, and in relations that mirror it (`link_split`). So are edges without a value if values are
    predicted. Links with times in the order of the parts are not hidden, because each link sees earlier edges alone.

    Args:
        data: The graph.
        numbers: Nodes of each type.
        target: The relations.
        split: Splits the only relation at random, or all links in the order of time if they have times; None takes
            their own split, or 70/10/20 (in the order of time 70/15/15) without one.

    Raises:
        UsageError: The target is no relation of the graph, or can't be split at random.
        GraphError: A type has one node, or the values or the split are not valid, or the split leaks.
    """
    relations = predicted(data, target)
    source, _, end = relations[0]
    for kind in (source, end):
        if numbers[kind] < 2 and not target.value:
            raise GraphError(
                f"links need at least 2 nodes at either end, or there is nothing to rank, got {numbers[kind]} of {kind}"
            )
    values = _values(data, relations, target.value) if target.value else None
    if split is not None and abs(sum(split.shares) - 1) > 1e-9:
        what = "links" if values is None else "edges"
        raise UsageError(f"the shares of a split of {what} must add up to 1, got {sum(split.shares):g}")
    given, own = None, [one for one in relations if "edge_split" in data[one]]
    if split is None and own and len(own) < len(relations):
        raise UsageError(
            f"{option('target')} must name relations with edge_split, or none with one, got {len(own)} of "
            f"{len(relations)} with one; {option('split')} replaces it"
        )
    if split is None and own:
        given = _parts(data, relations, values)
    if values is None:
        return _links(data, relations, given, split)
    found = _at_random(data, relations, split, values) if given is None else _by_file(data, relations, given)
    masks = {name: found.part == code for code, name in enumerate(_NAMES)}
    labels, outputs, of_labels = judged_labels(values, masks, target.value, "edge")
    unused = (_UNUSED_TIMES,) if edge_times_of(data[relations[0]]) is not None else ()
    return found._replace(labels=labels, outputs=outputs, notes=(*found.notes, *unused, *of_labels))


def _links(data: HeteroData, relations: list[_Key], given: NDArray[np.int64] | None, split: Split | None) -> LinkTask:
    """Returns the links of `relations`, by their times if possible; `given` is their own split."""
    events, notes = event_links(data, relations, given, split)
    if events is not None:
        pairs, kinds = _joined(data, relations)
        order, part, times = events
        labels = np.zeros(len(part), dtype=np.int64)
        return LinkTask(data, pairs[:, order], kinds[order], part, notes, labels, times=times)
    if given is None:
        return _at_random(data, relations, split, None)
    return _by_file(data, relations, given)._replace(notes=notes)


def _values(data: HeteroData, relations: list[_Key], name: str) -> NDArray[Any]:
    """Returns the values `name` of the only relation's edges, checked, in any type of numbers.

    Raises:
        UsageError: There are several relations, or the edges have no such values.
        GraphError: The values are of no kind that can be predicted.
    """
    (relation, *more), called = relations, ",".join(relations[0])
    if more:
        raise UsageError(
            f"{option('target')} must name one relation to predict values, got {count(len(relations), 'relation')}"
        )
    store = data[relation]
    known = [one for one in store if one not in ("edge_index", "edge_split") and store.is_edge_attr(one)]
    if name not in known:
        have = f"must be one of {', '.join(known)}" if known else "needs values of edges, but there are none"
        raise UsageError(f"the values in {option('target')} {have} for {called}, got {name}{nearest(name, known)}")
    if not hasattr(store[name], "detach"):
        raise GraphError(f"{name} of {called} must be a tensor, got {type(store[name]).__name__}")
    values = array_of(name, store[name].detach().cpu())
    values = values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values
    with naming_graph(f"{name} of {called}, as labels y"):
        check_labels(values, store.edge_index.shape[1])
    return values


def predicted(data: HeteroData, target: Target) -> list[_Key]:
    """Returns the relations that `target` names.

    Raises:
        UsageError: There is none.
    """
    known = [",".join(one) for one in data.edge_types]
    if target.kind.count(",") != 2 or target.kind.endswith("="):
        raise UsageError(
            f"{option('target')} must be SOURCE,RELATION,TARGET to predict links, or SOURCE,RELATION,TARGET=NAME to "
            f"predict the values NAME of edges, got {target.kind!r}"
        )
    found = [tuple(one) for one in data.edge_types if is_predicted(one, target.kind)]
    if not found:
        raise UsageError(
            f"{option('target')} must be one of {', '.join(known)}, got {target.kind}{nearest(target.kind, known)}"
        )
    empty = [one for one in found if not data[one].edge_index.shape[1]]
    if empty:
        raise GraphError(f"{','.join(empty[0])} must have edges to predict, got none")
    return found


def _parts(data: HeteroData, relations: list[_Key], values: NDArray[Any] | None) -> NDArray[np.int64]:
    """Returns the part of each link or edge, relation by relation; `values` has the only relation's."""
    parts, codes = [], (0, 1, 2) if values is None else (0, 1, 2, _UNKNOWN)
    for one in relations:
        part = array_of("edge_split", data[one].edge_split.detach().cpu()).astype(np.int64)
        if values is not None and part.shape == values.shape[:1]:
            part[~is_labeled(values)] = _UNKNOWN
        if part.shape != (data[one].edge_index.shape[1],) or not np.isin(part, codes).all():
            raise GraphError(
                f"edge_split of {','.join(one)} must have 0, 1 or 2 for each edge: train, val or test; got "
                f"{np.unique(part)[:5].tolist()} of shape {part.shape}"
            )
        parts.append(part)
    every = np.concatenate(parts)
    for code, name in enumerate(_NAMES):
        if not (every == code).any():
            raise GraphError(f"edge_split must have a {name} edge, {code}, got none; give another split")
    return every


def _by_file(data: HeteroData, relations: list[_Key], every: NDArray[np.int64]) -> LinkTask:
    """Returns the links or edges of the parts `every`, relation by relation."""
    ends = np.cumsum([data[one].edge_index.shape[1] for one in relations])
    parts = dict(zip(relations, np.split(every, ends[:-1]), strict=True))
    for one, part in parts.items():
        if edge_times_of(data[one]) is None:  # edges with times may repeat
            pairs = _pairs(data, one)
            check_link_split(*(pairs[:, part == code] for code in range(3)), edge_type=one, allow="reversed")
    pairs, kinds = _joined(data, relations)
    return LinkTask(with_hidden(data, parts), pairs, kinds, every, (), np.zeros(len(every), dtype=np.int64))


def _at_random(data: HeteroData, relations: list[_Key], split: Split | None, values: NDArray[Any] | None) -> LinkTask:
    if len(relations) > 1:
        raise UsageError(
            f"{option('target')} must name one relation to be split at random, or relations with edge_split, got "
            f"{count(len(relations), 'relation')}"
        )
    what = "links" if values is None else "edges"
    chosen = Split((0.7, 0.1, 0.2)) if split is None else split  # the shares of `link_split`
    shares, notes = (float(chosen.shares[1]), float(chosen.shares[2])), (f"{what} were split {chosen}",)
    if values is not None:
        pairs, part = _pairs(data, relations[0]), np.full(len(values), _UNKNOWN)
        known = is_labeled(values)
        part[known] = random_parts(pairs[:, known].astype(np.int64), relations[0], *shares, chosen.seed)
        shown = with_hidden(data, {relations[0]: part})
    else:
        found = link_split(data, *shares, edge_type=relations[0], seed=chosen.seed)
        lists = [np.asarray(one.edge_label_index[1], dtype=np.int32) for one in found]
        part, pairs = np.repeat(np.arange(3), [one.shape[1] for one in lists]), np.concatenate(lists, axis=1)
        shown = found.train.data
    kinds, labels = np.zeros(len(part), dtype=np.int32), np.zeros(len(part), dtype=np.int64)
    return LinkTask(shown, pairs.astype(np.int32), kinds, part, notes, labels)


def _joined(data: HeteroData, relations: list[_Key]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the pairs of all relations, and the place of each one's relation."""
    lists = [_pairs(data, one) for one in relations]
    kinds = np.repeat(np.arange(len(lists), dtype=np.int32), [one.shape[1] for one in lists])
    return np.concatenate(lists, axis=1).astype(np.int32), kinds


def _pairs(data: HeteroData, relation: _Key) -> NDArray[Any]:
    return array_of("edge_index", data[relation].edge_index.detach().cpu())

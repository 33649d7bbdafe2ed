"""`link_pairs`: the links of one relation or of several that a task predicts, and the graph without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, UsageError, nearest
from a3gnn.graphs.event_task import event_links
from a3gnn.graphs.link_split import check_link_split, link_split, with_hidden
from a3gnn.graphs.links import is_predicted
from a3gnn.graphs.pyg import array_of
from a3gnn.graphs.split import Split
from a3gnn.option_names import option
from a3gnn.units import count

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from a3gnn.graphs.target import Target

_Key = tuple[str, str, str]
#: Split of a relation without one. Guess: the shares of link_split.
_SHARES = (0.7, 0.1, 0.2)
_NAMES = ("train", "val", "test")


class LinkPairs(NamedTuple):
    """The links to be predicted, and the graph that shows none of them.

    Attributes:
        data: The graph for message passing; with `times`, all of it.
        pairs: Sources and targets within their types, int32, shape (2, n).
        kinds: The relation of each, int32, shape (n,).
        part: The part of each, int64: 0 for train, 1 for validation, 2 for test.
        notes: Notes for users.
        times: The time of each, ascending: each sees earlier edges alone. None without times.
    """

    data: HeteroData
    pairs: NDArray[np.int32]
    kinds: NDArray[np.int32]
    part: NDArray[np.int64]
    notes: tuple[str, ...]
    times: NDArray[Any] | None = None


def link_pairs(data: HeteroData, numbers: dict[str, int], target: Target, split: Split | None) -> LinkPairs:
    """Returns the graph without the links to be predicted, and these links.

    A relation's own split is its `edge_split`: 0 for train, 1 for validation, 2 for test. Validation and test pairs are
    hidden in their relation, and in relations that mirror it (`link_split`). With times in the order of the parts, they
    are not hidden, because each link sees earlier edges alone.

    Args:
        data: The graph.
        numbers: Nodes of each type.
        target: The relations.
        split: Splits the only relation at random, or all in the order of time if they have times; None takes their own
            split, or 70/10/20 (in the order of time 70/15/15) without one.

    Raises:
        UsageError: The target is no relation of the graph, or can't be split at random.
        GraphError: A type has one node, or the split is not valid or leaks.
    """
    relations = predicted(data, target)
    source, _, end = relations[0]
    for kind in (source, end):
        if numbers[kind] < 2:
            raise GraphError(
                f"links need at least 2 nodes at either end, or there is nothing to rank, got {numbers[kind]} of {kind}"
            )
    if split is not None and abs(sum(split.shares) - 1) > 1e-9:
        raise UsageError(f"the shares of a split of links must add up to 1, got {sum(split.shares):g}")
    given = None
    if split is None and all("edge_split" in data[one] for one in relations):
        given = _parts(data, relations)
    events, notes = event_links(data, relations, given, split)
    if events is not None:
        pairs, kinds = _joined(data, relations)
        order, part, times = events
        return LinkPairs(data, pairs[:, order], kinds[order], part, notes, times)
    if given is not None:
        return _by_file(data, relations, given, notes)
    return _at_random(data, relations, split)


def predicted(data: HeteroData, target: Target) -> list[_Key]:
    """Returns the relations that `target` names.

    Raises:
        UsageError: There is none.
    """
    known = [",".join(one) for one in data.edge_types]
    if target.kind.count(",") != 2:
        raise UsageError(f"{option('target')} must be SOURCE,RELATION,TARGET to predict links, got {target.kind!r}")
    found = [tuple(one) for one in data.edge_types if is_predicted(one, target.kind)]
    if not found:
        raise UsageError(
            f"{option('target')} must be one of {', '.join(known)}, got {target.kind}{nearest(target.kind, known)}"
        )
    empty = [one for one in found if not data[one].edge_index.shape[1]]
    if empty:
        raise GraphError(f"{','.join(empty[0])} must have edges to predict, got none")
    return found


def _parts(data: HeteroData, relations: list[_Key]) -> NDArray[np.int64]:
    """Returns the part of each link, relation by relation."""
    parts = []
    for one in relations:
        part = array_of("edge_split", data[one].edge_split.detach().cpu()).astype(np.int64)
        if part.shape != (data[one].edge_index.shape[1],) or not np.isin(part, (0, 1, 2)).all():
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


def _by_file(data: HeteroData, relations: list[_Key], every: NDArray[np.int64], notes: tuple[str, ...]) -> LinkPairs:
    ends = np.cumsum([data[one].edge_index.shape[1] for one in relations])
    parts = dict(zip(relations, np.split(every, ends[:-1]), strict=True))
    for one, part in parts.items():
        if "time" not in data[one]:  # edges with times may repeat
            pairs = _pairs(data, one)
            check_link_split(*(pairs[:, part == code] for code in range(3)), edge_type=one, allow="reversed")
    return LinkPairs(with_hidden(data, parts), *_joined(data, relations), every, notes)


def _at_random(data: HeteroData, relations: list[_Key], split: Split | None) -> LinkPairs:
    if len(relations) > 1:
        raise UsageError(
            f"{option('target')} must name one relation to be split at random, or relations with edge_split, got "
            f"{count(len(relations), 'relation')}"
        )
    chosen = Split(_SHARES) if split is None else split
    found = link_split(data, float(chosen.shares[1]), float(chosen.shares[2]), edge_type=relations[0], seed=chosen.seed)
    lists = [np.asarray(part.edge_label_index[1], dtype=np.int32) for part in found]
    part = np.repeat(np.arange(3), [one.shape[1] for one in lists])
    pairs = np.concatenate(lists, axis=1)
    notes = (f"links were split {chosen}",)
    return LinkPairs(found.train.data, pairs, np.zeros(len(part), dtype=np.int32), part, notes)


def _joined(data: HeteroData, relations: list[_Key]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the pairs of all relations, and the place of each one's relation."""
    lists = [_pairs(data, one) for one in relations]
    kinds = np.repeat(np.arange(len(lists), dtype=np.int32), [one.shape[1] for one in lists])
    return np.concatenate(lists, axis=1).astype(np.int32), kinds


def _pairs(data: HeteroData, relation: _Key) -> NDArray[Any]:
    return array_of("edge_index", data[relation].edge_index.detach().cpu())

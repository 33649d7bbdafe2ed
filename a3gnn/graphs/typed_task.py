"""`load_task`: any graph with labels; `typed_task`: one of a `HeteroData`, whose nodes of one type are predicted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, TypedSetError, UsageError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import assemble, assemble_unlabeled, canonical, edge_notes, judged_labels, naming_graph
from a3gnn.graphs.edges import EdgeList, Edges
from a3gnn.graphs.event_task import edge_times
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import KINDS, target_of
from a3gnn.graphs.link_task import link_pairs
from a3gnn.graphs.links import Links
from a3gnn.graphs.load import as_named, converted_copy, load_arrays
from a3gnn.graphs.pyg import REMEDIES, array_of, features_of, is_hetero
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.graphs.split import MASKS, Split, masks_of
from a3gnn.graphs.target import ANY, Target, known_type
from a3gnn.graphs.typed import check_typed, counted, typed_graph
from a3gnn.graphs.types import Types
from a3gnn.graphs.validate import check_features, check_labels, check_masks
from a3gnn.option_names import option
from a3gnn.storage.cache import cache_root
from a3gnn.storage.graph_copies import recall, source_of
from a3gnn.units import count, printable

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

#: Relations that a note lists. Guess.
_MAX_NAMED = 5


def load_task(spec: str | Path, split: Split | None = None) -> GraphArrays:
    """Returns the graph that `spec` names, with node types where it has them; the arguments of `load_arrays`.

    A file or a set of several node types is a task for one type, which `target:TYPE:SPEC` names. Relations get a
    reverse, `rev_NAME`, unless they have one.

    Raises:
        GraphError: It can't be read, is not valid, or has no labels to predict.
        UsageError: `spec` has none of the known forms, or its target is no type of the graph.
    """
    own, rest = Split.in_spec(os.fspath(spec))
    target, rest = Target.in_spec(rest)
    split = split or own
    name = printable(Path(rest).stem)
    try:
        if (copy := _copy_of(rest, target, split)) is not None:
            return copy
        data = typed_graph(rest)
        if data is None:
            graph = load_arrays(rest, split)
            if target.kind and (graph.types is None or graph.types.target != target.kind):
                raise UsageError(
                    f"{option('target', target.kind)} needs a graph with node types, but {graph.name} has none, or "
                    "another target; leave it out"
                )
            return graph
        source: str | None = _source(rest, target, split)
    except TypedSetError as error:
        data, name, source = error.data, rest.partition(":")[2], None
        if not target.kind and not any("y" in store for store in data.node_stores):
            raise
    return typed_task(data, name, target, split, mirrored=True, source=source)


def typed_task(
    data: Data | HeteroData,
    name: str,
    target: Target = ANY,
    split: Split | None = None,
    *,
    mirrored: bool = False,
    source: str | None = None,
    labeled: bool = True,
) -> GraphArrays:
    """Returns the graph of `data` for training and prediction of one type; see `GraphArrays.types`.

    Args:
        data: x of each type with features, edge_index of each relation; y and masks of the target type.
        name: Shown to users.
        target: The predicted type; by default the only one with labels.
        split: Replaces the type's own split.
        mirrored: Whether relations get a reverse.
        source: Identity of the file that `data` was read from.
        labeled: Whether labels and a split are read.

    Raises:
        GraphError: `data` is not valid, or has no labels to predict.
        UsageError: The target is no type of the graph, or is needed.
    """
    with naming_graph(name):
        if not is_hetero(data) and not target.is_relation:
            raise GraphError(f"its edges are events with times; {REMEDIES['torch_geometric.TemporalData']}")
        check_typed(data)
        found, numbers = counted(data)
        numbers = {kind: numbers.get(kind, 0) for kind in found.node_types}
        if target.is_relation:
            return _link_graph(found, numbers, name, target, split, mirrored=mirrored, source=source)
        kind = _predicted(found, target, labeled)
        lists, notes = _edge_lists(found, numbers, mirrored)
        features, of_features = _features(found, numbers)
        labels, masks, of_masks = _labels(found[kind], numbers[kind], split, labeled)
        if labeled and not any(one.target == kind and len(edges.sources) for one, edges in lists.items()):
            raise GraphError(
                f"the target {kind} must have in-neighbors in a relation, got none; torch_geometric.transforms."
                "ToUndirected()(data) adds reverse relations"
            )
    notes = (*notes, *of_features, *of_masks)
    pairs = [np.stack([one.sources, one.targets]) for one in lists.values()]
    if len(numbers) == len(found.edge_types) == 1 and features[0] is not None:
        if not labeled:
            return assemble_unlabeled(name, np.hstack(pairs), features[0], notes)
        return assemble(name, np.hstack(pairs), features[0], labels, masks, notes, source)
    schema = Schema.of(numbers, list(lists))
    edges = Edges.of_relations(schema, [lists[one] for one in schema.relations])
    rows, indices = edges.distinct()
    types = Types(schema, rows, features, kind)
    judged, outputs, of_labels = judged_labels(labels, masks) if labeled else (labels, 0, ())
    train_ids, val_ids, test_ids = (
        (types.first + np.flatnonzero(masks.get(mask, ()))).astype(np.int32) for mask in MASKS
    )
    return GraphArrays(
        name=name,
        indptr=types.row_ends,
        indices=indices,
        features=DenseFeatures(np.empty((edges.num_nodes, 0), dtype=np.float32)),
        labels=_through_all(judged, types, edges.num_nodes),
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=outputs,
        notes=(*notes, *of_labels, *edge_notes(len(edges.indices), 0, len(indices))),
        source=source,
        types=types,
    )


def _labels(
    store: Any, number: int, split: Split | None, labeled: bool
) -> tuple[NDArray[Any], dict[str, NDArray[Any]], tuple[str, ...]]:
    """Returns checked labels of the `number` nodes of `store`, its masks, and notes; no labels unless `labeled`."""
    if not labeled:
        return np.full(number, -1, dtype=np.int64), {}, ()
    if not hasattr(store.y, "detach"):
        raise GraphError(f"y must be a tensor, got {type(store.y).__name__}; torch.as_tensor converts an array")
    labels: NDArray[Any] = array_of("y", store.y.detach().cpu())
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.reshape(-1)
    masks, notes = masks_of(lambda one: _array(store, one), labels, number, split)
    check_labels(labels, number)
    check_masks(masks, labels)
    return labels, masks, notes


def _link_graph(
    data: HeteroData,
    numbers: dict[str, int],
    name: str,
    target: Target,
    split: Split | None,
    *,
    mirrored: bool,
    source: str | None,
) -> GraphArrays:
    """Returns the graph of `data` whose links are predicted; the arguments are those of `typed_task`."""
    shown, pairs, kinds, part, of_links, times = link_pairs(data, numbers, target, split)
    lists, of_lists = _edge_lists(shown, numbers, mirrored, timed=times is not None)
    features, of_features = _features(shown, numbers)
    schema = Schema.of(numbers, list(lists))
    edges = Edges.of_relations(schema, [lists[one] for one in schema.relations])
    if times is None or edges.times is None:
        (indptr, indices), ranks = edges.distinct(), None
    else:
        indptr, indices, ranks = edges.indptr, edges.indices, edges.times.rank_at(times)
    links = Links.of(schema, target.kind, pairs, kinds, ranks)
    types = Types(schema, indptr, features, target.kind, links, edges.times)
    train_ids, val_ids, test_ids = (np.flatnonzero(part == code).astype(np.int32) for code in range(3))
    return GraphArrays(
        name=name,
        indptr=types.row_ends,
        indices=indices,
        features=DenseFeatures(np.empty((sum(numbers.values()), 0), dtype=np.float32)),
        labels=np.zeros(len(part), dtype=np.int64),
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=0,
        notes=(*of_lists, *of_features, *of_links, *edge_notes(len(edges.indices), 0, len(indices))),
        source=source,
        types=types,
    )


def _source(spec: str, target: Target, split: Split | None) -> str | None:
    """Returns the identity of a file with a target and a split; None for other forms."""
    path = Path(spec).expanduser()
    if not path.is_file():
        return None
    source = target.spec(source_of(path)) if target.kind else source_of(path)
    if target.is_relation:  # copies of earlier versions lack times
        source += "|times"
    return source if split is None else split.spec(source)


def _copy_of(spec: str, target: Target, split: Split | None) -> GraphArrays | None:
    """Returns the graph of a file from its copy in the cache folder, or None without a copy."""
    try:
        path = Path(spec).expanduser()
        if not path.is_file():
            return None
        if not target.kind:
            return converted_copy(path, split)
        copy = recall(cache_root(), _source(spec, target, split) or "")
        graph = None if copy is None else load_arrays(copy.folder)
    except (GraphError, OSError, RuntimeError):
        return None  # the readers say what is wrong
    return None if graph is None else as_named(graph, printable(path.stem), graph.notes)


def _predicted(data: HeteroData, target: Target, labeled: bool) -> str:
    """Returns the type whose nodes are predicted."""
    if not data.node_types:
        raise GraphError("a HeteroData must have node types, got none")
    with_labels = [kind for kind in data.node_types if "y" in data[kind]]
    if target.kind:
        kind = known_type(target.kind, dict.fromkeys(data.node_types))
        if labeled and kind not in with_labels:
            has = f"; types with labels: {', '.join(with_labels)}" if with_labels else ""
            raise GraphError(f"the target {kind} must have labels y, got none{has}")
        return str(kind)
    if len(with_labels) == 1 or len(data.node_types) == 1 > labeled:
        return str((with_labels or data.node_types)[0])
    if not labeled:
        raise UsageError(f"{option('target')} must name the predicted type, one of {', '.join(data.node_types)}")
    if with_labels:
        raise UsageError(f"{option('target')} must name one of the types with labels: {', '.join(with_labels)}")
    raise GraphError(
        f"it has node types, {', '.join(data.node_types)}, of which one must have labels y for its nodes to be "
        "predicted, got none; only Loader, LinkNeighborLoader and a3gnn graph take it"
    )


def _edge_lists(
    data: HeteroData, numbers: dict[str, int], mirrored: bool, *, timed: bool = False
) -> tuple[dict[Relation, EdgeList], tuple[str, ...]]:
    """Returns the edges of each relation, with their reverses if `mirrored` and their times if `timed`, and notes."""
    lists: dict[Relation, EdgeList] = {}
    names = {tuple(key) for key in data.edge_types}
    added = []
    for key in data.edge_types:
        source, name, target = key
        sources, targets = array_of("edge_index", data[key].edge_index.detach().cpu()).astype(np.int64)
        times = edge_times(data[key], ",".join(key)) if timed else None
        lists[Relation(*key)] = EdgeList(sources, targets, times=times)
        known = {(target, f"rev_{name}", source), (target, name.removeprefix("rev_"), source)} - {tuple(key)}
        loops = source == target and _is_symmetric(sources, targets, numbers[source])
        if mirrored and len(sources) and not (known & names) and not loops:
            lists[Relation(target, f"rev_{name}", source)] = EdgeList(targets, sources, times=times)
            added.append(name)
    if not added:
        return lists, ()
    more = f" and {len(added) - _MAX_NAMED} more" if len(added) > _MAX_NAMED else ""
    which = f"{', '.join(added[:_MAX_NAMED])}{more}"
    return lists, (f"{count(len(added), 'relation')} without a reverse got one, rev_NAME: {which}",)


def _is_symmetric(sources: NDArray[np.int64], targets: NDArray[np.int64], num_nodes: int) -> bool:
    """Returns whether the reverse of each edge is an edge of the same relation."""
    forward, backward = np.unique(sources * num_nodes + targets), np.unique(targets * num_nodes + sources)
    return np.array_equal(forward, backward)


def _features(
    data: HeteroData, numbers: dict[str, int]
) -> tuple[tuple[DenseFeatures | SparseFeatures | None, ...], tuple[str, ...]]:
    """Returns the features of each type, None for a type without nodes or columns, and notes."""
    found: list[DenseFeatures | SparseFeatures | None] = []
    notes: dict[str, list[str]] = {}
    for kind, number in numbers.items():
        x: Any = data[kind].get("x")
        if x is not None and not hasattr(x, "detach"):
            raise GraphError(f"x of {kind} must be a tensor, got {type(x).__name__}; torch.as_tensor converts an array")
        if x is None or not number or (x.ndim == 2 and not x.shape[1]):
            found.append(None)
            continue
        with naming_graph(kind):
            rows, of_type = features_of(x.detach().cpu())
            check_features(rows)
            rows, of_rows = canonical(rows)
        found.append(rows)
        for note in (*of_type, *of_rows):
            notes.setdefault(note, []).append(kind)
    return tuple(found), tuple(f"{', '.join(kinds)}: {note}" for note, kinds in notes.items())


def _array(store: Any, name: str) -> NDArray[Any] | None:
    value = store.get(name)
    return None if value is None or not hasattr(value, "detach") else array_of(name, value.detach().cpu())


def _through_all(labels: NDArray[Any], types: Types, num_nodes: int) -> NDArray[Any]:
    """Returns the labels of the nodes of all types from those of the target type; others have none."""
    kind = target_of(labels)
    found = np.full((num_nodes, *labels.shape[1:]), np.nan if kind == "values" else -1, dtype=KINDS[kind][0])
    found[types.first : types.first + types.num_targets] = labels
    return found

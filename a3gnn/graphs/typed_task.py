"""`load_task`: any graph with labels; `typed_task`: one of a `HeteroData`, whose nodes of one type are predicted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, TypedSetError, UsageError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import assemble, assemble_unlabeled, canonical, edge_notes, judged_labels, naming_graph
from a3gnn.graphs.edge_values import EDGE_VALUES, check_edge_values, num_columns, place_values
from a3gnn.graphs.edges import EdgeList, Edges
from a3gnn.graphs.event_task import edge_times
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import KINDS, target_of
from a3gnn.graphs.link_split import mirrors_of
from a3gnn.graphs.link_task import link_task
from a3gnn.graphs.links import Links, is_predicted
from a3gnn.graphs.load import as_named, converted_copy, load_arrays
from a3gnn.graphs.pyg import REMEDIES, array_of, edge_values_of, features_of, is_hetero
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.graphs.split import MASKS, Split, masks_of
from a3gnn.graphs.target import ANY, Target, known_type
from a3gnn.graphs.typed import check_typed, counted, typed_graph
from a3gnn.graphs.types import Types
from a3gnn.graphs.validate import check_features, check_labels, check_masks
from a3gnn.option_names import option
from a3gnn.storage.cache import cache_root
from a3gnn.storage.graph_copies import recall, source_of
from a3gnn.units import count, printable, some_of

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


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
        found, numbers = _counted(data, target)
        if target.is_relation:
            return _link_graph(found, numbers, name, target, split, mirrored=mirrored, source=source)
        kind = _predicted(found, target, labeled)
        lists, notes = _edge_lists(found, numbers, mirrored)
        features, of_features = _features(found, numbers)
        labels, masks, of_masks = _labels(found[kind], numbers[kind], split, labeled)
        if labeled:
            _check_reached(kind, lists)
        values = _edge_values(found, lists)
    notes = (*notes, *of_features, *of_masks)
    pairs = [np.stack([one.sources, one.targets]) for one in lists.values()]
    if len(numbers) == len(found.edge_types) == 1 and features[0] is not None:
        of_edges = {one: np.concatenate([of[one] for of in values.values()]) for one in next(iter(values.values()))}
        if not labeled:
            return assemble_unlabeled(name, np.hstack(pairs), features[0], notes, of_edges)
        return assemble(name, np.hstack(pairs), features[0], labels, masks, notes, source, of_edges)
    schema = Schema.of(numbers, list(lists))
    edges = Edges.of_relations(schema, [lists[one] for one in schema.relations])
    rows, indices = edges.distinct()
    columns, placed = _placed(schema, lists, values, rows, indices)
    types = Types(schema, rows, features, kind, edge_columns=columns)
    judged, outputs, of_labels = judged_labels(labels, masks) if labeled else (labels, 0, ())
    parts = [(types.first + np.flatnonzero(masks.get(mask, ()))).astype(np.int32) for mask in MASKS]
    notes = (*notes, *of_labels, *edge_notes(len(edges.indices), 0, len(indices), placed))
    judged = _through_all(judged, types, edges.num_nodes)
    return _with_types(types, indices, placed, judged, outputs, parts, name=name, notes=notes, source=source)


def _counted(data: Data | HeteroData, target: Target) -> tuple[HeteroData, dict[str, int]]:
    """Returns checked `data` with types, and the number of nodes of each."""
    if not is_hetero(data) and not target.is_relation:
        raise GraphError(f"its edges are events with times; {REMEDIES['torch_geometric.TemporalData']}")
    check_typed(data)
    found, numbers = counted(data)
    return found, {kind: numbers.get(kind, 0) for kind in found.node_types}


def _check_reached(kind: str, lists: Mapping[Relation, EdgeList]) -> None:
    if not any(one.target == kind and len(edges.sources) for one, edges in lists.items()):
        raise GraphError(
            f"the target {kind} must have in-neighbors in a relation, got none; torch_geometric.transforms."
            "ToUndirected()(data) adds reverse relations"
        )


def _with_types(
    types: Types,
    indices: NDArray[np.int32],
    placed: Mapping[str, NDArray[np.float32]],
    labels: NDArray[Any],
    outputs: int,
    parts: Sequence[NDArray[np.int32]],
    **told: Any,
) -> GraphArrays:
    """Returns a graph with `types`: its in-neighbors, values of edges, labels, and train, validation and test ids."""
    train_ids, val_ids, test_ids = parts
    return GraphArrays(
        indptr=types.row_ends,
        indices=indices,
        features=DenseFeatures(np.empty((sum(types.schema.num_nodes), 0), dtype=np.float32)),
        labels=labels,
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=outputs,
        types=types,
        edge_attr=placed.get("edge_attr"),
        edge_weight=placed.get("edge_weight"),
        **told,
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
    if len(labels) > number and "x" not in store and "num_nodes" not in store:
        raise GraphError(
            f"{store._key} must have num_nodes or x, because its edges end at {number} nodes and y has {len(labels)} "
            f"labels; data[{store._key!r}].num_nodes = {len(labels)}"
        )
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
    """Returns the graph of `data` whose links or edges are predicted; the arguments are those of `typed_task`."""
    task = link_task(data, numbers, target, split)
    lists, of_lists = _edge_lists(task.shown, numbers, mirrored, timed=task.times is not None)
    features, of_features = _features(task.shown, numbers)
    schema = Schema.of(numbers, list(lists))
    edges = Edges.of_relations(schema, [lists[one] for one in schema.relations])
    values, ranks = _edge_values(task.shown, lists), None
    if task.times is None or edges.times is None:
        indptr, indices = edges.distinct()
        columns, placed = _placed(schema, lists, values, indptr, indices)
    else:  # edges may repeat
        indptr, indices, ranks = edges.indptr, edges.indices, edges.times.rank_at(task.times)
        columns, placed = _placed(schema, lists, values, indptr, indices, edges.ids)
    every = _edge_lists(data, numbers, mirrored)[0]  # mirrors are those that hid validation and test
    mirrors = _mirrors(schema, target, every) if ranks is None else ()
    links = Links.of(schema, target.kind, task.pairs, task.kinds, mirrors, ranks)
    types = Types(schema, indptr, features, target.kind, links, columns, edges.times)
    parts = [np.flatnonzero(task.part == code).astype(np.int32) for code in range(3)]
    notes = (*of_lists, *of_features, *task.notes, *edge_notes(len(edges.indices), 0, len(indices), placed))
    return _with_types(types, indices, placed, task.labels, task.outputs, parts, name=name, notes=notes, source=source)


def _mirrors(schema: Schema, target: Target, lists: dict[Relation, EdgeList]) -> list[tuple[int, int]]:
    """Returns `Links.mirrors` of a graph with the edges `lists`."""
    index: dict[tuple[str, str, str], NDArray[np.int64]] = {
        (one.source, one.name, one.target): np.stack([edges.sources, edges.targets]) for one, edges in lists.items()
    }
    predicted = [one for one in schema.relations if is_predicted(one, target.kind)]
    return [
        (schema.relations.index(Relation(*other)), kind)
        for kind, one in enumerate(predicted)
        for other in mirrors_of((one.source, one.name, one.target), index)
        if Relation(*other) not in predicted and Relation(*other) in schema.relations
    ]


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
    return lists, (f"{count(len(added), 'relation')} without a reverse got one, rev_NAME: {some_of(added)}",)


def _edge_values(data: HeteroData, lists: dict[Relation, EdgeList]) -> dict[Relation, dict[str, NDArray[Any]]]:
    """Returns the checked values of the edges of each of `lists`, by name; a reverse has those of its relation."""
    found = {}
    for relation, edges in lists.items():
        source, name, target = relation
        key = tuple(relation) if tuple(relation) in data.edge_types else (target, name.removeprefix("rev_"), source)
        found[relation] = edge_values_of(data[key])
        with naming_graph(",".join(key)):
            check_edge_values(found[relation], len(edges.sources))
    return found


def _placed(
    schema: Schema,
    lists: dict[Relation, EdgeList],
    values: dict[Relation, dict[str, NDArray[Any]]],
    rows: NDArray[np.int64],
    indices: NDArray[np.int32],
    ids: NDArray[Any] | None = None,
) -> tuple[dict[str, tuple[int, ...]], dict[str, NDArray[np.float32]]]:
    """Returns `Types.edge_columns`, and the `values` of edges by name, aligned with `indices`, which have `rows`.

    Values of duplicate edges are added up, unless `Edges.ids` are given: then each edge has its own.
    """
    of_relations = [values[one] for one in schema.relations]
    columns, found = dict[str, tuple[int, ...]](), dict[str, NDArray[np.float32]]()
    number = np.empty(0)  # the relation of each edge
    if ids is not None:
        number = np.repeat(schema.row_table(np.arange(schema.layout[0, -1], dtype=np.int32))[1], np.diff(rows))
    for name in EDGE_VALUES:
        widths = tuple(num_columns(of[name]) if name in of else 0 for of in of_relations)
        if not max(widths, default=0):
            continue
        out = np.zeros((len(indices), max(widths)), dtype=np.float32)
        for place, (relation, width) in enumerate(zip(schema.relations, widths, strict=True)):
            if width:
                edges, wide = lists[relation], np.zeros((len(lists[relation].sources), max(widths)), dtype=np.float32)
                wide[:, :width] = values[relation][name].reshape(-1, width)
                if ids is not None:
                    own = number == place
                    out[own] = wide[ids[own] if len(ids) else slice(None)]
                    continue
                sources = edges.sources + schema.first_node(relation.source)
                place_values(np.stack([sources, schema.rows(place, edges.targets)]), wide, rows, indices, out)
        columns[name], found[name] = widths, out if name == "edge_attr" else out[:, 0]
    return columns, found


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

"""Rules that readers of a graph's arrays rely on; kernels check no bounds, so a wrong id reads foreign memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import MAX_NODES, GraphArrays
from a3gnn.graphs.features import FLOATS, DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import KINDS, is_labeled, unlabeled
from a3gnn.graphs.types import Types
from a3gnn.storage.npy import slices
from a3gnn.units import count

_DTYPES = {
    "indptr": np.int64,
    "rows": np.int64,
    "pairs": np.int32,
    "pair_kinds": np.int32,
    "pair_ranks": np.int32,
    "time_ranks": np.int32,
    "time_timed": np.bool_,
    "indices": np.int32,
    "train_ids": np.int32,
    "val_ids": np.int32,
    "test_ids": np.int32,
    "x_indices": np.int32,
    "x_indptr": np.int64,
    "edge_attr": np.float32,
    "edge_weight": np.float32,
}
#: The place of a type at the end of an array's name.
_PLACE = re.compile(r"_\d+$")


class Violation(NamedTuple):
    """A rule that an array breaks."""

    array: str  # its name in `GraphArrays.arrays`
    rule: str  # the rule and the value that breaks it, for messages


def check_sound(graph: GraphArrays) -> None:
    """Checks types, lengths and contents of every array, in a few passes and some MiB.

    Raises:
        GraphError: The graph is not valid; the message contains the rule, the value that breaks it, and a remedy.
    """
    for violation in violations(graph):
        raise GraphError(f"{graph.name}: {violation.rule}; Graph.load and Graph.from_pyg make these arrays from edges")


def violations(graph: GraphArrays) -> Iterator[Violation]:
    """Yields the rules that `graph` breaks; contents are checked only if all types and lengths are right."""
    sizes_are_wrong = False
    for violation in size_violations(graph):
        sizes_are_wrong = True
        yield violation
    if sizes_are_wrong:
        return
    rows = ("indptr", graph.indptr) if graph.types is None else ("rows", graph.types.rows)
    times = None if graph.types is None else graph.types.times
    yield from row_violations(*rows, "indices", graph.indices, graph.num_nodes, ordered=times is None)
    if times is not None:
        yield from _unsorted(rows[1], "time_ranks", times.ranks, repeats=True)
        yield from _outside("time_ranks", times.ranks, 0, max(len(times.distinct), 1))
    for end, features in _all_features(graph):
        if isinstance(features, SparseFeatures):
            named = f"x_indptr{end}", features.indptr, f"x_indices{end}", features.indices
            yield from row_violations(*named, features.shape[1])
            yield from _not_finite(f"x_data{end}", features.data)
        else:
            yield from _not_finite(f"x{end}", features.array.reshape(-1))
    for name, array in graph.edge_values.items():
        yield from _not_finite(name, array.reshape(-1))
    if graph.links is not None:
        for ids, nodes in zip(graph.links.pairs, graph.links.num_nodes, strict=True):
            yield from _outside("pairs", ids, 0, nodes)
        yield from _outside("pair_kinds", graph.links.kinds, 0, len(graph.links.relations))
        if graph.links.ranks is not None and _first(graph.links.ranks[:-1], graph.links.ranks[1:], np.greater) >= 0:
            yield Violation("pair_ranks", "pair_ranks must ascend, but they do not")
    yield from _wrong_labels(graph)
    yield from split_violations(graph)


def size_violations(graph: GraphArrays) -> Iterator[Violation]:
    """Yields the rules on types and lengths that the arrays break; contents are not read."""
    features: object = graph.features
    if not isinstance(features, DenseFeatures | SparseFeatures):
        yield Violation("x", f"features must be DenseFeatures or SparseFeatures, got {type(features).__name__}")
        return
    classes: object = graph.num_classes
    if not isinstance(classes, int) or classes < 0:
        yield Violation("labels", f"num_classes must be an integer >= 0, got {classes!r}")
        return
    wrong_types = [violation for name, array in graph.arrays().items() for violation in _wrong_type(name, array)]
    yield from wrong_types
    if wrong_types:
        return
    if not 0 < graph.num_nodes <= MAX_NODES:
        yield Violation(
            "indptr", f"a graph must have 1 to {MAX_NODES:,} nodes, got {graph.num_nodes:,}; ids are 32-bit"
        )
        return
    yield from _wrong_ends("indptr", graph.indptr, len(graph.indices))
    lengths = [("labels", len(graph.labels), graph.num_examples)]
    for end, one in _all_features(graph):
        nodes = graph.num_nodes if graph.types is None or not end else graph.types.schema.num_nodes[int(end[1:])]
        lengths.append((f"x{end}", one.shape[0], nodes))
    for name, length, nodes in lengths:
        if length != nodes:
            yield Violation(name, f"{name} must have one row per node, got {length} for {count(nodes, 'node')}")
    yield from _wrong_values(graph)
    for end, one in _all_features(graph):
        if isinstance(one, SparseFeatures):
            yield from _wrong_csr_sizes(one, end)
    if graph.types is not None:
        yield from _wrong_types(graph, graph.types)


def _wrong_values(graph: GraphArrays) -> Iterator[Violation]:
    """Yields the rules on sizes that the values of edges break."""
    for name, array in graph.edge_values.items():
        if len(array) != graph.num_edges or array.size < graph.num_edges:
            yield Violation(name, f"{name} must have one row per edge, got shape {array.shape} for {graph.num_edges}")


def _all_features(graph: GraphArrays) -> Iterator[tuple[str, DenseFeatures | SparseFeatures]]:
    """Yields the features of `graph` and of its types, with the end of the names of their arrays."""
    yield "", graph.features
    for place, one in enumerate(() if graph.types is None else graph.types.features):
        if one is not None:
            yield f"_{place}", one


def _wrong_types(graph: GraphArrays, types: Types) -> Iterator[Violation]:
    """Yields the rules on sizes that the types of `graph` break."""
    schema = types.schema
    if graph.target_type not in schema.types or len(types.features) != len(schema.types):
        yield Violation("rows", f"types must have features for each type and a known target, got {types.target}")
    elif len(types.rows) != schema.num_rows + 1 or schema.layout[0, -1] != graph.num_nodes:
        yield Violation("rows", f"rows must have {schema.num_rows + 1} values, got {len(types.rows)}")
    elif not np.array_equal(types.row_ends, graph.indptr):
        yield Violation("rows", "rows and indptr must have the same in-neighbors of each node, but they differ")
    for name, array in graph.edge_values.items():
        widths = types.edge_columns.get(name, ())
        if len(widths) != len(schema.relations) or max(widths, default=0) != array.reshape(len(array), -1).shape[1]:
            yield Violation(name, f"{name} must have columns of each relation, got {widths} for shape {array.shape}")
    if types.links is not None and types.links.pairs.shape != (2, len(types.links.kinds)):
        yield Violation("pairs", f"pairs must have two rows and a column per kind, got {types.links.pairs.shape}")
    if types.times is not None and (
        len(types.times.ranks) != graph.num_edges
        or len(types.times.timed) != len(schema.relations)
        or types.links is None
        or types.links.ranks is None
        or len(types.links.ranks) != graph.num_examples
    ):
        yield Violation(
            "time_ranks", "each edge and each link must have a time, and each relation whether it has times"
        )


def row_violations(
    starts_name: str,
    indptr: NDArray[np.int64],
    entries_name: str,
    indices: NDArray[np.int32],
    limit: int,
    *,
    ordered: bool = True,
) -> Iterator[Violation]:
    """Yields the rules that CSR rows break: `indptr` must rise, entries must be in [0, limit), and rise if `ordered`.

    The entries of different rows have no order.
    """
    wrong_ends = list(_wrong_ends(starts_name, indptr, len(indices)))
    yield from wrong_ends
    falls = -1 if wrong_ends else _first(indptr[:-1], indptr[1:], np.greater)
    if falls >= 0:
        yield Violation(
            starts_name, f"{starts_name} must not fall, got {indptr[falls]} and {indptr[falls + 1]} at row {falls}"
        )
    yield from _outside(entries_name, indices, 0, limit)
    if not wrong_ends and falls < 0 and ordered:
        yield from _unsorted(indptr, entries_name, indices)


def _wrong_type(name: str, array: Any) -> Iterator[Violation]:
    name = _PLACE.sub("", name)  # which tells types apart
    if name == "x_shape" or (name == "time_distinct" and array.dtype in (np.int64, np.float64)):
        return
    if name == "labels" and isinstance(array, np.ndarray):
        if (array.dtype, array.ndim) not in KINDS.values():
            kinds = ", ".join(f"{dtype} of {ndim} dimension{'s' if ndim > 1 else ''}" for dtype, ndim in KINDS.values())
            yield Violation(name, f"labels must be one of {kinds}, got {array.dtype} of shape {array.shape}")
        return
    wanted = np.dtype(_DTYPES[name]) if name in _DTYPES else None
    ndim = 2 if name in ("x", "edge_attr", "pairs") else 1
    if not isinstance(array, np.ndarray):
        yield Violation(name, f"{name} must be a NumPy array, got {type(array).__name__}")
    elif (array.dtype != wanted if wanted else array.dtype not in FLOATS) or array.ndim != ndim:
        yield Violation(
            name,
            f"{name} must be {wanted or 'float32 or float16'} of {ndim} dimension{'s' if ndim > 1 else ''}, "
            f"got {array.dtype} of shape {array.shape}",
        )
    elif name in {"indptr", "rows", "indices", "x", "edge_attr"} and not array.flags.c_contiguous:
        yield Violation(name, f"{name} must be C-contiguous, got strides {array.strides}")


def _wrong_ends(name: str, indptr: NDArray[np.int64], num_entries: int) -> Iterator[Violation]:
    ends = (int(indptr[0]), int(indptr[-1])) if len(indptr) else (0, 0)
    if ends != (0, num_entries) or not len(indptr):
        yield Violation(name, f"{name} must rise from 0 to {num_entries} (the entries), got {ends[0]} to {ends[1]}")


def _wrong_csr_sizes(features: SparseFeatures, end: str) -> Iterator[Violation]:
    rows, columns = features.shape
    if not 0 < columns <= MAX_NODES:
        yield Violation(f"x_shape{end}", f"x_shape must be two positive sizes below 2**31, got {features.shape}")
    if len(features.indptr) != rows + 1:
        yield Violation(f"x_indptr{end}", f"x_indptr must have {rows + 1} values, got {len(features.indptr)}")
    if len(features.indices) != len(features.data):
        lengths = f"{len(features.indices)} and {len(features.data)}"
        yield Violation(f"x_indices{end}", f"x_indices and x_data must be equally long, got {lengths}")


def _outside(name: str, array: NDArray[Any], low: int, high: int) -> Iterator[Violation]:
    least, most = 2**63, -(2**63)
    for some in slices(len(array)):
        least, most = min(least, int(array[some].min())), max(most, int(array[some].max()))
    if len(array) and (least < low or most >= high):
        yield Violation(name, f"{name} must be in [{low}, {high}), got {least} to {most}")


def _unsorted(
    indptr: NDArray[np.int64], name: str, indices: NDArray[np.int32], *, repeats: bool = False
) -> Iterator[Violation]:
    for start, stop in ((some.start, some.stop) for some in slices(len(indices) - 1)):
        piece = indices[start : stop + 1]
        falls = piece[1:] < piece[:-1] if repeats else piece[1:] <= piece[:-1]
        # The first entry of a row may be smaller than the entry before it.
        first, last = np.searchsorted(indptr, [start + 1, start + len(piece)])
        falls[indptr[first:last] - (start + 1)] = False
        if falls.any():
            row = int(np.searchsorted(indptr, start + 1 + int(falls.argmax()), side="right")) - 1
            yield Violation(
                name, f"{name} must be ascending {'' if repeats else 'and distinct '}in each row, but row {row} is not"
            )
            return


def _not_finite(name: str, values: NDArray[np.floating]) -> Iterator[Violation]:
    bad = 0
    for piece in (values[some] for some in slices(len(values))):
        if piece.dtype == np.float16:  # isfinite of float16 is ten times slower than this test of the exponents
            exponents = np.uint16(0x7C00)
            bad += int(np.count_nonzero((piece.view(np.uint16) & exponents) == exponents))
        else:
            bad += len(piece) - int(np.count_nonzero(np.isfinite(piece)))
    if bad:
        yield Violation(name, f"{name} must be finite, got {bad} NaN or infinite values")


def _wrong_labels(graph: GraphArrays) -> Iterator[Violation]:
    labels, outputs = graph.labels, graph.num_classes
    match graph.target:
        case "classes":
            yield from _outside("labels", labels, -1, outputs)
        case "labels":
            if labels.shape[1] != outputs:
                yield Violation("labels", f"labels must have a column per label, got {labels.shape[1]} for {outputs}")
            yield from _outside("labels", labels, -1, 2)
        case "values":
            infinite = int(np.count_nonzero(np.isinf(labels)))
            if infinite or outputs != 1:
                yield Violation(
                    "labels",
                    f"labels must be finite or NaN with 1 output, got {infinite} infinite values and {outputs} outputs",
                )


def split_violations(graph: GraphArrays) -> Iterator[Violation]:
    """Yields the rules that the train, validation and test ids of an otherwise sound `graph` break."""
    sets = {"train_ids": graph.train_ids, "val_ids": graph.val_ids, "test_ids": graph.test_ids}
    taken = np.zeros(graph.num_examples, dtype=np.bool_)
    for name, ids in sets.items():
        wrong = list(_outside(name, ids, 0, graph.num_examples))
        if not wrong and _first(ids[:-1], ids[1:], np.greater_equal) >= 0:
            wrong.append(Violation(name, f"{name} must be ascending and distinct, but they are not"))
        if not wrong and (shared := int(np.count_nonzero(taken[ids]))):
            wrong.append(
                Violation(name, f"{name} must share no node with the other sets, got {count(shared, 'shared node')}")
            )
        yield from wrong
        if not wrong:
            taken[ids] = True
            missing = int(np.count_nonzero(~is_labeled(graph.labels[ids]))) if name == "train_ids" else 0
            if missing:
                yield Violation(
                    name, f"{name} must be labeled nodes, got {missing} with label {unlabeled(graph.labels)}"
                )


def _first(left: NDArray[Any], right: NDArray[Any], breaks: Callable[..., Any]) -> int:
    """Returns the first index at which `breaks(left, right)` is true, or -1."""
    for some in slices(len(left)):
        found = breaks(left[some], right[some])
        if found.any():
            return int(some.start) + int(found.argmax())
    return -1

"""Converts graphs, also of several types, that may be larger than memory."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, TypedSetError, UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.assemble import check, direction_notes, edge_notes, feature_notes, judged_labels, naming_graph
from a3gnn.graphs.data_folder import load_data, write_data
from a3gnn.graphs.draft import EDGE_DISK_BYTES, Draft, EdgePieces, canonical_pieces, write_adjacency, write_features
from a3gnn.graphs.edge_values import place_values, stored_shape
from a3gnn.graphs.features import FLOATS, DenseFeatures, SparseFeatures, dtype_notes
from a3gnn.graphs.folder import finish_data, finish_folder, has_data, held_fingerprint, refuse_another
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import converted_copy, expanded
from a3gnn.graphs.npz import (
    array_names,
    edge_values_in,
    features_in,
    labels_in,
    left_out,
    naming,
    needed_arrays,
    readable,
)
from a3gnn.graphs.pyg import typed_of
from a3gnn.graphs.split import Split, masks_of
from a3gnn.graphs.synthetic import write as write_synthetic
from a3gnn.graphs.typed import check_typed, hetero_of, typed_graph
from a3gnn.graphs.validate import num_rows
from a3gnn.notify import ConversionProgress
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.claim import claimed_whole
from a3gnn.storage.npy import open_npy
from a3gnn.units import printable

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    from a3gnn.graphs.as_graph import GraphLike

DEFAULT_MEMORY_BYTES = 1 << 30
# Sizes of a read, so a file of any size costs tens of MiB. Guesses.
_BYTES_PER_PIECE = 1 << 22
_EDGES_PER_PIECE = 1 << 21


def convert(
    spec: GraphLike,
    folder: str | Path,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    say: Callable[[str], None] | None = None,
) -> Graph | Data | HeteroData:
    """Writes a graph to `folder` as plain .npy files, and returns it opened from there.

    The files have the same bits as after `Graph.load(spec).save(folder)`, and an error leaves no half-written folder.
    Synthetic graphs, .npz files and converted folders are streamed. Memory is then needed for `memory_bytes` of edges
    and about 50 bytes per node, independent of the number of edges and features. Graphs of PyG and OGB are read into
    RAM by their libraries.

    A graph of several types, or of events with times, becomes a folder of all its attributes, which `Loader` opens. It
    is a `HeteroData`, or a `Data` of a `TemporalData`, whose tensors are memory maps.

    Args:
        spec: A graph, a PyG `Data`, `HeteroData` or `TemporalData`, or any spec that `Graph.load` or `Loader` takes.
        folder: A new or empty folder, or one that holds this very graph.
        memory_bytes: Budget for edges in RAM, > 0; less makes more scratch files and passes.
        say: Takes a line on progress, every few seconds of a long conversion.

    Raises:
        GraphError: The graph can't be read or is not valid, or the folder holds something else or can't be written.
        UsageError: `spec` has none of the known forms, `memory_bytes` is not positive, or another process converts a
            graph into the folder.
    """
    if memory_bytes <= 0:
        raise UsageError(f"memory_bytes must be > 0, got {memory_bytes}; {DEFAULT_MEMORY_BYTES} is the default")
    target = Path(folder)
    held = held_fingerprint(target)
    with claimed_whole(target, say or (lambda line: None)):
        write = _streamed(spec)
        if write is None:
            try:
                is_set = isinstance(spec, str) and spec.startswith(("pyg:", "ogb:"))  # whose types are kept
                return (Graph.load_untyped(str(spec)) if is_set else as_graph(spec)).save(target)
            except TypedSetError as error:
                if isinstance(spec, str) and Split.in_spec(spec)[0] is not None:
                    raise
                write = partial(_write_data, error.data)
        try:
            _write(write, target, held, memory_bytes, ConversionProgress(say))
        except OSError as error:
            raise GraphError(f"the graph can't be written to {target}: {error}; nothing was left there") from error
        return load_data(target) if has_data(target) else Graph.load(target)


def _write(
    write: Callable[[Draft], None], target: Path, held: str | None, memory_bytes: int, progress: ConversionProgress
) -> None:
    """Runs `write` on a draft that then replaces `target`, whose present graph has the fingerprint `held` (or None).

    Raises:
        GraphError: The folder holds another graph.
        OSError: The draft can't be written.
    """
    with replacing(target) as path:
        path.mkdir()
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            draft = Draft(path, Path(scratch), memory_bytes, progress)
            write(draft)
        progress("describing", 0, 1)
        if draft.layout is None:
            written = finish_folder(path, draft.name, draft.num_classes, draft.notes).fingerprint
        else:
            written = finish_data(path, draft.layout)
        refuse_another(target, held, written)
    refuse_another(target, held_fingerprint(target), written)  # `Graph.save` may have been first


def _streamed(spec: GraphLike) -> Callable[[Draft], None] | None:
    """Returns a function that writes the graph piece by piece; None if it must be loaded, or needs only a copy."""
    if not isinstance(spec, str | os.PathLike):
        data = typed_of(spec)
        return None if data is None else partial(_write_data, data)
    scheme, colon, rest = str(spec).partition(":")
    if colon and scheme == "synthetic":
        return partial(write_synthetic, rest)
    path = expanded(Path(spec))
    if path.suffix == ".npz" and path.is_file():
        if "node_types" in array_names(path):
            return partial(_write_typed_npz, path)
        return partial(_write_npz, path) if converted_copy(path) is None else None
    data = typed_graph(os.fspath(spec), mapped=True)
    return None if data is None else partial(_write_data, data)


def _write_data(data: Data | HeteroData, draft: Draft) -> None:
    """Writes `data` to `draft`, after checking that it is valid."""
    check_typed(data)
    write_data(data, draft)


def _write_typed_npz(path: Path, draft: Draft) -> None:
    """Writes the graph of several types in the .npz file at `path` to `draft`, as `_write_npz` does."""
    write_data(hetero_of(_unpacked(path, draft, array_names(path)), path, draft), draft)


def _write_npz(path: Path, draft: Draft) -> None:
    """Writes the graph in the .npz file at `path` to `draft`, after checking that it is valid.

    The arrays of the file are unpacked to scratch files and read from there by memory map.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
        OSError: A file can't be written.
    """
    arrays = _unpacked(path, draft, needed_arrays(array_names(path), path))
    edge_index, labels = arrays["edge_index"], labels_in(arrays)
    features = features_in(arrays, path)
    draft.name = printable(path.stem)
    with naming_graph(draft.name):
        masks, notes = masks_of(arrays.get, labels, num_rows(features), None)
        values = edge_values_in(arrays)
    check(draft.name, edge_index, features, labels, masks, values)
    num_nodes, num_edges = features.shape[0], edge_index.shape[1]
    rewritten = 0 if _moves(features) else features.nbytes
    of_edges = sum(4 * array.size for array in values.values())
    need_room(draft.folder, EDGE_DISK_BYTES * num_edges + rewritten + 2 * labels.nbytes + of_edges)
    judged, draft.num_classes, notes_on_labels = judged_labels(labels, masks)
    draft.save("labels", judged)
    for name, mask in masks.items():
        draft.save(name.replace("mask", "ids"), np.flatnonzero(mask).astype(np.int32))
    edges = _pieces(edge_index)
    counts = write_adjacency(
        edges, num_edges, num_nodes, draft.folder, draft.scratch, draft.memory_bytes, draft.progress
    )
    others = left_out(array_names(path), arrays)
    adjacency = open_npy(draft.folder / "indptr.npy"), open_npy(draft.folder / "indices.npy")
    for name, array in values.items():
        draft.fill(name, stored_shape(name, array, counts.kept), partial(place_values, edge_index, array, *adjacency))
    on_edges = (*edge_notes(*counts, values), *direction_notes(*adjacency))
    draft.notes = (*notes, *others, *notes_on_labels, *on_edges, *_write_features(features, draft))


def _moves(features: DenseFeatures | SparseFeatures) -> bool:
    """Returns whether the unpacked file can move to the folder unchanged."""
    return isinstance(features, DenseFeatures) and features.array.flags.c_contiguous and features.array.dtype in FLOATS


def _write_features(features: DenseFeatures | SparseFeatures, draft: Draft) -> tuple[str, ...]:
    if _moves(features):
        draft.put("x", features.arrays()["x"])
        return ()
    stored = write_features(canonical_pieces(features), features.shape[0], draft.folder, draft.progress)
    if isinstance(features, DenseFeatures):
        return dtype_notes(features.array.dtype.name)
    return (*dtype_notes(features.data.dtype.name), *feature_notes(len(features.data) - stored))


def _pieces(edge_index: NDArray[Any]) -> EdgePieces:
    for start in range(0, edge_index.shape[1], _EDGES_PER_PIECE):
        source, target = edge_index[:, start : start + _EDGES_PER_PIECE]
        yield np.ascontiguousarray(source, dtype=np.int32), np.ascontiguousarray(target, dtype=np.int32)


def _unpacked(path: Path, draft: Draft, needed: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Returns the `needed` arrays of the file as memory maps of scratch files."""
    with readable(path):
        archive = zipfile.ZipFile(path)
    with archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        total = sum(members[name].file_size for name in needed)
        need_room(draft.folder, total)
        done = 0
        places = {name: draft.scratch / f"{i}.npy" for i, name in enumerate(needed)}  # a name may lead elsewhere
        for name in needed:
            with places[name].open("wb") as file:
                for piece in _content(path, archive, members[name]):
                    file.write(piece)
                    done += len(piece)
                    draft.progress("unpacking", done, total)
    with readable(path):
        return {name: _opened(name, places[name], draft) for name in needed}


def _opened(name: str, place: Path, draft: Draft) -> NDArray[Any]:
    with naming(name):
        return draft.open(place)


def _content(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields the bytes of a member in pieces; only errors of reading, not of the consumer, are blamed on the file."""
    with readable(path):
        stream = archive.open(member)
    with stream:
        while True:
            with readable(path):
                piece = stream.read(_BYTES_PER_PIECE)
            if not piece:
                return
            yield piece

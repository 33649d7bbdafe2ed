"""Converts graphs, also of several types, that may be larger than memory."""

from __future__ import annotations

import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, TypedSetError, UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.assemble import (
    check,
    direction_notes,
    edge_notes,
    feature_notes,
    judged_outputs,
    naming_graph,
    stored_below,
)
from a3gnn.graphs.data_folder import load_data, write_data
from a3gnn.graphs.draft import Draft, EdgePieces, canonical_pieces, dense_rows
from a3gnn.graphs.edge_values import EDGE_VALUES, place_values, stored_shape
from a3gnn.graphs.features import DenseFeatures, SparseFeatures, dtype_notes, stored_dtype
from a3gnn.graphs.folder import finish_data, finish_folder, has_data, held_fingerprint, refuse_another
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import judged_nodes
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
from a3gnn.graphs.split import MASKS, Split, ids_mask, mask_ids, masks_of
from a3gnn.graphs.synthetic import write as write_synthetic
from a3gnn.graphs.typed import check_typed, hetero_of, typed_graph
from a3gnn.graphs.validate import Finite, check_ids, num_rows
from a3gnn.notify import ConversionProgress
from a3gnn.storage.atomic import replacing
from a3gnn.storage.claim import claimed_whole
from a3gnn.storage.graph_copies import source_of
from a3gnn.storage.npy import open_npy
from a3gnn.storage.npz_members import Member, Pipe
from a3gnn.storage.stamp import verify_once
from a3gnn.storage.unfinished import GrowingFile, Mark, Unfinished
from a3gnn.units import printable

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    from a3gnn.graphs.as_graph import GraphLike

DEFAULT_MEMORY_BYTES = 1 << 30
# Sizes of a read, so a file of any size costs tens of MiB. Guesses.
_BYTES_PER_PIECE = 1 << 22
_EDGES_PER_PIECE = 1 << 21
#: Memory per node of the largest type: its masks are added as integers of 8 bytes.
_TYPED_NODE_BYTES = 32
#: Arrays that are read through a pipe if they are compressed; the others take bytes per node, and are unpacked.
_PIPED = ("edge_index", "x", *EDGE_VALUES)


def convert(
    spec: GraphLike,
    folder: str | Path,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    say: Callable[[str], None] | None = None,
) -> Graph | Data | HeteroData:
    """Writes a graph to `folder` as plain .npy files, and returns it opened from there.

    The files have the same bits as after `Graph.load(spec).save(folder)`, and an error leaves no half-written folder.
    Synthetic graphs, .npz files and converted folders are streamed. Memory is then needed for `memory_bytes` of edges
    or 8 bytes per node, whichever is more, independent of the number of features. `say` gets the bytes of memory and
    disk before the first is written. Graphs of PyG and OGB are read into RAM by their libraries.

    A killed conversion of a synthetic graph or of a file is continued by the next one from the same source.
    The hidden folder of what is finished is beside `folder`. Checksums prove its files before they are used.

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
        write, source = _streamed(spec)
        if write is None:
            try:
                is_set = isinstance(spec, str) and spec.startswith(("pyg:", "ogb:"))  # whose types are kept
                return (Graph.load_untyped(str(spec)) if is_set else as_graph(spec)).save(target)
            except TypedSetError as error:
                if isinstance(spec, str) and Split.in_spec(spec)[0] is not None:
                    raise
                write = partial(_write_data, error.data)
        try:
            _write(write, target, held, memory_bytes, ConversionProgress(say), source)
        except OSError as error:
            raise GraphError(f"the graph can't be written to {target}: {error}; nothing was left there") from error
        return load_data(target) if has_data(target) else Graph.load(target)


def _write(
    write: Callable[[Draft], None],
    target: Path,
    held: str | None,
    memory_bytes: int,
    progress: ConversionProgress,
    source: str | None = None,
) -> None:
    """Runs `write` on a draft that then replaces `target`, whose present graph has the fingerprint `held` (or None).

    A draft that a killed process left of the same `source` is continued.

    Raises:
        GraphError: The folder holds another graph.
        OSError: The draft can't be written.
    """
    with replacing(target, continued=source is not None) as path:
        unfinished = None if source is None else Unfinished(path.parent, source)
        if unfinished is not None and unfinished.begun:
            progress.say(f"continuing the conversion to {target} that was killed")
        scratch = path.parent / f"{path.name}.scratch"
        for folder in (path, scratch):
            folder.mkdir(exist_ok=True)
        draft = Draft(path, scratch, memory_bytes, progress, unfinished=unfinished)
        write(draft)
        shutil.rmtree(scratch)
        progress("describing", 0, 1)
        if draft.layout is None:
            written = finish_folder(path, draft.name, draft.num_classes, draft.notes).fingerprint
        else:
            written = finish_data(path, draft.layout)
        refuse_another(target, held, written)
        verify_once(path, lambda changed: None)  # everything was checked while it was read, and is not read again
    refuse_another(target, held_fingerprint(target), written)  # `Graph.save` may have been first


def _streamed(spec: GraphLike) -> tuple[Callable[[Draft], None] | None, str | None]:
    """Returns a function that writes the graph piece by piece, and the identity of its source, which may be None.

    The function is None if the graph must be loaded, or needs only a copy.
    """
    if not isinstance(spec, str | os.PathLike):
        data = typed_of(spec)
        return (None if data is None else partial(_write_data, data)), None
    split, of = Split.in_spec(spec) if isinstance(spec, str) else (None, os.fspath(spec))
    scheme, colon, rest = of.partition(":")
    if colon and scheme == "synthetic":
        return partial(_write_synthetic, rest, split), os.fspath(spec)
    path = expanded(Path(of))
    if path.suffix == ".npz" and path.is_file():
        names, source = array_names(path), source_of(path)
        if "node_types" not in names:
            is_known, write = converted_copy(path, split) is not None, partial(_write_npz, path, split)
            return (None, None) if is_known else (partial(_write_unchanged, path, source, write), f"{source}|{split}")
        if split is None:
            return partial(_write_unchanged, path, source, partial(_write_typed_npz, path)), source
    source = source_of(path) if path.suffix in (".pt", ".pth") and path.is_file() else ""  # before it is read
    data = None if split is not None else typed_graph(of, mapped=True)
    if data is None or not source:
        return None if data is None else partial(_write_data, data), None
    return partial(_write_unchanged, path, source, partial(_write_data, data)), source


def _write_unchanged(path: Path, source: str, write: Callable[[Draft], None], draft: Draft) -> None:
    """Writes a graph to `draft` from the file at `path`, which had the identity `source` before it was read.

    Raises:
        GraphError: The file has changed.
    """
    write(draft)
    if source_of(path) != source:
        raise GraphError(f"{path} changed while it was converted; convert it again")


def _write_synthetic(parameters: str, split: Split | None, draft: Draft) -> None:
    """Writes a synthetic graph to `draft`, as `Graph.load` makes it."""
    write_synthetic(parameters, draft)
    if split is not None:
        labels = open_npy(draft.folder / "labels.npy")
        ids = [open_npy(draft.folder / f"{name}_ids.npy") for name in ("train", "val", "test")]
        own = [ids_mask(one, len(labels)) for one in ids]
        with naming_graph(draft.name):
            _save_ids(split.masks(judged_nodes(labels, own)), draft)
        draft.notes = (*draft.notes, split.note(MASKS))


def _write_data(data: Data | HeteroData, draft: Draft) -> None:
    """Writes `data` to `draft`, after checking that it is valid."""
    check_typed(data)
    write_data(data, draft)


def _write_typed_npz(path: Path, draft: Draft) -> None:
    """Writes the graph of several types in the .npz file at `path` to `draft`, as `_write_npz` does."""
    with readable(path):
        archive = zipfile.ZipFile(path)
    with archive, ExitStack() as pipes:
        with readable(path):
            found = {name: _member(path, archive, name) for name in array_names(path)}
        _plan_typed(found, draft)
        write_data(hetero_of(_arrays(path, archive, found, draft, pipes), path, draft), draft, is_told=True)


def _plan_typed(found: Mapping[str, Member], draft: Draft) -> None:
    """Prints and checks what the arrays of several types take as they are stored."""
    result = more = nodes = 0
    for name, one in found.items():
        size = math.prod(one.shape)
        kept = 8 * size if name.startswith(("edge_index__", "x_ind")) else one.nbytes
        result += kept
        is_moved = kept == one.nbytes and not one.fortran and one.dtype.isnative  # it becomes a file of the result
        if name.startswith(("x_data__", "x_ind")) or (one.begin is None and not is_moved):
            more += one.nbytes  # scratch files
        nodes = max(nodes, *one.shape[:1], 0)
    draft.tell(result, result + more, _TYPED_NODE_BYTES * nodes)


def _write_npz(path: Path, split: Split | None, draft: Draft) -> None:
    """Writes the graph in the .npz file at `path` to `draft`, and checks it meanwhile; `split` overrides its masks.

    Features come last, when the scratch files of the edges are gone.

    Raises:
        GraphError: The file is truncated, foreign, lacks an array, or its graph is not valid.
        OSError: A file can't be written.
    """
    draft.name = printable(path.stem)
    with readable(path):
        archive = zipfile.ZipFile(path)
    with archive, ExitStack() as pipes:
        names = array_names(path)
        with readable(path):
            found = {name: _member(path, archive, name) for name in needed_arrays(names, path)}
        _plan(found, sum(found[name].nbytes for name in _read_elsewhere(found)[1]), draft)
        arrays = _arrays(path, archive, found, draft, pipes)
        notes = _write_labels(arrays, features_in(arrays, path), split, draft)
        others = left_out(names, arrays)
        on_edges = _write_edges(arrays, features_in(arrays, path).shape[0], draft)
        on_features = _write_features(features_in(arrays, path), found.get("x"), draft)
    draft.notes = (*notes[0], *others, *notes[1], *on_edges, *on_features)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Member:
    with naming(name):
        return Member.read(path, archive, name)


def _read_elsewhere(found: Mapping[str, Member]) -> tuple[list[str], list[str]]:
    """Returns the names of the arrays that can be read through a pipe, and of the compressed others."""
    piped = [name for name in _PIPED if name in found and (name == "edge_index" or not found[name].fortran)]
    return piped, [name for name, one in found.items() if one.begin is None and name not in piped]


def _arrays(
    path: Path, archive: zipfile.ZipFile, found: Mapping[str, Member], draft: Draft, pipes: ExitStack
) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an .npz file: maps, pipes, and the others as scratch files.

    `pipes` closes the pipes. Stored members are compared with their checksums; dense features when they are written.
    """
    piped, unpacked = _read_elsewhere(found)
    is_known = draft.unfinished is not None and draft.unfinished.stage("checksums") is not None
    stored = [one for name, one in found.items() if one.begin is not None and (name != "x" or one.fortran)]
    total, done = sum(one.info.file_size for one in stored), 0

    def report(size: int) -> None:
        draft.progress("comparing checksums", done + size, total)

    for one in [] if is_known else stored:
        with readable(path):
            one.check(report)
        done += one.info.file_size
    if draft.unfinished is not None:
        draft.unfinished.keep("checksums", {})
    arrays = _unpacked(path, draft, unpacked)
    for name, one in found.items():
        if one.begin is not None:
            arrays[name] = one.array()
        elif name in piped:
            pipe = Pipe(archive, one, partial(readable, path))
            pipes.callback(pipe.close)
            arrays[name] = cast("NDArray[Any]", pipe)  # it answers what is asked of an array here
    return arrays


def _plan(found: Mapping[str, Member], unpacked: int, draft: Draft) -> None:
    """Prints and checks what the arrays take as they are stored."""
    labels, features, others = found["y"], 0, 0
    for name, member in found.items():
        if name.startswith("x"):
            value_bytes = {"x_indices": 4, "x_indptr": 8, "x_shape": 8}.get(name, stored_dtype(member.dtype).itemsize)
            features += math.prod(member.shape) * value_bytes
        elif name in EDGE_VALUES:
            others += 4 * math.prod(member.shape)
    value_bytes = 1 if math.prod(labels.shape[1:]) > 1 else 8
    others += math.prod(labels.shape) * value_bytes + 4 * math.prod(labels.shape[:1])  # an id is in one set
    draft.plan(math.prod(found["edge_index"].shape) // 2, math.prod(labels.shape[:1]), features, others, unpacked)


def _write_labels(
    arrays: Mapping[str, NDArray[Any]], features: DenseFeatures | SparseFeatures, split: Split | None, draft: Draft
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Checks all arrays but for the ids of edges and dense features, and writes labels and the split.

    Returns:
        Notes on the split and on the labels.
    """
    labels = labels_in(arrays)
    with naming_graph(draft.name):
        masks, notes = masks_of(arrays.get, labels, num_rows(features), split)
        values = edge_values_in(arrays)
    check(draft.name, arrays["edge_index"], features, labels, masks, values, contents=False)
    draft.num_classes, notes_on_labels = judged_outputs(labels, masks)
    kept = (stored_below(piece, draft.num_classes) for piece in dense_rows(labels))
    draft.save_pieces("labels", kept)
    _save_ids(masks, draft)
    return notes, notes_on_labels


def _save_ids(masks: Mapping[str, NDArray[np.bool_]], draft: Draft) -> None:
    for name, mask in masks.items():
        draft.save(name.replace("mask", "ids"), mask_ids(mask))


def _write_edges(arrays: Mapping[str, NDArray[Any]], num_nodes: int, draft: Draft) -> tuple[str, ...]:
    """Writes edges and their values, and returns notes on them."""
    edge_index, values = arrays["edge_index"], edge_values_in(arrays)
    counts = draft.write_edges(partial(_pieces, edge_index, num_nodes, draft.name), edge_index.shape[1], num_nodes)
    adjacency = open_npy(draft.folder / "indptr.npy"), open_npy(draft.folder / "indices.npy")
    for name, array in values.items():
        draft.fill(name, stored_shape(name, array, counts.kept), partial(place_values, edge_index, array, *adjacency))
    return *edge_notes(*counts, values), *direction_notes(*adjacency)


def _write_features(features: DenseFeatures | SparseFeatures, member: Member | None, draft: Draft) -> tuple[str, ...]:
    """Writes features, of which dense ones are in `member`, and returns notes on them."""
    if isinstance(features, SparseFeatures):
        stored = draft.write_features(canonical_pieces(features), features.shape[0])
        return (*dtype_notes(features.data.dtype.name), *feature_notes(len(features.data) - stored))
    assert member is not None
    rows = dense_rows(features.array)
    if member.begin is not None and not member.fortran:
        rows = _blamed(member.path, member.checked(rows))
    draft.write_features(_finite(rows, draft.name), features.shape[0])
    return dtype_notes(member.dtype.name)


def _finite(rows: Iterable[NDArray[Any]], name: str) -> Iterator[DenseFeatures]:
    """Yields rows of features as stored, and checks at the end that all were finite.

    Raises:
        GraphError: A value is not.
    """
    check = Finite("x")
    for piece in rows:
        with naming_graph(name):
            check.add(piece)
        yield DenseFeatures(np.ascontiguousarray(piece, stored_dtype(piece.dtype)))
    with naming_graph(name):
        check.end()


def _blamed(path: Path, rows: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Yields `rows`; an error of theirs is blamed on the file at `path`, one of their reader is not."""
    while True:
        with readable(path):
            piece = next(rows, None)
        if piece is None:
            return
        yield piece


def _pieces(edge_index: NDArray[Any], num_nodes: int, name: str) -> EdgePieces:
    """Yields edges, checked, because the reader relies on ids in [0, num_nodes).

    Raises:
        GraphError: An id is out of range; the message names the range of all ids.
    """
    low, high = 1 << 64, -1 << 64
    for start in range(0, edge_index.shape[1], _EDGES_PER_PIECE):
        ends = edge_index[:, start : start + _EDGES_PER_PIECE]
        low, high = min(low, int(ends.min())), max(high, int(ends.max()))
        if low >= 0 and high < num_nodes:
            source, target = (np.require(ids, np.int32, ("C", "A")) for ids in ends)
            yield source, target
    with naming_graph(name):
        check_ids(low, high, num_nodes)


def _unpacked(path: Path, draft: Draft, needed: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Returns the `needed` arrays of the file as memory maps of scratch files."""
    with readable(path):
        archive = zipfile.ZipFile(path)
    found, done = dict[str, NDArray[Any]](), 0
    with archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        total = sum(members[name].file_size for name in needed)

        def write(name: str, place: Path) -> Mark:
            nonlocal done
            with GrowingFile(place) as file:
                for piece in _content(path, archive, members[name]):
                    file.append(memoryview(piece))
                    done += len(piece)
                    draft.progress("unpacking", done, total)
            return file.mark

        for name in needed:
            scratch = draft.written(f"unpacked {name}", partial(write, name))
            with readable(path), naming(name):
                found[name] = draft.open(scratch)
    return found


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

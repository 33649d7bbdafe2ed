"""Converts graphs that may be larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.conversion import npz_stream
from a3gnn.graphs.conversion.draft import Draft
from a3gnn.graphs.folder import finish_folder, held_fingerprint, refuse_another
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import converted_copy
from a3gnn.graphs.synthetic.generate import write as write_synthetic
from a3gnn.notify import ConversionProgress
from a3gnn.storage.atomic import expanded, replacing
from a3gnn.storage.claim import claimed_whole

DEFAULT_MEMORY_BYTES = 1 << 30


def convert(
    spec: str | Path,
    folder: str | Path,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    say: Callable[[str], None] | None = None,
) -> Graph:
    """Writes the graph that `spec` names to `folder` as plain .npy files, and returns it opened from there.

    The files have the same bits as after `Graph.load(spec).save(folder)`, and an error leaves no half-written folder.
    Synthetic graphs, .npz files and converted folders are streamed. Memory is then needed for `memory_bytes` of edges
    and about 50 bytes per node, independent of the number of edges and features. Graphs of PyG and OGB are read into
    RAM by their libraries.

    Args:
        spec: Any spec that `Graph.load` takes.
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
            return Graph.load(spec).save(target)
        try:
            _write(write, target, held, memory_bytes, ConversionProgress(say))
        except OSError as error:
            raise GraphError(f"the graph can't be written to {target}: {error}; nothing was left there") from error
        return Graph.load(target)


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
        written = finish_folder(path, draft.name, draft.num_classes, draft.notes)
        refuse_another(target, held, written.fingerprint)
    refuse_another(target, held_fingerprint(target), written.fingerprint)  # `Graph.save` may have been first


def _streamed(spec: str | Path) -> Callable[[Draft], None] | None:
    """Returns a function that writes the graph piece by piece; None if it must be loaded, or needs only a copy."""
    scheme, colon, rest = str(spec).partition(":")
    if colon and scheme == "synthetic":
        return partial(write_synthetic, rest)
    path = expanded(spec)
    if path.suffix == ".npz" and path.is_file() and converted_copy(path) is None:
        return partial(npz_stream.write, path)
    return None

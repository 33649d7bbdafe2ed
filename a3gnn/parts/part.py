"""`Part`: some nodes of a graph with all their in-edges, features and labels, in a folder of memory maps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn import units
from a3gnn.errors import GraphError
from a3gnn.graphs.features import FLOATS
from a3gnn.graphs.soundness import row_violations
from a3gnn.storage.mapping import in_large_pages
from a3gnn.storage.npy import content_hash, open_npy
from a3gnn.storage.stamp import verify_once

FORMAT = "a3gnn-graph-part"
FORMAT_VERSION = 1
META = "meta.json"
#: Values of `roles`, by the node set; 0 is in no set.
ROLES = {"train_ids": 1, "val_ids": 2, "test_ids": 3}
_DTYPES = {
    "nodes": np.dtype(np.int32),
    "indptr": np.dtype(np.int64),
    "indices": np.dtype(np.int32),
    "roles": np.dtype(np.uint8),
    "loops": np.dtype(np.uint8),
    "entries": np.dtype(np.int64),
}
_REMEDY = "copy the part again, or make the parts again: a3gnn parts make"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of a graph; its arrays are memory maps and must not be written to.

    Attributes:
        about: Content of the folder's meta.json, on the cut (`cut`, `part`, `num_parts`, `partitioner`, `seed`) and on
            the whole graph (`graph`).
        nodes: The part's nodes, int32, ascending, shape (n,).
        indptr: Their in-neighbors as CSR, int64, shape (n + 1,).
        indices: Node ids of the whole graph, int32, ascending in each row.
        x: Features, float32 or float16, shape (n, num_features).
        labels: The graph's labels, a row per node of the part.
        roles: Node set of each node (`ROLES`), uint8.
        loops: Whether each node is its own in-neighbor, uint8.
        entries: How often each node is an in-neighbor in the whole graph, int64.
    """

    about: dict[str, Any]
    nodes: NDArray[np.int32]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    x: NDArray[np.floating]
    labels: NDArray[Any]
    roles: NDArray[np.uint8]
    loops: NDArray[np.uint8]
    entries: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        """Nodes of the part."""
        return len(self.nodes)

    @property
    def number(self) -> int:
        """Number of the part, from 0."""
        number: int = self.about["part"]
        return number

    @property
    def cut(self) -> bytes:
        """Identity of the cut, equal for its parts and no others: 16 bytes."""
        return bytes.fromhex(self.about["cut"])


def write_meta(folder: Path, about: dict[str, Any]) -> None:
    """Writes meta.json beside the arrays of a part, with their types, shapes and hashes."""
    arrays = {file.stem: open_npy(file) for file in sorted(folder.glob("*.npy"))}
    found = {name: [array.dtype.str, list(array.shape), content_hash(array)] for name, array in arrays.items()}
    meta = {"format": FORMAT, "format_version": FORMAT_VERSION, **about, "arrays": found}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def open_part(folder: Path) -> Part:
    """Returns the part in `folder`; the content of its files is verified once, and again after a change.

    Raises:
        GraphError: The folder is not a part, is of another version, or is damaged.
    """
    about = _read_meta(folder)
    try:
        kinds = about.pop("arrays")
        arrays = {name: open_npy(folder / f"{name}.npy") for name in kinds}
        for name, (kind, shape, _) in kinds.items():
            if (arrays[name].dtype.str, list(arrays[name].shape)) != (kind, shape):
                raise GraphError(f"{folder / name}.npy must contain {kind} of shape {shape}, as in {META}; {_REMEDY}")
        for name in ("indptr", "indices", "x"):
            arrays[name] = in_large_pages(arrays[name])
        part, num_nodes = Part(about, **arrays), int(about["graph"]["num_nodes"])
        for problem in _wrong_sizes(part):
            raise GraphError(f"{folder} is damaged: {problem}; {_REMEDY}")
        hashes = {name: kind[2] for name, kind in kinds.items()}
        verify_once(folder, partial(_check, folder, part, num_nodes, hashes))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{folder} can't be read ({error!r}); {_REMEDY}") from error
    return part


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GraphError(f"{folder} is not a part: {META} can't be read ({error}); {_REMEDY}") from error
    if not isinstance(meta, dict) or meta.pop("format", None) != FORMAT:
        raise GraphError(f"{folder} is not a part: {META} does not have the format {FORMAT!r}; {_REMEDY}")
    if (version := meta.pop("format_version", None)) != FORMAT_VERSION:
        raise GraphError(f"the format version of {folder} must be {FORMAT_VERSION}, got {version!r}; {_REMEDY}")
    return meta


def _wrong_sizes(part: Part) -> Iterator[str]:
    count = len(part.nodes)
    for name, dtype in _DTYPES.items():
        array = getattr(part, name)
        if array.dtype != dtype or array.ndim != 1:
            yield f"{name} must be {dtype} of 1 dimension, got {array.dtype} of shape {array.shape}"
    if part.x.dtype not in FLOATS or part.x.ndim != 2 or not part.x.flags.c_contiguous:
        yield f"x must be float32 or float16 of 2 dimensions, got {part.x.dtype} of shape {part.x.shape}"
    lengths = {"indptr": len(part.indptr) - 1} | {
        name: len(getattr(part, name)) for name in ("x", "labels", "roles", "loops", "entries")
    }
    for name, length in lengths.items():
        if length != count:
            yield f"{name} must have one row per node, got {length} for {units.count(count, 'node')}"


def _check(folder: Path, part: Part, num_nodes: int, hashes: dict[str, str], _changed: bool) -> None:
    """Checks the rules that servers rely on, because kernels check no bounds, and the hashes of the files."""
    nodes = part.nodes
    ascends = bool((np.diff(nodes) > 0).all())
    if not len(nodes) or not ascends or nodes[0] < 0 or nodes[-1] >= num_nodes:
        raise GraphError(f"{folder} is damaged: nodes must ascend in [0, {num_nodes}); {_REMEDY}")
    for violation in row_violations("indptr", part.indptr, "indices", part.indices, num_nodes):
        raise GraphError(f"{folder} is damaged: {violation.rule}; {_REMEDY}")
    for name, expected in hashes.items():
        if content_hash(getattr(part, name)) != expected:
            raise GraphError(f"{folder / name}.npy must not change after it is written, but it has changed; {_REMEDY}")

"""`Graph`: the attributed graph that training, sampling and prediction take."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays, row_slots
from a3gnn.graphs.describe import describe
from a3gnn.graphs.edge_values import EDGE_VALUES
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.folder import is_sound, read_folder, write_folder
from a3gnn.graphs.labels import describe_outputs
from a3gnn.graphs.load import as_named, file_of, load_arrays, load_unlabeled, resplit
from a3gnn.graphs.pyg import as_data, from_data, from_unlabeled, is_hetero, left_out, to_data
from a3gnn.graphs.soundness import check_sound
from a3gnn.graphs.split import Split
from a3gnn.graphs.target import Target
from a3gnn.graphs.typed import typed_graph
from a3gnn.graphs.typed_task import load_task, typed_task
from a3gnn.storage.cache import cache_root
from a3gnn.storage.graph_copies import graph_folder, remember
from a3gnn.storage.npy import open_npy
from a3gnn.units import count, printable

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    from a3gnn.graphs.edges import Edges


@dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphArrays):
    """An attributed, labeled, directed graph in CSR by destination (fields: `GraphArrays`).

    Raises:
        GraphError: An array has a type or length other than the one in `GraphArrays`, or an invalid value.

    Examples:
        >>> graph = Graph.load("synthetic:nodes=1000,seed=3")
        >>> graph.num_nodes
        1000
    """

    @property
    def edges(self) -> Edges:
        """In-neighbors as samplers take them, without ids."""
        from a3gnn.graphs.edges import Edges  # numba is slow to import, and readers of a graph need none

        if self.types is None:
            return Edges(self.indptr, self.indices)
        return Edges(self.types.rows, self.indices, schema=self.types.schema, times=self.types.times)

    @property
    def placed_edges(self) -> Edges:
        """In-neighbors as samplers take them, whose ids are places in `indices`."""
        return dataclasses.replace(self.edges, ids=np.empty(0, dtype=np.int32))

    @classmethod
    def of_nodes(cls, features: DenseFeatures | SparseFeatures) -> Self:
        """Returns the graph with a node per row of `features`, without edges, labels and training nodes."""
        nobody, count = np.empty(0, dtype=np.int32), features.shape[0]
        unlabeled, indptr = np.broadcast_to(np.int64(-1), count), np.zeros(count + 1, dtype=np.int64)
        return cls("pyg", indptr, nobody, features, unlabeled, nobody, nobody, nobody, num_classes=0)

    @classmethod
    def load(cls, spec: str | Path, split: str | Sequence[float] | None = None, split_seed: int = 0) -> Self:
        """Returns the graph that `spec` names, in any form that `--dataset` takes.

        The forms are an .npz file, a folder converted by `save`, `synthetic:KEY=VALUE,...`, `pyg:NAME`, `ogb:NAME`, and
        a saved PyG `Data` (.pt).

        Args:
            spec: One of these forms; `split:SHARES:SEED:SPEC` is the graph of SPEC with this split, and
                `target:TYPE:SPEC` that of a file or set of several node types whose nodes of TYPE are predicted. By
                default they are those of the only type with labels.
            split: Shares of train, validation and test nodes, such as "0.6,0.2,0.2" or (0.6, 0.2, 0.2). Labeled nodes
                are split at random by these shares. None keeps the graph's own split.
            split_seed: Seed of the random split.

        Raises:
            GraphError: It can't be read, or is not valid.
            UsageError: `spec` has none of these forms, or `split` is not three valid shares.
        """
        return cls._of_checked(load_task(spec, Split.of(split, split_seed)))

    @classmethod
    def load_untyped(cls, spec: str | Path, split: str | Sequence[float] | None = None, split_seed: int = 0) -> Self:
        """Returns the graph that `spec` names, as `load` does, if it has no node types.

        Raises:
            GraphError: It can't be read, is not valid, or has node types; `TypedSetError` has the data of a set.
            UsageError: `spec` has no known form.
        """
        found = cls._of_checked(load_arrays(spec, Split.of(split, split_seed)))
        if found.types is not None:
            raise GraphError(f"{found.name} has node types, but this needs a graph of one type of nodes and edges")
        return found

    @classmethod
    def load_unlabeled(cls, path: str | Path, target: str = "") -> Self:
        """Returns the graph in an .npz or .pt file, for prediction; labels are not read.

        `target` is the predicted type in a file of several node types.

        Raises:
            GraphError: It can't be read, or is not valid.
        """
        file = file_of(path)
        typed = typed_graph(str(file))
        if typed is not None:
            name = printable(file.stem)
            return cls._of_checked(typed_task(typed, name, Target(target), mirrored=True, labeled=False))
        return cls._of_checked(load_unlabeled(path))

    def resplit(self, split: str | Sequence[float], split_seed: int = 0) -> Self:
        """Returns this graph with labeled nodes split anew as in `load`; the other arrays are shared.

        Raises:
            GraphError: There are too few labeled nodes.
            UsageError: `split` is not three valid shares.
        """
        return self._of_checked(resplit(self, Split.of(split, split_seed)))

    @classmethod
    def from_pyg(
        cls,
        data: Data | HeteroData,
        name: str = "pyg",
        split: str | Sequence[float] | None = None,
        split_seed: int = 0,
        target: str = "",
    ) -> Self:
        """Returns the graph in a PyG `Data` with x, edge_index, y and masks, or in a `HeteroData`.

        An edge (s, t) makes s an in-neighbor of t, as in PyG's message passing. Numbers in edge_attr and edge_weight
        are kept; a warning and a note list other attributes of edges. y holds classes (integers, -1 for unlabeled),
        rows of 0 and 1 (several labels per node), or floats (values, NaN for unlabeled). x of a type other than float32
        and float16 is stored as float32, and a note says so. `split` and `split_seed` are those of `load`. Without
        masks, train_idx, val_idx and test_idx are used; without these, labeled nodes are split at random. Of a
        `HeteroData`, the nodes of the type `target` are predicted, by default the only type with labels; its relations
        are used as they are, without values of edges.

        Raises:
            GraphError: The graph is not valid.
            UsageError: `split` is not three valid shares.
        """
        shares = Split.of(split, split_seed)
        if is_hetero(data):
            return cls._of_checked(typed_task(data, name, Target(target), shares))
        graph = cls._of_checked(from_data(data, name, split=shares))
        for note in left_out(as_data(data), graph.edge_values):
            warnings.warn(f"{name}: {note}", stacklevel=2)
        return graph

    @classmethod
    def from_unlabeled(cls, data: Data | HeteroData, name: str = "pyg", target: str = "") -> Self:
        """Returns the graph in a PyG `Data`, or a `HeteroData`, for prediction; labels are not read.

        Raises:
            GraphError: The graph is not valid.
        """
        if is_hetero(data):
            return cls._of_checked(typed_task(data, name, Target(target), labeled=False))
        return cls._of_checked(from_unlabeled(data, name))

    def to_pyg(self) -> Data | HeteroData:
        """Returns the graph as a PyG `Data`, with types a `HeteroData`; its tensors are writable copies in RAM.

        It has x (float32, as PyG's layers take it; dense or sparse CSR), edge_index (int64, by target), y, edge_attr
        and edge_weight (float32) if the graph has them, and train_mask, val_mask and test_mask (bool). y is int64 for
        classes and for rows of 0 and 1, -1 for unlabeled; it is float32 for values, NaN for unlabeled. `from_pyg`
        restores the same graph, unless features are stored as float16: the `Data` has them as float32, in twice the
        memory. `Loader` on the graph itself widens mini-batches only.
        """
        return to_data(self)

    def save(self, path: str | Path) -> Self:
        """Writes plain .npy files and meta.json to the folder `path`, and returns the graph opened from it.

        All or nothing: an error leaves no half-written folder.

        Raises:
            GraphError: The folder holds something else, or can't be written.
        """
        write_folder(self, self.characteristics(), Path(path))
        return self._of_checked(read_folder(Path(path)))

    def on_disk(self, cache: str | Path | None = None) -> Self:
        """Returns the graph opened by memory map: itself if on disk, else a copy in the cache folder, written once.

        Args:
            cache: Folder of the copies; by default $A3GNN_CACHE, else a3gnn in the user's cache folder.
        """
        if self.folder is not None:
            return self
        root = cache_root(cache)
        folder = graph_folder(root, self.fingerprint)
        if folder.exists() and not is_sound(folder):
            shutil.rmtree(folder)
        write_folder(self, self.characteristics(), folder)
        if self.source is not None:
            with suppress(OSError):  # without this entry, the next load reads the file again
                remember(root, self.source, self.fingerprint, self.notes)
        return self._of_checked(as_named(read_folder(folder), self.name, self.notes))

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles a graph on disk as the path of its folder, so no process copies the arrays."""
        if not self._is_of_folder():
            return super().__reduce__()
        assert self.folder is not None
        return _opened_again, (type(self), self.folder.resolve(), self.name, self.notes, self.fingerprint)

    @property
    def is_parted(self) -> bool:
        """Whether graph servers have the in-neighbors and features, which are read row by row (`PartedGraph`)."""
        return False

    def in_edges(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the CSR of the in-edges of `ids`, which ascend: indptr int32 (n + 1,), indices int32 (global ids).

        A run of consecutive nodes is a view of the graph's own indices.
        """
        first, last = int(ids[0]), int(ids[-1])
        if last - first + 1 == len(ids):
            ends = self.indptr[first : last + 2]
            return (ends - ends[0]).astype(np.int32), self.indices[ends[0] : ends[-1]]
        indptr, slots = row_slots(self.indptr, ids)
        return indptr.astype(np.int32), self.indices[slots]

    def other_degrees(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Returns the in-neighbors other than itself of each of `ids`, which ascend, int64."""
        indptr, indices = self.in_edges(ids)
        counts = np.diff(indptr)
        loops = np.repeat(ids, counts) == indices
        own = np.bincount(np.repeat(np.arange(len(ids)), counts)[loops], minlength=len(ids))
        others: NDArray[np.int64] = counts - own
        return others

    def characteristics(self) -> GraphCharacteristics:
        """Returns the statistics that the surrogate takes, from the folder if it has them, else computed once."""
        return self._characteristics

    def derived(self, name: str) -> Path:
        """Returns the path of a file derived from the graph, such as its partitions, beside the graph's own files.

        Raises:
            GraphError: The graph is not on disk.
        """
        if self.folder is None:
            raise GraphError(f"a derived file ({name}) needs a graph on disk, but {self.name} is in RAM; use on_disk()")
        return self.folder / "derived" / name

    @cached_property
    def _characteristics(self) -> GraphCharacteristics:
        if self.known is None:
            return describe(self)
        if self.links is None or self.known.ends:
            return self.known
        return dataclasses.replace(self.known, ends=self.links.of_types)  # a folder of an older version

    @classmethod
    def _of_checked(cls, arrays: GraphArrays) -> Self:
        """Returns `arrays` as a graph without a check; their reader has checked them."""
        graph = object.__new__(cls)
        for field in dataclasses.fields(arrays):
            object.__setattr__(graph, field.name, getattr(arrays, field.name))
        return graph

    def __post_init__(self) -> None:
        """Checks the arrays. After a `replace` they may differ from the folder, which is then forgotten."""
        check_sound(self)
        if not self._is_of_folder():
            for field in ("folder", "source", "known"):
                object.__setattr__(self, field, None)

    def _is_of_folder(self) -> bool:
        """Returns whether every array maps the whole file of that name in the graph's folder."""
        if self.folder is None or self.known is None:
            return False
        if (self.num_features, self.num_classes) != (self.known.num_features, self.known.num_classes):
            return False
        if any((self.folder / f"{name}.npy").exists() != (name in self.edge_values) for name in EDGE_VALUES):
            return False
        arrays = {name: array for name, array in self.arrays().items() if not name.startswith("x_shape")}
        return all(_is_whole_file(array, self.folder / f"{name}.npy") for name, array in arrays.items())

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, {count(self.num_nodes, 'node')}, {count(self.num_edges, 'edge')}, "
            f"{count(self.num_features, 'feature')}, {describe_outputs(self.target, self.num_classes)})"
        )


def _is_whole_file(array: NDArray[Any], path: Path) -> bool:
    """Returns whether `array` maps the whole .npy file at `path`; if it is empty, whether the shapes are equal."""
    if not array.size:
        try:
            return open_npy(path).shape == array.shape
        except (OSError, ValueError):
            return False
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None or Path(str(base.filename)).resolve() != path.resolve():
        return False
    ours, whole = array.__array_interface__, base.__array_interface__
    return all(ours[key] == whole[key] for key in ("data", "shape", "strides", "typestr"))


def _opened_again(kind: type[Graph], folder: Path, name: str, notes: tuple[str, ...], fingerprint: str) -> Graph:
    """Unpickles the graph in `folder`.

    Raises:
        GraphError: The folder does not exist here, or holds another graph.
    """
    found = read_folder(folder)
    if found.fingerprint != fingerprint:
        raise GraphError(
            f"{folder} must hold the pickled graph {name} with fingerprint {fingerprint}, got {found.fingerprint}; "
            "pickle it again"
        )
    return kind._of_checked(as_named(found, name, notes))

"""Full-neighbor inference, layer by layer, in bounded memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3gnn.errors import A3GNNError
from a3gnn.evaluation.aggregate_table import AggregateRows, aggregate_rows
from a3gnn.evaluation.neighborhoods import EDGE_BYTES, Neighborhoods, Places
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.derived_room import check_limit
from a3gnn.graphs.edge_values import num_columns
from a3gnn.graphs.graph import Graph
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.models.layers.layer import Layer, LayerShapes
from a3gnn.models.model import Model
from a3gnn.ranks.exchange import RowExchange
from a3gnn.ranks.peers import Ranks
from a3gnn.storage.atomic import need_room
from a3gnn.storage.cache import cache_root
from a3gnn.units import format_size

#: Chunks of nodes, in order, and a layer's output for each node.
Outputs = Iterator[tuple[NDArray[np.int32], Tensor]]

#: Bytes of a chunk's temporaries. Guess.
CHUNK_BYTES = 32 * 2**20
#: Evaluations after which a table must have paid off: the points of a trial's curve, in the median of the 907 curves of
#: the shipped rows.
_EVALUATIONS = 12
_FEWER = "take fewer nodes or hidden channels"


class Scratch:
    """A folder for matrices that vanish with the process.

    Args:
        folder: A folder on disk, because one in RAM would count as memory; by default beside the cached graphs.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_root() / "scratch" if folder is None else folder

    def matrix(self, rows: int, columns: int, beside: int = 0) -> Tensor:
        """Returns a zeroed float32 tensor of shape (rows, columns) in an unlinked, memory-mapped file.

        The limit on scratch counts `beside`, the bytes of the evaluation's other files.

        The file's blocks are reserved now, so that a full disk raises an error here, not a bus error at a later write.

        Raises:
            A3GNNError: The folder can't be written, or its disk is full.
        """
        with self.file(self.num_bytes(rows, columns), beside) as file:
            mapped = np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, columns))
        return torch.from_numpy(np.asarray(mapped))

    def file(self, size: int, beside: int = 0) -> IO[bytes]:
        """Returns an unlinked file of at least `size` bytes, all reserved; `beside` as for `matrix`.

        Raises:
            A3GNNError: The folder can't be written, or its disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            check_limit(size + beside)
            with ExitStack() as stack:
                file = stack.enter_context(tempfile.TemporaryFile(dir=self.folder))
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
                stack.pop_all()
        except OSError as error:
            raise self._full(size, "a layer's output", error) from error
        return file

    @staticmethod
    def num_bytes(rows: int, columns: int) -> int:
        """Returns the bytes of a matrix."""
        return 4 * rows * columns

    def need(self, size: int, remedy: str = _FEWER) -> None:
        """Checks that the disk has room for `size` bytes of matrices.

        `remedy` ends the message after the advice for any full disk.

        Raises:
            A3GNNError: It has less, or the folder can't be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            check_limit(size)
            need_room(self.folder, size)
        except OSError as error:
            raise self._full(size, "all layers' outputs", error, remedy) from error

    def beside(self, folder: Path, size: int) -> int:
        """Returns `size` if files in `folder` take the same disk, else 0."""
        same = self.folder.is_dir() and folder.stat().st_dev == self.folder.stat().st_dev
        return size if same else 0

    def _full(self, size: int, what: str, error: OSError, remedy: str = _FEWER) -> A3GNNError:
        return A3GNNError(
            f"evaluation needs {format_size(size)} of disk space in {self.folder} for {what}: "
            f"{error.strerror or error}; free some, set A3GNN_CACHE to a folder on another disk, or "
            f"{remedy}"
        )


class Inference:
    """Computes the logits of some nodes from all their in-neighbors; computes each layer once per needed node.

    If the input layer starts with an aggregation without weights, it can read precomputed rows
    (`a3gnn.evaluation.aggregate_table`). It does so if a dozen evaluations would aggregate at least as many edges as
    the graph has. Later layers read memory-mapped scratch files with a row per needed node. Nodes are processed in
    chunks, whose temporaries keep to a budget. On an accelerator, each chunk's sources are gathered and sent; on the
    CPU, layers read float32 rows in place.

    Args:
        graph: The whole graph, even if training uses parts.
        ids: Nodes to compute, distinct and ascending.
        num_layers: Layers of the models that `logits` will get.
        aggregator: The aggregator of their input layer; None uses no table.
        scratch: Holds the hidden layers' outputs.
        device: The models' device.
        chunk_bytes: Limit of a chunk's temporaries.
        in_place: Whether layers read whole matrices in place; by default on the CPU.
        on_chunk: Called before each chunk; its exceptions propagate.
        ranks: Ranks that each compute about an equal part of each layer's nodes and exchange them; None computes all
            nodes here.
        edges: Values of the graph's edges that the models read; None for none.
        keeps: Whether precomputed rows are stored beside the graph, for the next evaluations. If not, rows that are not
            stored yet are computed as they are read.

    Attributes:
        ranks: As given; None if there are fewer nodes than ranks: then each rank computes all nodes.

    Raises:
        GraphError: The table is damaged, or can't be written.
    """

    def __init__(
        self,
        graph: Graph,
        ids: NDArray[np.int32],
        num_layers: int,
        *,
        aggregator: Aggregator | None = None,
        scratch: Scratch,
        device: torch.device | str = "cpu",
        chunk_bytes: int = CHUNK_BYTES,
        in_place: bool | None = None,
        on_chunk: Callable[[], None] = lambda: None,
        ranks: Ranks | None = None,
        edges: NDArray[np.float32] | None = None,
        keeps: bool = True,
    ) -> None:
        self._graph = graph
        self.ranks = ranks if ranks is not None and len(ids) >= ranks.size else None
        self._cut = RowExchange(graph, self.ranks)
        self._device = torch.device(device)
        self._scratch = scratch
        self._in_place = self._device.type == "cpu" if in_place is None else in_place
        self._around = Neighborhoods(
            graph, self._device, chunk_bytes, in_place=self._in_place, on_chunk=on_chunk, edges=edges
        )
        self._value_bytes = 0 if edges is None else 12 * num_columns(edges)
        self._kept: dict[tuple[int, str], Tensor] = {}
        self._needed = [ids]
        for _ in range(num_layers - 1):
            self._needed.insert(0, self._around.closed(self._needed[0]))
        pays = _EVALUATIONS * self._around.count(self._needed[0]) >= graph.num_edges
        self._aggregator = aggregator if pays and not graph.features.is_sparse else None
        self._table, self._read = None, self._around.closed(self._needed[0]) if graph.is_parted else None
        if self._aggregator is not None:
            self._table = aggregate_rows(graph, self._aggregator, self._around, self._needed[0], keeps=keeps)

    @property
    def _inputs(self) -> NDArray[np.int32]:
        """The nodes that the input layer reads, ascending; finding them costs a pass over its edges."""
        if self._read is None:
            self._read = self._around.closed(self._needed[0])
        return self._read

    @torch.inference_mode()
    def logits(self, model: Model) -> Outputs:
        """Yields chunks of nodes in order: (ids, logits float32 of shape (n, num_classes) on the device).

        With several ranks, each yields its own nodes; all ids of a rank are below the ids of the next rank.
        """
        outputs = self._of_features(model) if self._table is None else self._of_table(model, self._table)
        for i in range(1, len(model.layers)):
            outputs = self._of_hidden(i, model, outputs)
        yield from outputs

    def check_room(self, model: Model, more: int) -> None:
        """Checks that the disk has room for the files of `logits`, without a table, and for `more` bytes beside them.

        Raises:
            A3GNNError: It has less.
        """
        needed, size = 0, Scratch.num_bytes
        sparse = self._graph.features.is_sparse
        for i, layer in enumerate(model.layers):
            outputs = self._needed[i]
            mapped = (
                self._maps_input(layer, sparse=sparse)
                if not i
                else layer.maps_first(self._work(len(self._needed[i - 1]), outputs))
            )
            if i or mapped or self._graph.is_parted:
                width = layer.sources(torch.zeros(1, layer.in_channels, device=self._device), mapped).shape[1]
                needed += size(len(self._needed[i - 1] if i else self._inputs), width)
                needed += size(len(outputs), layer.in_channels) if i and mapped else 0
        if needed:
            self._scratch.need(needed + more)

    def cost(self, model: Model) -> float:
        """Returns the cost of `logits` in bytes moved, from the graph and the model's shape (`LayerShapes`).

        It assumes a table if one would pay off, even if the table can't be stored.
        """
        if self._aggregator is not None:
            first, rows = model.layers[0], len(self._needed[0])
            cost = LayerShapes(rows, rows, 0).aggregate_first(first.in_channels, first.out_channels)
        else:
            sparse = self._graph.features.is_sparse
            cost = model.cost(0, self._work(len(self._inputs), self._needed[0], sparse=sparse))
        later = range(1, len(model.layers))
        return cost + sum(model.cost(i, self._work(len(self._needed[i - 1]), self._needed[i])) for i in later)

    def _of_table(self, model: Model, table: AggregateRows) -> Outputs:
        """Yields the input layer's outputs from the table's rows."""
        layer = model.layers[0]
        mine = self._cut.mine(self._needed[0])
        for ids in self._around.chunks(mine, 4 * (4 * layer.in_channels + 2 * layer.out_channels), 0):
            yield ids, model.combined(table.read(ids, self._device))

    def _of_features(self, model: Model) -> Outputs:
        """Yields the input layer's outputs from the features.

        Rows that are mapped, or come from graph servers, are stored first: each is then mapped or requested once.
        """
        layer = model.layers[0]
        rows = FeatureRows(self._graph.features)
        mapped = self._maps_input(layer, sparse=rows.is_sparse)
        if not (mapped or rows.is_remote):
            places = Places(None, self._graph.num_nodes)
            yield from self._updated(0, model, rows, lambda ids, _: rows.read(ids, self._device), mapped, places)
            return
        inputs, stored = self._inputs, None
        bounds = self._cut.bounds(inputs)
        done, row_bytes = bounds[self._cut.rank], 4 * (2 * layer.in_channels + 2 * layer.out_channels)
        for ids in self._around.chunks(self._cut.mine(inputs), row_bytes, 0):
            part = layer.sources(rows.read(ids, self._device), mapped)
            stored = self._matrix(0, "sources", len(inputs), part.shape[1])
            done = _put(stored, done, part)
        assert stored is not None, "no rank's run is empty"
        self._cut.send_runs(stored, bounds)
        sources, places = FeatureRows(stored), Places(inputs, self._graph.num_nodes)

        def own_rows(ids: NDArray[np.int32], _: int) -> Tensor:
            return rows.read(ids, self._device) if mapped else sources.read(places.of(ids), self._device)

        yield from self._updated(0, model, sources, own_rows, mapped, places)

    def _maps_input(self, layer: Layer, *, sparse: bool) -> bool:
        """Returns whether the input layer's map comes first; it rarely does, and then costs more with more inputs."""
        nodes = self._needed[0]
        least = layer.maps_first(self._work(len(nodes), nodes, sparse=sparse))
        return least and layer.maps_first(self._work(len(self._inputs), nodes, sparse=sparse))

    def _of_hidden(self, i: int, model: Model, before: Outputs) -> Outputs:
        """Yields layer `i`'s outputs from the previous layer's outputs, `before`.

        If the linear map comes first, it is applied to each chunk of `before`. Of the unmapped chunk, only the rows of
        layer `i`'s own nodes are stored.
        """
        layer, (inputs, outputs) = model.layers[i], self._needed[i - 1 : i + 1]
        mapped = layer.maps_first(self._work(len(inputs), outputs))
        own = self._matrix(i, "own", len(outputs) if mapped else 0, layer.in_channels)
        bounds, own_bounds = self._cut.bounds(inputs), self._cut.within(outputs, inputs)
        done, own_done = bounds[self._cut.rank], own_bounds[self._cut.rank]
        for ids, rows in before:
            hidden = functional.relu_(model.normalized(i, rows))
            part = layer.sources(hidden, mapped)
            done = _put(self._matrix(i, "sources", len(inputs), part.shape[1]), done, part)
            if mapped:
                end = own_done + int(np.searchsorted(outputs[own_done:], ids[-1], side="right"))
                chosen = torch.from_numpy(np.searchsorted(ids, outputs[own_done:end])).to(self._device)
                own_done = _put(own, own_done, hidden[chosen])
        self._cut.send_runs(self._kept[i, "sources"], bounds)
        if mapped:
            self._cut.send_runs(own, own_bounds)
        sources, places = FeatureRows(self._kept[i, "sources"]), Places(inputs, self._graph.num_nodes)

        def own_rows(ids: NDArray[np.int32], place: int) -> Tensor:
            if mapped:
                return own[place : place + len(ids)].to(self._device)
            return sources.read(places.of(ids), self._device)

        yield from self._updated(i, model, sources, own_rows, mapped, places)

    def _updated(
        self,
        i: int,
        model: Model,
        sources: FeatureRows,
        own: Callable[[NDArray[np.int32], int], Tensor],
        mapped: bool,
        places: Places,
    ) -> Outputs:
        """Yields layer `i`'s outputs from `sources`, in the order of `places`, and its own input rows.

        `own` reads those by ids and place.
        """
        layer = model.layers[i]
        row_bytes = 4 * (2 * layer.in_channels + 4 * layer.out_channels)
        gathered = 0 if self._in_place and sources.whole is not None else 4 * sources.columns
        edge_bytes = EDGE_BYTES + self._value_bytes + layer.edge_bytes + gathered
        place = self._cut.bounds(self._needed[i])[self._cut.rank]
        for ids in self._around.chunks(self._cut.mine(self._needed[i]), row_bytes, edge_bytes):
            block, aggregated = self._around.block(sources, ids, places, with_degrees=layer.needs_degrees)
            rows = own(ids, place)
            yield ids, model.with_shortcut(i, layer.update(block, aggregated, rows, mapped), rows)
            place += len(ids)

    def _work(self, inputs: int, outputs: NDArray[np.int32], *, sparse: bool = False) -> LayerShapes:
        return LayerShapes(inputs, len(outputs), self._around.count(outputs), sparse=sparse)

    def _matrix(self, layer: int, name: str, rows: int, columns: int) -> Tensor:
        """Returns a layer's scratch matrix `name`, float32, (rows, columns); evaluations reuse it."""
        kept = self._kept.get((layer, name))
        if kept is None or kept.shape != (rows, columns):
            beside = sum(one.nbytes for key, one in self._kept.items() if key != (layer, name))
            kept = self._kept[layer, name] = self._scratch.matrix(rows, columns, beside)
        return kept


def _put(matrix: Tensor, first: int, rows: Tensor) -> int:
    """Writes `rows` to `matrix` from row `first` on, and returns the number of the next row."""
    end = first + len(rows)
    matrix[first:end] = rows.cpu()
    return end

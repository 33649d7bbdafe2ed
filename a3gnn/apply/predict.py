"""`predict`: a trained model's predictions for the nodes of a graph."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.checks import checked_limit
from a3gnn.errors import A3GNNError, GraphError, ModelError, UsageError, unknown_name
from a3gnn.evaluation.choose_metric import notify_edges, with_metric
from a3gnn.evaluation.column_groups import BESIDE_BYTES, ColumnInference, ColumnPlan, columnwise, warm_up, widest_bytes
from a3gnn.evaluation.evaluate import checked_outputs, edges_of, metric_of
from a3gnn.evaluation.inference import Inference, Outputs, Scratch
from a3gnn.evaluation.node_rows import NodeRows
from a3gnn.evaluation.own_evaluator import EvaluationPlan, planned_outputs
from a3gnn.evaluation.row_models import fit
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.graphs.as_graph import as_graph, as_unlabeled, is_data
from a3gnn.graphs.edge_values import num_edge_columns
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import is_file
from a3gnn.loader.seeds import InputNodes
from a3gnn.metric import AUTO, ROW_MODELS, RowModel, Target
from a3gnn.models.model import Model, build_model
from a3gnn.models.own.factory import Factory
from a3gnn.models.own.sources import Sources
from a3gnn.models.own.user_model import UserModel
from a3gnn.notify import detail, listener
from a3gnn.option_names import option
from a3gnn.pipeline.pipeline import checked_device
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.storage.atomic import need_room
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.storage.npy import NpyWriter
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.saved_model import SavedModel
from a3gnn.units import count, format_size

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

M = TypeVar("M", bound=nn.Module)
#: Dtype of layers' rows in scratch files.
ScratchDtype = Literal["float32", "float16"]
# Bytes per node of a graph while a built-in model predicts: its id, and whether it is reached.
_NODE_BYTES = 5


def predict(
    model: str | Path | SavedModel | None,
    dataset: GraphLike,
    *,
    heuristic: str | None = None,
    nodes: Any = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    scratch_dtype: ScratchDtype = "float32",
    notify: Callable[[str], None] | None = None,
) -> Tensor:
    """Returns a trained model's predictions for nodes of a graph, float32, on the CPU, one row per node.

    For classes, rows are class probabilities of sum 1, shape (n, num_classes). For several labels per node, rows are
    label probabilities, shape (n, num_labels). For values, the result has shape (n,).

    A model that was trained with values of edges, edge_attr or edge_weight, needs the same of this graph. Predictions
    use all in-neighbors. Built-in models are computed layer by layer, and your own models as in their
    evaluation (`docs/reference/own_models.md`). A message is printed if that uses a fixed sample of in-neighbors.

    Args:
        model: A model.pt from `train`, or its folder; or the result of `SavedModel.read`; or None with a heuristic.
        dataset: A graph, a PyG `Data`, or an argument of `Graph.load`. Only x and edge_index are read from a `Data`, an
            .npz and a .pt file. It may be another graph than the training graph, with the same number of features.
            Without a model, its labels and its split are read, too.
        heuristic: A model without a graph network, which is trained first: linear, mlp, boosting or neighbor-boosting
            (`a3gnn.evaluation.row_models`). Validation nodes choose by the metric that suits the labels.
        nodes: Node ids in any order, or a bool mask over the nodes; None takes all nodes.
        host_memory_limit: Limit of memory that can't be reclaimed: bytes, or text such as "4GiB"; None for no limit.
        device: cpu or cuda; by default cuda if it is available. Without a model it must be cpu.
        scratch_dtype: Dtype of layers' rows in scratch files. float16 takes half of the disk and rounds them to 11
            bits; it needs all nodes, the CPU, and a model without attention.
        notify: Called with messages; by default they are printed, in a script to stderr.

    Raises:
        UsageError: An argument is invalid.
        ConfigError: The model.pt is missing, broken, or does not name its model.
        GraphError: The graph can't be read, or its number of features differs from the model's.
        ModelError: Your own model can't be imported or built, or the weights don't fit the model.
        MemoryLimitError: The memory limit was passed.
        A3GNNError: A prediction is NaN or infinite: the weights or the features are too large.
    """
    notify = listener(notify)
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    asked = _opened(model, dataset, heuristic, nodes, device, _dtype(scratch_dtype), notify)
    with MemoryGuard(limit) as guard:
        columns = asked.columns
        guard.need(4 * len(asked.ids) * columns, "write them with a3gnn predict --out, or give fewer nodes")
        found = torch.empty(len(asked.ids), columns)
        done = 0
        for some in asked.predicted(limit, guard, notify):
            found[done : done + len(some)] = some
            done += len(some)
    found = found[:, 0] if asked.target == "values" else found
    return found if asked.places is None else found[torch.from_numpy(asked.places)]


def save_predictions(
    path: Path,
    model: str | Path | SavedModel | None,
    dataset: GraphLike,
    *,
    heuristic: str | None = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    scratch_dtype: ScratchDtype = "float32",
    notify: Callable[[str], None] | None = None,
) -> tuple[int, ...]:
    """Writes what `predict` returns for all nodes to the .npy file at `path`, and returns its shape.

    Rows are written as they are computed, so the file may be larger than memory. The arguments and errors are those of
    `predict`.

    Raises:
        A3GNNError: The disk has no room for the file or for layers' outputs; nothing was computed.
    """
    notify = listener(notify)
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    asked = _opened(model, dataset, heuristic, None, device, _dtype(scratch_dtype), notify)
    count, columns = len(asked.ids), asked.columns
    try:
        need_room(path.parent, 4 * count * columns)
    except OSError as error:
        raise A3GNNError(
            f"predictions can't be written to {path.parent}: {error}; give a file on another disk"
        ) from error
    of_values = asked.target == "values"
    with MemoryGuard(limit) as guard, NpyWriter(path, np.float32, None if of_values else columns) as file:
        for some in asked.predicted(limit, guard, notify, path.parent):
            file.append((some[:, 0] if of_values else some).numpy())
    return (count,) if of_values else (count, columns)


def check_one(model: object, heuristic: str | None) -> None:
    """Raises a `UsageError` unless exactly one of a model and a prediction without a network is given."""
    if (model is None) == (heuristic is None):
        raise UsageError(f"predictions need a model or {option('heuristic')}, got {'both' if heuristic else 'neither'}")


def _opened(
    model: str | Path | SavedModel | None,
    dataset: GraphLike,
    heuristic: str | None,
    nodes: Any,
    device: str | None,
    scratch: np.dtype[Any],
    notify: Callable[[str], None],
) -> _Asked | _WithoutNetwork:
    """Returns what to predict; arguments and errors as for `predict`."""
    check_one(model, heuristic)
    if model is None:
        assert heuristic is not None, "checked"
        if scratch != np.float32:
            raise UsageError(f"{option('scratch_dtype', str(scratch))} needs a model; leave it out")
        if device not in (None, "cpu"):
            raise UsageError(f"{option('device', device)} needs a model: a heuristic runs on the CPU; leave it out")
        return _WithoutNetwork.of(heuristic, dataset, nodes, notify)
    return _Asked.of(model, dataset, nodes, device, notify)._replace(scratch=scratch)


class _WithoutNetwork(NamedTuple):
    """Nodes to predict by a model without a graph network; it has the attributes of `_Asked`."""

    name: RowModel
    task: Task
    graph: Graph
    first: int
    ids: NDArray[np.int32]
    places: NDArray[np.int64] | None

    @classmethod
    def of(cls, heuristic: str, dataset: GraphLike, nodes: Any, notify: Callable[[str], None]) -> Self:
        """Returns the opened graph and its task; arguments and errors as for `predict`."""
        known = {name.replace(" ", "-"): name for name in ROW_MODELS}
        if heuristic not in known:
            raise unknown_name(f"{option('heuristic')} of nodes", heuristic, known)
        compile_ahead(KernelSet(), notify)
        graph = as_graph(dataset)
        if graph.links is not None or graph.is_parted:
            has = "links or edges are predicted" if graph.links is not None else "graph servers have the graph"
            raise UsageError(f"{option('heuristic', heuristic)} predicts nodes of a graph in this process, but {has}")
        task = with_metric(Task(), AUTO, graph, notify)
        return cls(known[heuristic], task, graph, *_numbered(graph, nodes))

    @property
    def columns(self) -> int:
        """Outputs of a node."""
        return self.graph.num_classes

    @property
    def target(self) -> Target:
        """What is predicted."""
        return self.graph.target

    def predicted(
        self, limit: int | None, guard: MemoryGuard, notify: Callable[[str], None], out: Path | None = None
    ) -> Iterator[Tensor]:
        """As `_Asked.predicted`."""
        share = Share(math.inf, evaluation_bytes(limit))
        try:
            found = fit(self.name, self.graph, self.task, share)
        except LeftOutError as reason:
            raise A3GNNError(f"{self.name} can't be trained on {self.graph.name}: {reason}") from reason
        metric = metric_of(self.task, self.graph)
        notify(detail(f"{self.name}: validation {metric.label} {metric.show(found.validation)}"))
        for some in NodeRows(self.graph).chunks(self.ids + np.int32(self.first)):
            yield probabilities(found.outputs(some), self.target)
            guard.check()


class _Asked(NamedTuple):
    """What to predict."""

    saved: SavedModel
    graph: Graph
    first: int  # the graph's number of the first node that can be predicted
    ids: NDArray[np.int32]  # nodes, distinct and ascending, counted from `first`
    places: NDArray[np.int64] | None  # the place in `ids` of each requested node; None if they are `ids`
    device: torch.device  # where to compute
    scratch: np.dtype[Any] = np.dtype(np.float32)  # dtype of layers' rows in scratch files

    @classmethod
    def of(
        cls,
        model: str | Path | SavedModel,
        dataset: GraphLike,
        nodes: Any,
        device: str | None,
        notify: Callable[[str], None],
    ) -> Self:
        """Returns the opened model and graph; arguments and errors as for `predict`."""
        saved = model if isinstance(model, SavedModel) else SavedModel.read(model)
        place = torch.device(checked_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        compile_ahead(KernelSet(), notify)
        if saved.types is not None and saved.types.has_links:
            instead = "predict_links returns the best ones of each source"
            if saved.target != "links":
                instead = "predict_edges returns those of edges"
            raise UsageError(f"this model predicts {saved.predicts}; a3gnn.{instead}")
        graph = as_unlabeled(dataset, "" if saved.types is None else saved.types.target)
        for note in graph.notes if is_data(dataset) or is_file(dataset) else ():
            notify(note)
        notify_edges(saved.task, graph, notify)
        if graph.num_features != saved.num_features:
            raise GraphError(
                f"{graph.name} must have the {saved.num_features} features of the model's training, got "
                f"{graph.num_features}; give the same columns"
            )
        check_types(saved, graph)
        return cls(saved, graph, *_numbered(graph, nodes), place)

    @property
    def columns(self) -> int:
        """Outputs of a node."""
        return self.saved.num_outputs

    @property
    def target(self) -> Target:
        """What is predicted."""
        return self.saved.target

    def predicted(
        self, limit: int | None, guard: MemoryGuard, notify: Callable[[str], None], out: Path | None = None
    ) -> Iterator[Tensor]:
        """Yields the predictions of `ids`, in order, float32, shape (n, columns), on the CPU.

        Raises:
            MemoryLimitError: The limit was passed, or can't be kept.
            A3GNNError: A prediction is NaN or infinite.
        """
        saved, due = self.saved, self.ids + np.int32(self.first) if self.first else self.ids
        if saved.task.own is None:
            guard.need(_NODE_BYTES * self.graph.num_nodes, "predict a smaller graph, or fewer nodes by nodes=")
            outputs = _of_built_in(self, guard, notify, out)
        else:
            outputs = _of_own(self, due, evaluation_bytes(limit), guard, notify)
        remedy = (
            "train the model again with a smaller learning_rate, or give features of the same size as in its training"
        )
        if self.scratch == np.float16:
            remedy = f"{option('scratch_dtype', 'float32')} has a larger range; else {remedy}"
        for ids, some in outputs:
            own = ids - np.int32(self.first)
            yield checked_outputs(own, probabilities(some.cpu(), saved.target), remedy, finite=True)
            guard.check()


def _numbered(graph: Graph, nodes: Any) -> tuple[int, NDArray[np.int32], NDArray[np.int64] | None]:
    """Returns the fields `first`, `ids` and `places` of the requested nodes."""
    first, count = (0, graph.num_nodes) if graph.types is None else (graph.types.first, graph.types.num_targets)
    if nodes is None:
        return first, np.arange(count, dtype=np.int32), None
    asked = InputNodes.of(nodes, count, name="nodes").nodes
    ids, places = np.unique(asked, return_inverse=True)
    return first, ids, None if np.array_equal(ids, asked) else places


def _dtype(name: str) -> np.dtype[Any]:
    if name not in get_args(ScratchDtype):
        raise UsageError(f"{option('scratch_dtype')} must be float32 or float16, got {name!r}")
    return np.dtype(name)


def _of_built_in(asked: _Asked, guard: MemoryGuard, notify: Callable[[str], None], out: Path | None) -> Outputs:
    """Returns chunks of the nodes, in order, and a built-in model's outputs, shape (n, num_outputs)."""
    saved, graph, scratch = asked.saved, asked.graph, Scratch()
    sizes = saved.num_features, saved.num_outputs
    model = build_model(saved.task, *sizes, sparse=graph.features.is_sparse)
    model, values = _with_weights(model, saved, asked.device), edges_of(graph, saved.task)
    more = 0 if out is None else scratch.beside(out, 4 * len(asked.ids) * saved.num_outputs)
    plan = _column_plan(asked, model, guard, notify)
    if plan is None:
        options: dict[str, Any] = {"device": asked.device, "on_chunk": guard.check, "edges": values}
        inference = Inference(graph, asked.ids, saved.task.num_layers, scratch=scratch, **options)
        inference.check_room(model, more)
        return inference.logits(model)
    smaller = "predict some of the nodes by nodes= in Python, or train with fewer hidden channels"
    if asked.scratch == np.float32:
        smaller = f"give {option('scratch_dtype', 'float16')}, which rounds layers' rows; {smaller}"
    scratch.need(max(plan.scratch_bytes, plan.last_bytes + more), smaller)
    counts = ", ".join(str(layer.count) for layer in plan.layers)
    notify(
        f"layers are computed in {counts} groups of columns: {format_size(plan.memory_bytes)} of memory for a group, "
        f"{format_size(plan.scratch_bytes)} of {asked.scratch} scratch in {scratch.folder}"
    )
    return ColumnInference(graph, model, plan, scratch=scratch, on_chunk=guard.check, edges=values).logits()


def _column_plan(asked: _Asked, model: Model, guard: MemoryGuard, notify: Callable[[str], None]) -> ColumnPlan | None:
    """Returns the plan of groups of columns; None if layers' rows fit in memory, or the model needs them whole.

    Raises:
        UsageError: float16 scratch is requested where nothing is computed by groups.
        MemoryLimitError: Not one column fits.
    """
    graph, task, half = asked.graph, asked.saved.task, asked.scratch == np.float16
    every = len(asked.ids) == graph.num_nodes and not graph.is_parted and asked.device.type == "cpu"
    by_columns = every and columnwise(model)
    if half and not by_columns:
        raise UsageError(
            f"{option('scratch_dtype', 'float16')} needs all nodes of a graph in this process, the CPU, and a model "
            f"without attention, got {task.model} for {len(asked.ids):,} of {graph.num_nodes:,} nodes on "
            f"{asked.device.type}; leave it out"
        )
    widest, room = widest_bytes(graph, model) if every else 0, guard.left_bytes - BESIDE_BYTES
    if widest > room and not by_columns:
        notify(
            f"{task.model} reads whole rows at random, {format_size(widest)} beside {format_size(max(int(room), 0))} "
            "of memory, so the disk decides the time; sage, gcn and gin need no more memory than a few columns"
        )
    if not by_columns or not (half or widest > room):
        return None
    warm_up(ColumnPlan.of(graph, model, room, asked.scratch))  # before the plan, because compiling takes memory, too
    plan = ColumnPlan.of(graph, model, guard.left_bytes - BESIDE_BYTES, asked.scratch)
    guard.need(BESIDE_BYTES + plan.memory_bytes, "raise the limit, or predict some of the nodes by nodes= in Python")
    return plan


def _of_own(
    asked: _Asked, due: NDArray[np.int32], own_bytes: int, guard: MemoryGuard, notify: Callable[[str], None]
) -> Outputs:
    """Returns chunks of the nodes, in order, and the outputs of a user's own model, shape (n, num_outputs)."""
    saved, graph = asked.saved, asked.graph
    if asked.scratch != np.float32:
        raise UsageError(
            f"{option('scratch_dtype', str(asked.scratch))} needs a built-in model, got {saved.task.model}; leave it "
            "out"
        )
    model = own_model(saved, graph, asked.device, notify)
    plan = EvaluationPlan.of(graph, saved.task, due, own_bytes)
    if plan.kind == "sampled":
        notify(f"predictions are computed from {plan.text}")
    options: dict[str, Any] = {"num_outputs": saved.num_outputs, "device": asked.device, "on_chunk": guard.check}
    return planned_outputs(plan, model, graph, saved.task, **options)


def own_model(saved: SavedModel, graph: Graph, device: torch.device, notify: Callable[[str], None]) -> UserModel:
    """Returns the saved model that a factory makes, on the device, in evaluation mode; warns if its files changed.

    Raises:
        UsageError: There is no such factory.
        ModelError: It can't be imported or built, or the weights don't fit it.
    """
    task = saved.task
    assert task.own is not None, "a factory makes the model"
    factory = Factory.of(task.model)
    module = factory.build_for(task, graph.in_channels, saved.num_outputs)
    model = UserModel.of(factory.name, module, graph.target_type)
    model = dataclasses.replace(model, edge_values=task.own.edge_values)
    if lacking := [name for name in model.edge_values if name not in graph.edge_values]:
        raise GraphError(f"{graph.name} must have {' and '.join(lacking)}, which {task.model} read in its training")
    columns, known = num_edge_columns(graph.edge_values, model.edge_values), task.own.edge_dim
    if known and columns != known:
        raise GraphError(
            f"{graph.name} must have edge_attr with {count(known, 'column')}, as in the model's training, got "
            f"{count(columns, 'column')}; give its edges the same values"
        )
    if Sources.of(factory.module).hash != task.own.sources:
        notify(f"warning: {task.model} or one of its imports has changed since the training; predictions may differ")
    _with_weights(model.module, saved, device)
    return model


def check_types(saved: SavedModel, graph: Graph) -> None:
    """Checks that `graph` has the types, relations and columns of the model's training.

    Raises:
        GraphError: It has others.
    """
    types = None if graph.types is None else graph.types.for_model
    if saved.types is None or types is None:
        if saved.types is not types:
            has = ("no node types, as in", "types") if saved.types is None else ("the node types of", "none")
            raise GraphError(f"{graph.name} must have {has[0]} the model's training, got {has[1]}; give such a graph")
        return
    read = saved.task.edge_values
    known, asked = (
        {
            **one._asdict(),
            "num_nodes": one.num_embedded,
            "edge_values": {name: of for name, of in one.edge_values.items() if name in read},
        }
        for one in (saved.types, types)
    )
    for name, before in known.items():
        if name == "has_times" and before != asked[name]:
            raise GraphError(
                f"links of {graph.name} must have {'' if before else 'no '}times, as in the model's training; "
                f"{'add' if before else 'leave out'} the times of the edges, or train again"
            )
        if before != (now := asked[name]):
            raise GraphError(
                f"{graph.name} must have the {name} of the model's training, {before}, got {now}; give such a graph"
            )


def _with_weights(model: M, saved: SavedModel, device: torch.device) -> M:
    """Returns `model` with the saved weights, on the device, in evaluation mode.

    Raises:
        ModelError: The weights don't fit the model.
    """
    try:
        model.load_state_dict(saved.weights)
    except RuntimeError as error:
        raise ModelError(f"the weights in model.pt must fit {saved.task.model}, but {error}") from error
    return model.to(device).eval()


def probabilities(outputs: Tensor, target: Target) -> Tensor:
    """Returns the outputs of a model as they are shown: probabilities of classes or labels, or values."""
    match target:
        case "classes":
            return torch.softmax(outputs, dim=1)
        case "labels":
            return torch.sigmoid(outputs)
        case "values" | "links":
            return outputs

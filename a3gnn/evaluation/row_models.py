"""Models of nodes without a graph network: linear, an MLP, and boosted trees, on features or with neighborhood means.

Validation nodes choose weight decay, number of steps and number of trees, as they choose a network's epoch. Train nodes
alone are learned from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from a3gnn._imports import importing
from a3gnn.evaluation.evaluate import MOST_VALIDATED, labeled, metric_of, tested, validated
from a3gnn.evaluation.node_rows import NodeRows
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.evaluation.tally import new_tally
from a3gnn.graphs.graph import Graph
from a3gnn.metric import RowModel
from a3gnn.models.adam import make_adam
from a3gnn.models.layers.layer import linear
from a3gnn.models.loss import loss_of
from a3gnn.seeding import derive, generator
from a3gnn.task import Task

#: Weight decays, tried in order until validation is no better: the first two of published winners (tunedGNN's README),
#: the last for few train nodes.
_DECAYS = (0.0, 5e-4, 5e-3)
#: Hidden width, dropout and learning rates (MLP, linear). The first three are `Task`'s defaults.
_HIDDEN, _DROPOUT, _RATES = 256, 0.5, (0.003, 0.01)
#: Most train nodes of a mini-batch; most validations, and most of them without a better quality: hyperparameters of a
#: reference, which no tune searches.
_BATCH, _VALIDATIONS, _PATIENCE = 512, 60, 10
#: Fewest mini-batches between validations (MLP, linear). Measured on Cora and Citeseer: with 5, a linear map ended 8 to
#: 10 points of test accuracy below logistic regression, with 20 at most 3.
_STEPS = 5, 20
#: Train nodes from which the columns' scales are computed: the error of a deviation of n is 1 / sqrt(2 n), .7 %.
_SCALED = 10_000
#: Bytes per weight of the first layer: itself, its gradient, two moments, the scaled one and the best. Counted.
_WEIGHT_BYTES = 28


class Fitted(NamedTuple):
    """A fitted model.

    Attributes:
        validation: Its quality on validation nodes by the task's metric.
        outputs: Returns the outputs of ascending nodes, float32, shape (n, num_classes), as a network's.
    """

    validation: float
    outputs: Callable[[NDArray[np.int32]], Tensor]


def fit(name: RowModel, graph: Graph, task: Task, share: Share) -> Fitted:
    """Returns the fitted model `name`; the task's seed decides every random choice.

    Raises:
        LeftOutError: It does not end within its share of time and memory, or has nothing to learn from.
    """
    rows = NodeRows(graph, has_neighbors=name == "neighbor boosting")
    ids = labeled(graph, graph.train_ids, "train")
    if name in ("linear", "mlp"):
        with torch.random.fork_rng(devices=[]):
            return _Training(rows, graph, task, ids, share, _HIDDEN if name == "mlp" else 0).best()
    made = boosted(rows, graph, task, ids, labeled(graph, graph.val_ids, "validation"), share)
    return Fitted(quality(made, rows, graph, task, validated(graph, task), share), made)


def quality(
    outputs: Callable[[NDArray[np.int32]], Tensor],
    rows: NodeRows,
    graph: Graph,
    task: Task,
    ids: NDArray[np.int32],
    share: Share,
) -> float:
    """Returns the quality of `outputs` on the nodes `ids` by the task's metric.

    Raises:
        LeftOutError: It takes too long.
    """
    found = new_tally(metric_of(task, graph), graph.target, graph.num_classes)
    for some in rows.chunks(ids):
        share.check()
        found.add(outputs(some), graph.labels[some])
    return found.quality()


def quality_on_test(found: Fitted, graph: Graph, task: Task, share: Share) -> float:
    """Returns the quality of a fitted model on all test nodes.

    Raises:
        LeftOutError: It takes too long.
    """
    return quality(found.outputs, NodeRows(graph), graph, task, tested(graph, task), share)


class _Scale(NamedTuple):
    """The shift that each column loses, and the factor of the rest, float32, shape (columns,).

    A column that is 0 in most train nodes, such as a word's, keeps its zeros and is divided by its largest value.
    Others get mean 0 and deviation 1. A column that is the same for all train nodes says nothing and becomes 0.
    """

    shift: Tensor
    factor: Tensor

    @classmethod
    def of(cls, rows: NodeRows, ids: NDArray[np.int32]) -> _Scale:
        """Returns the scale of the train nodes `ids`, ascending."""
        columns, count = rows.read(ids[:1]).shape[1], len(ids)
        filled, sums, squares, largest = np.zeros((4, columns))
        for some in rows.chunks(ids):
            read = rows.read(some)
            if read.is_sparse_csr:
                places, values = read.col_indices().numpy(), read.values().numpy()
                filled += np.bincount(places, minlength=columns)
                np.maximum.at(largest, places, np.abs(values))
                continue
            dense = read.numpy().astype(np.float64)
            filled += (dense != 0).sum(axis=0)
            sums, squares = sums + dense.sum(axis=0), squares + (dense**2).sum(axis=0)
            largest = np.maximum(largest, np.abs(dense).max(axis=0))
        if rows.is_sparse:
            shift, spread = np.zeros(columns), largest
        else:
            is_dense = filled > count / 2
            shift = np.where(is_dense, sums / count, 0)
            deviation = np.sqrt(np.maximum(squares / count - shift**2, 0))
            spread = np.where(is_dense, np.where(deviation > 1e-6 * np.abs(shift), deviation, 0), largest)
        factor = np.divide(1, spread, where=spread > 0, out=np.zeros(columns))
        return cls(torch.from_numpy(shift.astype(np.float32)), torch.from_numpy(factor.astype(np.float32)))


class _Net(nn.Module):
    """A linear map of scaled rows, or an MLP of one hidden layer."""

    def __init__(self, scale: _Scale, hidden: int, outputs: int, levels: tuple[float, float]) -> None:
        super().__init__()
        self.scale, self.levels, columns = scale, levels, len(scale.factor)
        first = nn.Linear(columns, hidden or outputs)
        self.weight, self.bias = nn.Parameter(first.weight.detach().t().contiguous()), first.bias
        self.last = nn.Linear(hidden, outputs) if hidden else None

    def forward(self, x: Tensor) -> Tensor:
        """Returns the outputs of rows, dense or sparse CSR; of values in units of the train nodes' deviation."""
        if x.is_sparse_csr:
            x = linear(x, (self.weight * self.scale.factor[:, None]).t(), self.bias)
        else:
            x = ((x - self.scale.shift) * self.scale.factor) @ self.weight + self.bias
        if self.last is None:
            return x
        out: Tensor = self.last(functional.dropout(x.relu(), _DROPOUT, self.training))
        return out

    @torch.no_grad()
    def outputs(self, rows: NodeRows, ids: NDArray[np.int32]) -> Tensor:
        """Returns the outputs of the nodes `ids`; values in their own unit."""
        self.eval()
        middle, deviation = self.levels
        found: Tensor = self(rows.read(ids)) * deviation + middle
        return found


class _Training:
    """Trains a net with each weight decay."""

    def __init__(
        self, rows: NodeRows, graph: Graph, task: Task, ids: NDArray[np.int32], share: Share, hidden: int
    ) -> None:
        self._rows, self._graph, self._task, self._ids = rows, graph, task, ids
        self._share, self._hidden = share, hidden
        self._loss = loss_of(graph, task, torch.device("cpu"))
        self._judged = validated(graph, task)
        width = rows.read(ids[:1]).shape[1]
        share.need_bytes(_WEIGHT_BYTES * width * (hidden or graph.num_classes))
        picked = generator(task.seed, "scaled").choice(ids, _SCALED, replace=False) if len(ids) > _SCALED else ids
        self._scale = _Scale.of(rows, np.sort(picked))
        values = graph.labels[ids].astype(np.float64) if graph.target == "values" else np.zeros(0)
        self._levels = (float(values.mean()), float(values.std()) or 1.0) if len(values) else (0.0, 1.0)

    def best(self) -> Fitted:
        """Returns the net with the best validation quality of the tried weight decays."""
        validation, net = self._trained(_DECAYS[0])
        for decay in _DECAYS[1:]:
            found, other = self._trained(decay)
            if found <= validation:
                break
            validation, net = found, other
        return Fitted(validation, partial(net.outputs, self._rows))

    def _trained(self, decay: float) -> tuple[float, _Net]:
        """Returns a net of its best validation, and that quality."""
        seed = derive(self._task.seed, "rows", self._hidden)
        torch.manual_seed(seed)
        net = _Net(self._scale, self._hidden, self._graph.num_classes, self._levels)
        adam = make_adam(net.parameters(), _RATES[0 if self._hidden else 1], decay)
        order, best, since = np.random.default_rng(seed), (-np.inf, dict[str, Tensor]()), 0
        for place in range(_VALIDATIONS):
            begin = monotonic()
            net.train()
            for some in self._batches(order):
                self._share.check()
                self._step(net, adam, some)
            outputs = partial(net.outputs, self._rows)
            found = quality(outputs, self._rows, self._graph, self._task, self._judged, self._share)
            since = 0 if found > best[0] else since + 1
            if not since:
                best = found, {name: one.clone() for name, one in net.state_dict().items()}
            if since == _PATIENCE:
                break
            if place == 1 and not decay:  # the first ones also load kernels
                took = 2 * (monotonic() - begin)  # two weight decays at least
                self._share.need_seconds(took * _PATIENCE, took * _VALIDATIONS)
        net.load_state_dict(best[1])
        return best[0], net

    def _batches(self, order: np.random.Generator) -> list[NDArray[np.int32]]:
        """Returns the mini-batches until the next validation: an epoch, or as many epochs as make some steps."""
        per_epoch = -(-len(self._ids) // _BATCH)
        epochs = -(-_STEPS[0 if self._hidden else 1] // per_epoch)
        return [
            np.sort(some) for _ in range(epochs) for some in np.array_split(order.permutation(self._ids), per_epoch)
        ]

    def _step(self, net: _Net, adam: Any, ids: NDArray[np.int32]) -> None:
        labels, (middle, deviation) = self._graph.labels[ids], self._levels
        if self._graph.target == "values":
            labels = ((labels - middle) / deviation).astype(np.float32)
        loss = self._loss(net(self._rows.read(ids)), torch.from_numpy(labels))
        if not torch.isfinite(loss):
            raise LeftOutError("its loss is not finite; normalized features may help")
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()


#: Step size, depth (XGBoost's default), most rounds, rounds without a better validation loss, and fewest rounds worth a
#: start: hyperparameters of a reference, which no tune searches.
_ETA, _DEPTH, _ROUNDS, _STALE_ROUNDS, _FEWEST = 0.2, 6, 150, 10, 30
#: The value that counts as missing, beside NaN: histograms take only the time of the others.
_MISSING = 0.0
#: Most columns of a number of bins: wide rows have coarser ones, so that histograms stay small. And train nodes of a
#: bin, with the fewest bins of them: few nodes need no fine ones, and bins take the time. 256 is XGBoost's default.
_BINS, _BIN_NODES, _FEW_BINS = ((512, 256), (4096, 64), (1 << 30, 16)), 16, 32
#: Entries of the train rows from which more than one thread works: on a busy machine, threads of little work wait for
#: each other longer than they work. Guess.
_THREADED = 2_000_000
#: Columns from which a tree sees half of them, as random forests do. Guess.
_WIDE = 32
#: Bytes of a bin of a node's histogram, and copies of the rows while they are read (parts, join, XGBoost's); counted.
_BIN_BYTES, _COPIES = 16, 3


def boosted(
    rows: NodeRows, graph: Graph, task: Task, train: NDArray[np.int32], judged: NDArray[np.int32], share: Share
) -> Callable[[NDArray[np.int32]], Tensor]:
    """Returns a function of ascending nodes that gives the outputs of boosted trees, float32, shape (n, num_classes).

    Args:
        rows: Reads the nodes.
        graph: Has the labels.
        task: Its loss of values is minimized; its seed decides which columns a tree sees.
        train: Train nodes.
        judged: Validation nodes, whose loss ends the rounds.
        share: Seconds and bytes.

    Raises:
        LeftOutError: It takes longer or more memory, or XGBoost is not installed.
    """
    try:
        with importing(freeze=False):
            import xgboost
    except ImportError as error:
        raise LeftOutError(f"xgboost can't be imported: {error}") from error
    if graph.target == "classes" and graph.num_classes < 2:
        raise LeftOutError("there is one class")
    parameters = _parameters(rows, graph, task, len(train))
    judged = judged[:: -(-len(judged) // MOST_VALIDATED)]
    copies = _COPIES * (1 + len(judged) / len(train))

    def quantized(ids: NDArray[np.int32], by: Any = None) -> Any:
        matrix, labels = rows.whole_matrix(ids, share, copies), graph.labels[ids].astype(np.float32)
        bins = parameters["max_bin"]
        return xgboost.QuantileDMatrix(matrix, label=labels, missing=_MISSING, max_bin=bins, ref=by)

    known = quantized(train)
    share.need_bytes(_BIN_BYTES * len(known.get_quantile_cut()[1]) * 2**_DEPTH)
    stops, watch = (
        xgboost.callback.EarlyStopping(rounds=_STALE_ROUNDS),
        _watch(xgboost.callback.TrainingCallback, share),
    )
    beside = [(quantized(judged, by=known), "validation")]
    booster = xgboost.train(parameters, known, _ROUNDS, evals=beside, callbacks=[stops, watch], verbose_eval=False)
    return partial(_outputs, booster, rows, graph)


def _parameters(rows: NodeRows, graph: Graph, task: Task, nodes: int) -> dict[str, Any]:
    bins = next(bins for most, bins in _BINS if rows.columns <= most)
    found = {
        "objective": _objective(graph, task),
        "eta": _ETA,
        "max_depth": _DEPTH,
        "max_bin": min(bins, max(_FEW_BINS, nodes // _BIN_NODES)),
        "colsample_bytree": 0.5 if rows.columns > _WIDE else 1.0,
        "nthread": torch.get_num_threads() if nodes * rows.columns >= _THREADED else 1,
        "seed": derive(task.seed, "boosting") % 2**31,
        "verbosity": 0,
    }
    return found | ({"num_class": graph.num_classes} if found["objective"] == "multi:softprob" else {})


def _outputs(booster: Any, rows: NodeRows, graph: Graph, ids: NDArray[np.int32]) -> Tensor:
    best = (0, booster.best_iteration + 1)
    margins = booster.inplace_predict(rows.matrix(ids), iteration_range=best, predict_type="margin", missing=_MISSING)
    margins = margins.reshape(len(ids), -1)
    if graph.target == "classes" and margins.shape[1] == 1:
        margins = np.concatenate([np.zeros_like(margins), margins], axis=1)
    return torch.from_numpy(margins)


def _objective(graph: Graph, task: Task) -> str:
    if graph.target == "values":
        return "reg:absoluteerror" if task.loss == "mae" else "reg:squarederror"
    return "multi:softprob" if graph.target == "classes" and graph.num_classes > 2 else "binary:logistic"


def _watch(base: Any, share: Share) -> Any:
    """Returns a callback that ends the rounds when the share is over, or once the second one shows that it will be."""

    class Watch(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._begin = 0.0

        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self._begin = monotonic()
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            share.check()
            if epoch == 1:  # the first one also starts threads
                took = monotonic() - self._begin
                share.need_seconds(took * (_FEWEST - 2), took * (_ROUNDS - 2))
            return False

    return Watch()

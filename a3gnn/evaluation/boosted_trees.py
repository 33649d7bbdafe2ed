"""`boosted`: gradient boosting by XGBoost on rows of nodes (Friedman, 2001; Chen and Guestrin, 2016)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn._imports import importing
from a3gnn.evaluation.evaluate import MOST_VALIDATED
from a3gnn.evaluation.node_rows import NodeRows
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.graphs.graph import Graph
from a3gnn.seeding import derive
from a3gnn.task import Task

#: Step size, depth (XGBoost's default), most rounds, rounds without a better validation loss, and fewest rounds worth a
#: start: hyperparameters of a reference, which no tune searches.
_ETA, _DEPTH, _ROUNDS, _PATIENCE, _FEWEST = 0.2, 6, 150, 10, 30
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
    stops, watch = xgboost.callback.EarlyStopping(rounds=_PATIENCE), _watch(xgboost.callback.TrainingCallback, share)
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

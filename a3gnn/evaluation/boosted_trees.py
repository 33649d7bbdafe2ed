"""`boosted`: gradient boosting by XGBoost on rows of nodes (Friedman, 2001; Chen and Guestrin, 2016)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn._imports import importing
from a3gnn.evaluation.node_rows import NodeRows
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.graphs.graph import Graph
from a3gnn.seeding import derive
from a3gnn.task import Task

#: Step size, depth, most rounds, rounds without a better validation loss, and fewest rounds that are worth a start.
#: Usual values; guesses.
_ETA, _DEPTH, _ROUNDS, _PATIENCE, _FEWEST = 0.1, 6, 300, 20, 40
#: Most columns of a number of bins: wide rows have coarser ones, so that histograms stay small. Guesses.
_BINS = ((512, 256), (4096, 64), (1 << 30, 16))
#: Columns that a tree sees, so that its time does not grow with all of them. Guess.
_SEEN = 512
#: Validation nodes whose loss ends the rounds. Guess, as many as judge a network.
_MOST_JUDGED = 10_000
#: Bytes of a bin of a node's histogram, counted; and copies of the rows while they are read. Guess.
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
        with importing():
            import xgboost
    except ImportError as error:
        raise LeftOutError(f"xgboost can't be imported: {error}") from error
    if graph.target == "classes" and graph.num_classes < 2:
        raise LeftOutError("there is one class")
    bins = next(bins for most, bins in _BINS if rows.columns <= most)
    parameters = {
        "objective": _objective(graph, task),
        "eta": _ETA,
        "max_depth": _DEPTH,
        "max_bin": bins,
        "colsample_bytree": min(1.0, _SEEN / rows.columns),
        "nthread": torch.get_num_threads(),
        "seed": derive(task.seed, "boosting") % 2**31,
        "verbosity": 0,
    }
    if graph.target == "classes" and graph.num_classes > 2:
        parameters["num_class"] = graph.num_classes
    judged = judged[:: -(-len(judged) // _MOST_JUDGED)]
    copies = _COPIES * (1 + len(judged) / len(train))
    matrix = rows.whole_matrix(train, share, copies)
    known = xgboost.QuantileDMatrix(matrix, label=_labels(graph, train), max_bin=bins)
    share.need_bytes(_BIN_BYTES * len(known.get_quantile_cut()[1]) * 2**_DEPTH)
    matrix = rows.whole_matrix(judged, share, copies)
    beside = xgboost.QuantileDMatrix(matrix, label=_labels(graph, judged), ref=known)
    del matrix
    stops = xgboost.callback.EarlyStopping(rounds=_PATIENCE)
    watch = _watch(xgboost.callback.TrainingCallback, share)
    booster = xgboost.train(
        parameters, known, _ROUNDS, evals=[(beside, "validation")], callbacks=[stops, watch], verbose_eval=False
    )
    best = (0, booster.best_iteration + 1)

    def outputs(ids: NDArray[np.int32]) -> Tensor:
        matrix = rows.matrix(ids)
        margins = booster.inplace_predict(matrix, iteration_range=best, predict_type="margin").reshape(len(ids), -1)
        if graph.target == "classes" and margins.shape[1] == 1:
            margins = np.concatenate([np.zeros_like(margins), margins], axis=1)
        return torch.from_numpy(margins)

    return outputs


def _objective(graph: Graph, task: Task) -> str:
    if graph.target == "values":
        return "reg:absoluteerror" if task.loss == "mae" else "reg:squarederror"
    return "multi:softprob" if graph.target == "classes" and graph.num_classes > 2 else "binary:logistic"


def _labels(graph: Graph, ids: NDArray[np.int32]) -> NDArray[np.float32]:
    return graph.labels[ids].astype(np.float32)


def _watch(base: Any, share: Share) -> Any:
    """Returns a callback that ends the rounds when the share is over, or once the first one shows that it will be."""

    class Watch(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._begin = 0.0

        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self._begin = monotonic()
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            share.check()
            if not epoch:
                share.need_seconds((monotonic() - self._begin) * (_FEWEST - 1))
            return False

    return Watch()

"""`Learner`: what the trainer asks of a model, whichever kind it is."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from a3gnn.features.rows.aggregate import Aggregator
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.runtime.batch import MiniBatch
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.training.adam import Optimizer


class Learner(Protocol):
    """A model with its loss, its optimiser and its evaluation: a built-in one (`BuiltIn`), or a user's (`Own`)."""

    @property
    def model(self) -> nn.Module:
        """The model, on its device."""

    @property
    def aggregator(self) -> Aggregator | None:
        """What mini-batches' `x` are to be passed through; None for rows as they are."""

    @property
    def rows(self) -> DenseFeatures | SparseFeatures | None:
        """The table that mini-batches' `x` are rows of; None for features."""

    @property
    def dtype(self) -> torch.dtype:
        """Of mini-batches' dense `x`."""

    @property
    def evaluation(self) -> str:
        """From what the quality is computed, for people."""

    def restart(self) -> None:
        """Gives the model the weights that the seed decides."""

    def fresh_optimizer(self) -> Optimizer:
        """Returns an optimiser without memory."""

    def set_rate(self, optimizer: Optimizer, rate: float, batch: int, batches_per_epoch: int) -> None:
        """Sets the step size for mini-batch `batch`, counted over all epochs, where task and configuration say `rate`.

        Args:
            optimizer: One that `fresh_optimizer` returned.
            rate: The step size.
            batch: The mini-batch.
            batches_per_epoch: Mini-batches of an epoch.
        """

    def loss(self, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the seeds; what is drawn for it is decided by the seed and the mini-batch alone."""

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved: by shapes alone."""

    @property
    def validation_cost(self) -> float:
        """The cost of `validate`, likewise."""

    def validate(self) -> float:
        """Returns the quality on validation nodes by the task's metric (`a3gnn.metric`)."""

    def test(self) -> float:
        """Returns the quality on test nodes, likewise."""

    def check(self) -> None:
        """Raises a `ModelError` where the model depends on files that no key knows of."""

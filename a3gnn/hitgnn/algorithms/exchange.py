"""`Exchange`: the data that ranks exchange while they compute, if an algorithm needs more than gradients.

`ExchangingTrainer` trains by such an algorithm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from a3gnn.errors import MemoryLimitError
from a3gnn.features.store import FeatureStore
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.hitgnn.algorithms.trainer import RankTrainer
from a3gnn.models.adam import Optimizer
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.model import Model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.ranks.group import TorchRanks
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.step import Step


class Exchanged(NamedTuple):
    """Counts since the exchange was made, or of a mini-batch."""

    rows: int = 0  # rows of features read, for this rank's mini-batches and for others'
    activation_bytes: int = 0  # bytes of partial sums and of their gradients that the rank sent and received
    structure_bytes: int = 0  # bytes of node ids and edges that the rank sent and received


class Exchange(Protocol):
    """Computes the logits of a rank's mini-batch together with the other ranks; all of them make the same calls."""

    @property
    def exchanged(self) -> Exchanged:
        """The traffic so far."""

    def logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        """Returns the logits of the seeds of `batch`, shape (num_seeds, num_classes).

        Args:
            batch: This rank's mini-batch; a stand-in of weight 0 if the rank is idle.
            blocks: Blocks of all layers, input layer first.
            seed: Decides dropout.

        Raises:
            PeerLostError: Another rank has ended, or does not answer.
        """

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """Weights of the learner's model that only this rank trains; their gradients are complete after `backward`.

        The gradients of all other weights are partial, and are summed over ranks.
        """

    @property
    def whole(self) -> Model:
        """The whole model as of the last `gather`, for evaluation and saving.

        Ranks continue training with a state dict loaded into it; all of them must load the same.
        """

    def optimizer(self, inner: Optimizer) -> Optimizer:
        """Wraps `inner`, which updates the weights of the learner's model, so that its state is the whole model's.

        The state is as of the last `gather`, and is saved in checkpoints.
        """

    def gather(self) -> None:
        """Updates `whole` and the optimizer's state; every rank calls it."""


#: Takes the rank's learner, all ranks, the rank's `Stored`, and its features; returns the exchange. It must not wait
#: for other ranks.
ExchangeMaker = Callable[[BuiltIn, TorchRanks, Stored, FeatureStore], Exchange]


class ExchangingTrainer(RankTrainer):
    """A `RankTrainer` whose rank may train weights that no other rank has.

    `model` and `optimizer` belong to the whole model. They are gathered from all ranks before an evaluation, before a
    stop that all ranks agree on, and after an iteration in which a rank requested to save.

    Args:
        exchange: Takes this rank's learner, and returns the `Exchange` that computes logits with the other ranks.
        given: Arguments of `RankTrainer`.
        named: Arguments of `RankTrainer`.
    """

    def __init__(self, *given: Any, exchange: Callable[[BuiltIn], Exchange], **named: Any) -> None:
        super().__init__(*given, **named)
        assert isinstance(self._learner, BuiltIn), "shares and algorithms are of built-in models"
        self._exchange, self._counted, self._is_whole = exchange(self._learner), Exchanged(), True
        self._learner.logits, self._learner.evaluated = self._exchange.logits, self._exchange.whole
        self._replica.optimizer = self._exchange.optimizer(self._replica.optimizer)
        self._joined.leave_out(self._exchange.own_weights)

    @property
    def model(self) -> nn.Module:
        """The whole model, as of the last gathering."""
        return self._exchange.whole

    def restart(self) -> None:
        """Resets model and optimizer; see `Trainer.restart`."""
        super().restart()
        self._replica.optimizer = self._exchange.optimizer(self._replica.optimizer)
        self._is_whole = True

    def validate(self) -> float:
        """Returns the quality on validation nodes; see `Trainer.validate`."""
        self._gather()
        return super().validate()

    def test(self) -> float:
        """Returns the quality on test nodes; see `Trainer.test`."""
        self._gather()
        return super().test()

    def ready_to_save(self) -> bool:
        """Returns whether `model` and `optimizer` are up to date; if not, they will be after the next iteration."""
        self._wants_whole = not self._is_whole
        return self._is_whole

    def _open_pipeline(self, options: PipelineOptions) -> Pipeline:
        return super()._open_pipeline(dataclasses.replace(options, aggregator=None))  # the exchange reads raw rows

    def _train_iteration(self, iteration: int, planned: list[PlannedBatch], batch: MiniBatch) -> Step:
        step = super()._train_iteration(iteration, planned, batch)
        if self._joined.counts[-1]:
            self._gather()
        return step

    def _update(self, batch: MiniBatch) -> None:
        self._is_whole = False  # not earlier: up to here, the weights are those after the previous iteration
        super()._update(batch)

    def _read(self, batch: MiniBatch) -> list[int]:
        found, before = self._exchange.exchanged, self._counted
        self._counted = found
        rows, activations, structures = (now - then for now, then in zip(found, before, strict=True))
        return [rows, rows, 0, activations, structures]  # all rows are hits, because a rank stores columns of every row

    def _check(self) -> None:
        try:
            super()._check()
        except (KeyboardInterrupt, MemoryLimitError):
            self._gather()  # all ranks stop here
            raise

    def _gather(self) -> None:
        """Gathers model and optimizer from all ranks unless they are up to date; every rank calls it."""
        if not self._is_whole:
            self._exchange.gather()
        self._is_whole, self._wants_whole = True, False

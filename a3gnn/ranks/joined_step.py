"""`JoinedStep`: a training step of several trainers, each with a share of the mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.kernels.dropout import rectify_rows
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.ranks.peers import Member, Peers
from a3gnn.sampling.share import cut
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.task import Task

if TYPE_CHECKING:
    from a3gnn.ranks.shared_norm import Statistics


class StepMessage(NamedTuple):
    """Numbers that are summed over trainers along with the gradients: losses, and reasons to stop."""

    loss: float = 0.0  # a trainer's part of the mini-batch's mean loss
    interrupted: float = 0.0  # 1 if the trainer was interrupted
    over_memory: float = 0.0  # 1 if the trainer has passed its memory limit


class JoinedStep:
    """Sums gradients, losses and statistics over all trainers, so that their weights stay equal, bit for bit.

    One message holds all gradients, in the dtype of the first weight, and a few more numbers.

    Args:
        model: This trainer's model; its batch norms are replaced by norms over whole mini-batches.
        peers: All trainers.
        memory: This trainer's guard.
        should_stop: Whether this trainer was asked to stop.

    Attributes:
        counts: Numbers to sum along with the gradients, float64, on the host; the sums overwrite them. Empty unless
            set before the first mini-batch. Sums are exact below 2^24.
        seconds: Time spent in sums of gradients so far, including waits for the slowest trainer.
    """

    def __init__(
        self, model: nn.Module, peers: Peers, memory: MemoryGuard, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._memory, self._should_stop = memory, should_stop
        self._statistics = _joined(model, peers)
        self._weights, self._peers = list(model.parameters()), peers
        self._told = StepMessage()
        self.counts = torch.empty(0, dtype=torch.float64)
        self.seconds = 0.0

    def leave_out(self, weights: Iterable[nn.Parameter]) -> None:
        """Excludes `weights` from the sum: each trainer has its own, with gradients that already cover all shares."""
        out = {id(weight) for weight in weights}
        self._weights = [weight for weight in self._weights if id(weight) not in out]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients that were summed last."""
        return sum(weight.grad.nbytes for weight in self._weights if weight.grad is not None)

    def gradients(self, batch: MiniBatch, loss_of: Callable[[MiniBatch], Tensor]) -> Tensor:
        """Returns the whole mini-batch's mean loss, and leaves its gradients in the weights.

        Args:
            batch: This trainer's share.
            loss_of: Returns the share's part of the mean loss.

        Raises:
            PeerLostError: Another trainer has ended, or doesn't answer.
        """
        return self.exchange(self.propagate(batch, loss_of))

    def propagate(self, batch: MiniBatch, loss_of: Callable[[MiniBatch], Tensor]) -> Tensor:
        """Returns the share's part of the loss, and leaves its gradients in the weights; see `gradients`."""
        share = batch.subgraph.share
        if self._statistics is not None:
            owned = np.ones(batch.subgraph.num_nodes, dtype=np.bool_) if share is None else share.owned
            self._statistics.owned = torch.from_numpy(owned).to(self._weights[0].device)
        loss = loss_of(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def exchange(self, loss: Tensor) -> Tensor:
        """Overwrites each gradient by its sum over all trainers, and returns the sum of their parts of the loss."""
        told = StepMessage(loss.item(), self._should_stop(), self._memory.is_over)
        begin, message = perf_counter(), self._message
        message[: len(told)] = message.new_tensor(told)
        places: list[tuple[Tensor, Tensor]] = []
        end = len(told) + len(self.counts)
        message[len(told) : end] = self.counts.to(message.device)
        for grad in (weight.grad for weight in self._weights):
            if grad is not None:
                part = message[end : end + grad.numel()].view(grad.shape)
                places.append((grad, part.copy_(grad)))
                end += grad.numel()
        self._peers.sum(message[:end])
        for grad, part in places:
            grad.copy_(part)
        self._told = StepMessage(*message[: len(told)].tolist())
        self.counts.copy_(message[len(told) : len(told) + len(self.counts)])
        self.seconds += perf_counter() - begin
        return message[0].clone()

    def finish(self) -> None:
        """Updates the running statistics by the mini-batch's; call it after the optimizer's step."""
        if self._statistics is not None:
            self._statistics.keep()

    @cached_property
    def _message(self) -> Tensor:
        numbers = sum(weight.numel() for weight in self._weights) + len(StepMessage._fields) + len(self.counts)
        return self._weights[0].detach().new_empty(numbers)

    def check(self) -> None:
        """Raises an error if any trainer asked to stop after the last mini-batch.

        Raises:
            MemoryLimitError: A trainer has passed its memory limit.
            KeyboardInterrupt: A trainer was interrupted.
        """
        if self._told.over_memory:
            self._memory.check()
            raise MemoryLimitError("another rank exceeded its part of the memory limit; see its output")
        if self._told.interrupted:
            raise KeyboardInterrupt


def has_batch_norms(model: nn.Module) -> bool:
    """Returns whether `model` contains PyG's `BatchNorm`, without importing PyG."""
    return any(type(module).__name__ == "BatchNorm" for module in model.modules())


def check_member(member: Member | None, config: TrainConfig, task: Task) -> None:
    """Checks that training on shares of mini-batches gives the result of whole ones.

    Raises:
        UsageError: It wouldn't, or the result is unknown.
    """
    if member is None:
        return
    if task.is_own:
        raise UsageError(
            f"model must be a built-in one if mini-batches are divided into shares, got {task.model}. Its random "
            "numbers, and its results over all nodes, would differ from one trainer. Train it by "
            "DistributedDataParallel in your own loop, whose Loader takes shares (docs/howto/distributed.md)"
        )
    if config.sampling_device != "cpu":
        raise UsageError(
            f"sampling_device must be cpu if mini-batches are divided into shares, got {config.sampling_device!r}: "
            "the host divides them, and each trainer has its own device"
        )
    if config.resources != "free":
        raise UsageError(
            f"resources must be free if mini-batches are divided into shares, got {config.resources!r}, which "
            "assigns cores as if there were no other trainer; set the threads of each trainer"
        )


def warm_up() -> None:
    """Compiles the kernels of shares, or loads them from numba's cache."""
    node, one = np.zeros(1, dtype=np.int32), np.uint32(0)
    cut(Subgraph(node, np.arange(2, dtype=np.int32), node, (1, 1)), 0, 1)
    rectify_rows(np.zeros((1, 1), dtype=np.float32), np.zeros(1, dtype=np.int64), one, np.float32(1), one, one, 0, 1)


def _joined(model: nn.Module, peers: Peers) -> Statistics | None:
    """Returns the norms' shared statistics; None, without PyG's import of 65 MiB, if `model` has no batch norms."""
    if not has_batch_norms(model):
        return None
    from a3gnn.ranks.shared_norm import Statistics

    made = Statistics(peers)
    made.join(model)
    return made

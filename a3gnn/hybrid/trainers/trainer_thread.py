"""`TrainerThread`: one trainer, which propagates its share of each mini-batch and updates its weights.

Trainers sum their gradients through `Synchronizer`, which each of them sees as its `DevicePeers`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter

from torch import Tensor

from a3gnn.errors import A3GNNError
from a3gnn.hybrid.devices.device import Device
from a3gnn.notify import LOOK_S
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.watch import StoppedError, Watch, WatchedStage
from a3gnn.threads.ending import TRAINERS
from a3gnn.training.learner import Replica


class Synchronizer:
    """A mutex, a condition and a counter of trainers that are DONE.

    The paper's listing never resets the counter; this class does. A trainer says DONE when its values are in the host's
    memory. Once all have, the values are summed in the order of the trainers, whichever came first, and the sum is
    broadcast. A trainer acknowledges a mini-batch when its weights are updated; the mini-batch ends when all have. Once
    a trainer has failed, no further update begins.

    Args:
        size: Number of trainers.
        watch: Excludes the time in which a trainer waits for others.

    Attributes:
        acknowledged: Trainers whose weights are updated by the current mini-batch.
        updating: Trainers in the middle of an update.
        seconds: Total seconds of sums so far.
    """

    def __init__(self, size: int, watch: Watch) -> None:
        self._size, self._watch = size, watch
        self._condition = threading.Condition()
        self._given: list[Tensor | None] = [None] * size
        self._sum: Tensor | None = None
        self._done = self._round = 0
        self._failure: BaseException | None = None
        self.acknowledged: set[int] = set()
        self.updating: set[int] = set()
        self.seconds = 0.0

    def exchange(self, trainer: int, values: Tensor) -> Tensor:
        """Says DONE for `trainer`, and returns the sum of all trainers' `values` on the host; do not modify it.

        Raises:
            StoppedError: A trainer has failed; `serve` raises its error.
        """
        with self._condition, self._watch.waiting(trainer):
            self._given[trainer] = values
            self._done += 1
            this = self._round
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._round != this or self._failure is not None)
            if self._round == this or self._sum is None:
                raise StoppedError
            return self._sum

    @contextmanager
    def update(self, trainer: int) -> Iterator[None]:
        """Runs an update of `trainer`'s weights, and acknowledges it unless it fails.

        Raises:
            StoppedError: Another trainer has failed before, so the update must not begin.
        """
        with self._condition:
            if self._failure is not None:
                raise StoppedError
            self.updating.add(trainer)
        yield
        with self._condition:
            self.updating.remove(trainer)
            self.acknowledged.add(trainer)
            self._condition.notify_all()

    def fail(self, error: BaseException) -> None:
        """Stops all trainers that wait now or later; `serve` raises the first error."""
        with self._condition:
            self._failure = self._failure or error
            self._condition.notify_all()

    def reset(self) -> None:
        """Forgets failures and unfinished work: all trainers are as before a mini-batch."""
        with self._condition:
            self._given, self._done, self._failure = [None] * self._size, 0, None
            self.updating.clear()

    def begin(self) -> None:
        """Begins a mini-batch; call it before any trainer gets its share."""
        with self._condition:
            self.acknowledged.clear()

    def serve(self, check: Callable[[], None]) -> None:
        """Sums the trainers' values, once or more, until all have acknowledged the mini-batch.

        Args:
            check: Called every tenth of a second while nothing comes; an error that it raises ends the waiting.
        """
        with self._condition:
            while len(self.acknowledged) < self._size:
                if self._failure is not None:
                    raise self._failure
                if self._done == self._size:
                    self._broadcast()
                elif not self._condition.wait(LOOK_S):
                    check()

    def _broadcast(self) -> None:
        begin = perf_counter()
        first, *others = (values for values in self._given if values is not None)
        total = first.clone()
        for values in others:
            total += values
        self._sum, self._done, self._round = total, 0, self._round + 1
        self._given = [None] * self._size
        self._condition.notify_all()
        self.seconds += perf_counter() - begin


@dataclass(frozen=True, slots=True)
class DevicePeers:
    """The other trainers, as seen by one of them; implements `Peers`. Devices may be of different kinds."""

    trainer: int  # the trainer's place
    device: Device  # the trainer's device
    synchronizer: Synchronizer  # exchanges the trainers' values

    def sum(self, values: Tensor) -> None:
        """Replaces `values` with their sum over all trainers."""
        self.device.handshake(values, lambda given: self.synchronizer.exchange(self.trainer, given))


class TrainerThread:
    """Trains its share of each mini-batch until `end` or a failure. Passes its errors to the synchronizer.

    Attributes:
        loss: Loss of the last mini-batch, all shares together.
        train_s: Seconds of propagating its last share.
        transfer_s: Seconds of sending that share.
    """

    def __init__(self, peers: DevicePeers, replica: Replica, watch: Watch) -> None:
        self._peers, self._replica, self._watch = peers, replica, watch
        self._given: SimpleQueue[MiniBatch | None] = SimpleQueue()
        self.loss = self.train_s = self.transfer_s = 0.0
        self._thread = threading.Thread(target=self._serve, name=f"{TRAINERS}-{peers.trainer}", daemon=True)
        self._thread.start()

    def give(self, share: MiniBatch) -> None:
        """Makes the trainer begin with `share`."""
        self._given.put(share)

    def end(self) -> None:
        """Makes the thread end after the shares that it has been given."""
        self._given.put(None)

    def has_ended(self) -> bool:
        """Waits for the thread to end unless it is late, and returns whether it has ended."""
        while self._thread.is_alive() and not self._watch.is_late(self._thread.ident):
            self._thread.join(LOOK_S)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            with self._peers.device.running():
                while (share := self._given.get()) is not None:
                    self._train(share)
        except StoppedError:
            pass  # the failed trainer reports its own error
        except BaseException as error:
            self._peers.synchronizer.fail(error)

    def _train(self, share: MiniBatch) -> None:
        joined = self._replica.joined
        assert joined is not None, "there are shares"

        def at(stage: WatchedStage) -> AbstractContextManager[None]:
            return self._watch.at(stage, share.epoch, share.index, self._peers.trainer)

        with at("propagation"):
            part = self._peers.device.launch(self._replica.propagate, share)
        with at("synchronization"):
            self.loss = float(joined.exchange(part))
            self.train_s = self._peers.device.execution_seconds()
            self.transfer_s = self._peers.device.transfer_seconds(share)
        with at("update"), self._peers.synchronizer.update(self._peers.trainer):
            self._replica.update(share)


def none_is_whole(error: BaseException) -> A3GNNError:
    """Returns the error for trainers that `error` stopped in the middle of an update."""
    return A3GNNError(
        f"{error}; no trainer's weights are whole, so the last checkpoint is kept; continue from it by "
        f"{option('resume', True)}"
    )

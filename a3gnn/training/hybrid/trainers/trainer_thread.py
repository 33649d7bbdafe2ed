"""`TrainerThread`: one trainer, which propagates its share of each mini-batch and updates its weights."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue

from torch import Tensor

from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.watch import StoppedError, Watch
from a3gnn.threads.ending import TRAINERS
from a3gnn.threads.feeder import TICK_S
from a3gnn.training.hybrid.devices.device import Device
from a3gnn.training.hybrid.trainers.synchroniser import Synchroniser
from a3gnn.training.replica import Replica


@dataclass(frozen=True, slots=True)
class DevicePeers:
    """The other trainers as one of them sees them: see `Peers`. Devices may be of different kinds.

    Attributes:
        trainer: Its place.
        device: Its device.
        synchroniser: Whom it hands its values over to.
    """

    trainer: int
    device: Device
    synchroniser: Synchroniser

    def sum(self, values: Tensor) -> None:
        """Overwrites `values` by their sum over all trainers."""
        self.device.handshake(values, lambda given: self.synchroniser.exchange(self.trainer, given))


class TrainerThread:
    """Serves mini-batches until it is ended, or a trainer fails. What it raises, the synchroniser is told.

    Args:
        peers: Its place, its device and its synchroniser.
        replica: Its model and optimiser.
        watch: Is told at what it works.

    Attributes:
        loss: Of the last mini-batch, all shares together.
        train_s: What propagation of its share took.
        transfer_s: What sending that share took.
    """

    def __init__(self, peers: DevicePeers, replica: Replica, watch: Watch) -> None:
        self._peers, self._replica, self._watch = peers, replica, watch
        self._given: SimpleQueue[MiniBatch | None] = SimpleQueue()
        self.loss = self.train_s = self.transfer_s = 0.0
        self._thread = threading.Thread(target=self._serve, name=f"{TRAINERS}-{peers.trainer}", daemon=True)
        self._thread.start()

    def give(self, share: MiniBatch) -> None:
        """Has the trainer begin with `share`."""
        self._given.put(share)

    def end(self) -> None:
        """Has the thread end after what it has been given."""
        self._given.put(None)

    def has_ended(self) -> bool:
        """Waits for the end of the thread as long as it comes back, and returns whether it has."""
        while self._thread.is_alive() and not self._watch.is_late(self._thread.ident):
            self._thread.join(TICK_S)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            with self._peers.device.running():
                while (share := self._given.get()) is not None:
                    self._train(share)
        except StoppedError:
            pass  # who has failed says why
        except BaseException as error:
            self._peers.synchroniser.fail(error)

    def _train(self, share: MiniBatch) -> None:
        place, joined = (share.epoch, share.index, self._peers.trainer), self._replica.joined
        assert joined is not None, "there are shares"
        with self._watch.at("propagation", *place):
            part = self._peers.device.launch(self._replica.propagate, share)
        with self._watch.at("synchronisation", *place):
            self.loss = float(joined.exchange(part))
            self.train_s = self._peers.device.execution_seconds()
            self.transfer_s = self._peers.device.transfer_seconds(share)
        with self._watch.at("update", *place), self._peers.synchroniser.update(self._peers.trainer):
            self._replica.update(share)

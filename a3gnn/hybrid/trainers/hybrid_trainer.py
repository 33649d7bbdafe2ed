"""`HybridTrainer`: trainers of one process, each with its share of every mini-batch (HyScale-GNN, section III)."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, cast

import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.adaptation import Adaptation
from a3gnn.hybrid.control.controller import Controller
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.schedule import Schedule
from a3gnn.hybrid.trainers.adapting import adaptation_of, dividing_of, give_threads, schedule_of
from a3gnn.hybrid.trainers.trainer_thread import DevicePeers, Synchroniser, TrainerThread, none_is_whole
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.divided import DividedBatch, RepeatedWork, repeated_work
from a3gnn.pipeline.pipeline import Pipeline
from a3gnn.pipeline.upload import gpus_of
from a3gnn.pipeline.watch import StoppedError, Watch
from a3gnn.ranks.joined_step import JoinedStep, warm_up
from a3gnn.ranks.peers import Member
from a3gnn.task import Task
from a3gnn.threads.ending import TRAINERS
from a3gnn.threads.feeder import Feeder
from a3gnn.training.adapting.stage_times import StageTimes
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.learner import Replica, checked_loss
from a3gnn.training.step import Step, TrainerStep, traversed
from a3gnn.training.trainer import Trainer, TrainerOptions

#: Mini-batches that are sampled once more, to know what work is repeated. Guess.
_SAMPLED_AGAIN = 4


class TrainersTotals:
    """Tells of trainers, and of what their shares repeat, which is counted once for the same ones.

    Args:
        devices: Theirs.
        pipeline: Samples.
        prefetch: How far each stage is ahead of the next; None where mode and workers say it.
        independent: Whether each share is sampled for itself.
    """

    def __init__(
        self, devices: Sequence[Device], pipeline: Pipeline, prefetch: Schedule | None, *, independent: bool
    ) -> None:
        self._devices, self._pipeline, self._prefetch, self._independent = devices, pipeline, prefetch, independent
        self._repeated: dict[tuple[int, ...], RepeatedWork] = {}

    def of(self, shares: tuple[int, ...]) -> dict[str, Any]:
        """Returns names, kinds and shares, how mini-batches are sampled, how far ahead, and what work is repeated."""
        if shares not in self._repeated:
            first, sampler = self._pipeline.plan(0)[:_SAMPLED_AGAIN], self._pipeline.sampler
            self._repeated[shares] = repeated_work(sampler, first, shares, independent=self._independent)
        return {
            "names": [device.name for device in self._devices],
            "kinds": [device.kind for device in self._devices],
            "shares": list(shares),
            "sampling": "independent" if self._independent else "whole",
            "prefetch": None if self._prefetch is None else list(self._prefetch.depths),
            "repeated_work": dataclasses.asdict(self._repeated[shares]),
        }


def times_of(
    devices: Sequence[Device],
    seconds: StageSeconds,
    work: Sequence[TrainerStep],
    synchronisation_s: float,
    schedule: Schedule,
    passed_s: float,
) -> StageTimes:
    """Returns the seconds of a mini-batch's stages.

    Args:
        devices: Of the trainers.
        seconds: Of what was done for all of them.
        work: Of each.
        synchronisation_s: Of sums.
        schedule: Which stages overlap.
        passed_s: From the mini-batch before to this one. A simulated accelerator's seconds don't pass here: with one,
            an iteration takes what its stages come to (Eq. 6).
    """
    sent, trained = (tuple(getattr(one, name) for one in work) for name in ("transfer_s", "train_s"))
    kinds = tuple(device.kind for device in devices)
    times = StageTimes(kinds, seconds.sample, 0.0, seconds.gather, sent, trained, synchronisation_s)
    simulated = any(device.is_simulated for device in devices)
    return times.with_iteration(schedule.iteration_seconds(times.by_stage) if simulated else passed_s)


class HybridTrainer(Trainer):
    """Trainers with a copy of the model each, in threads of their own; see `Trainer`, which it is to whoever calls it.

    The calling thread is the runtime and the synchroniser: it has mini-batches sampled, read and sent, hands out the
    shares, sums gradients, and goes on once all trainers have updated their weights, which stay equal, bit for bit
    where devices are of one kind. Evaluation and what is saved are the first trainer's.

    Where a trainer fails or stalls, the others stop, and `model` and `optimizer` are those of one whose weights are
    whole: as after the last mini-batch that was yielded.

    Args:
        graph: What is trained on.
        config: How; `batch_size` is of all shares together.
        task: What.
        options: As of `Trainer`.
        devices: Of each trainer.
        assignment: The seeds of each; where a mini-batch has fewer, shares are in proportion.
        independent: Whether each share is sampled for itself; if not, shares come to what one trainer comes to.
        stall_s: Seconds that a stage of a mini-batch may take.
        controller: Changes shares and threads between mini-batches by what they took; None leaves them.
        prefetch: How far each stage is ahead of the next; None where `config`'s mode and workers say it.

    Attributes:
        devices: As given.
        assignment: As given, and as the controller changes it.
        schedule: Which stages overlap.
        watch: Who works at what, and the spans of what was done.
        times: What stages took of the last mini-batch, and the time from the one before to it.
        division: What the controller did; None without one.

    Raises:
        UsageError: Shares would not come to what the whole does, or are not of `batch_size` seeds together.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        options: TrainerOptions = TrainerOptions(),
        *,
        devices: Sequence[Device],
        assignment: Assignment,
        independent: bool = False,
        stall_s: float,
        controller: Controller | None = None,
        prefetch: Schedule | None = None,
    ) -> None:
        self.devices, self.assignment = tuple(devices), assignment
        adaptation = adaptation_of(controller, assignment, devices, config, prefetch, independent=independent)
        self.division: Adaptation | None = adaptation
        self.schedule, self.watch = schedule_of(config, prefetch), Watch([device.name for device in devices], stall_s)
        self.times: StageTimes | None = None
        self._synchroniser = Synchroniser(len(devices), self.watch)
        self._peers = [DevicePeers(place, device, self._synchroniser) for place, device in enumerate(devices)]
        self._dividing = dividing_of(devices, assignment, config, self.watch, prefetch, independent=independent)
        super().__init__(
            graph,
            config,
            task,
            options,
            device=str(devices[0].memory),
            member=Member(self._dividing, self._peers[0]),
        )
        warm_up()
        self._replicas = [self._replica, *(self._another(peers) for peers in self._peers[1:])]
        self._threads: list[TrainerThread] = []
        self._feeder: Feeder[MiniBatch] | None = None
        self._has_stalled, self.gpus = False, gpus_of(device.memory for device in devices)
        self._told, self._begun = TrainersTotals(self.devices, self._pipeline, prefetch, independent=independent), 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_stalled:  # what feeds the trainers may be what does not come back
            self.memory.__exit__(kind, error, trace)
        else:
            super().__exit__(kind, error, trace)

    @property
    def trainers(self) -> dict[str, Any]:
        """Names and shares of the trainers, how mini-batches are sampled, what is repeated, and what was changed."""
        told = self._told.of(self.assignment.shares)
        return told if self.division is None else told | self.division.told

    @property
    def choices(self) -> list[str]:
        """As of `Trainer`, and what the controller changed."""
        return super().choices + ([] if self.division is None else self.division.lines)

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one.

        Raises:
            MemoryLimitError: The limit was passed; the mini-batch before has been trained on.
            TrainerError: A trainer has failed, or has not come back, likewise.
            A3GNNError: The loss is not finite; or no trainer's weights are whole.
            UsageError: A trainer has not come back before.
        """
        if self._has_stalled:
            raise UsageError("a trainer has not come back, and may still write to its weights; begin in a new process")
        for replica in self._replicas:
            if replica is not self._replica:
                replica.copy_from(self._replica)
            replica.learner.model.train()
        own_threads = torch.get_num_threads()
        batches = cast(Generator[MiniBatch, None, None], self._pipeline.epoch(epoch, start))
        self._synchroniser.reset()
        if self.division is not None:
            self.division.drained()
            self._divide(self.division.assignment)
        self._feeder = Feeder(batches, f"{TRAINERS}s-feeder")
        self._threads = [
            TrainerThread(peers, replica, self.watch)
            for peers, replica in zip(self._peers, self._replicas, strict=True)
        ]
        try:
            self._begun = perf_counter()
            while (batch := self._feeder.next(self.watch.check)) is not None:
                assert isinstance(batch, DividedBatch)
                yield from self._train_together(batch)
                self.memory.check()
        finally:
            self._end()
            torch.set_num_threads(own_threads)  # of threads to come: those that ended have set theirs

    def _train_together(self, batch: DividedBatch) -> Generator[Step, None, None]:
        begin, summed_s, threads = perf_counter(), self._synchroniser.seconds, self._threads
        self._synchroniser.begin()
        for thread, part in zip(threads, batch.parts, strict=True):
            thread.give(part)
        try:
            self._synchroniser.serve(self.watch.check)
        except BaseException as error:
            self._synchroniser.fail(error)
            self._end()
            if self._settled(error) and isinstance(error, A3GNNError):
                yield self._step(batch, threads, begin, summed_s)
            raise
        step = self._step(batch, threads, begin, summed_s)
        if self.division is not None and self.times is not None and batch.num_seeds == self.config.batch_size:
            self.division.observe(batch.epoch + 1, batch.index + 1, batch.weights, self.times)
            self._divide(self.division.assignment)
        yield step
        self._begun = perf_counter()

    def _divide(self, assignment: Assignment) -> None:
        """Has mini-batches that are yet to be read divided so, and those that are yet to be trained use its threads."""
        self.assignment, self._dividing.weights = assignment, assignment.shares
        give_threads(self.devices, assignment)

    def _settled(self, error: BaseException) -> bool:
        """Has a trainer whose weights are whole stand for all, and returns whether they are those after the update."""
        done, torn = self._synchroniser.acknowledged, self._synchroniser.updating
        whole = [place for place in range(len(self._replicas)) if place not in torn]
        if not whole:
            raise none_is_whole(error) from error
        self._replica = self._replicas[min(done, default=whole[0])]
        self._learner = self._replica.learner
        return bool(done)

    def _end(self) -> None:
        """Ends all threads that come back."""
        self._synchroniser.fail(StoppedError())
        for thread in self._threads:
            thread.end()
        left = [thread for thread in self._threads if not thread.has_ended()]
        feeder, self._feeder = self._feeder, None
        fed = feeder is None or feeder.close(self.watch.is_late)
        self._threads, self._has_stalled = [], self._has_stalled or bool(left) or not fed

    def _step(self, batch: DividedBatch, threads: list[TrainerThread], begin: float, summed_s: float) -> Step:
        work = [
            TrainerStep(device.name, part.subgraph.share.num_seeds, thread.transfer_s, thread.train_s)
            for device, part, thread in zip(self.devices, batch.parts, threads, strict=True)
            if part.subgraph.share is not None
        ]
        summed_s, passed_s = self._synchroniser.seconds - summed_s, perf_counter() - self._begun
        self.times = times_of(self.devices, batch.seconds, work, summed_s, self.schedule, passed_s)
        return Step(
            epoch=batch.epoch,
            index=batch.index,
            loss=checked_loss(threads[min(self._synchroniser.acknowledged)].loss, batch),
            seeds=batch.num_seeds,
            input_nodes=sum(part.subgraph.num_nodes for part in batch.parts),
            hits=batch.hits,
            sampled_edges=sum(part.subgraph.num_edges for part in batch.parts),
            seconds=dataclasses.replace(batch.seconds, train=perf_counter() - begin),
            traversed=traversed(part.subgraph for part in batch.parts),
            trainers=tuple(work),
        )

    def _another(self, peers: DevicePeers) -> Replica:
        given, memory = (self.graph, self.config, self.task), peers.device.memory
        learner = BuiltIn(*given, device=memory, scratch=self._scratch, on_chunk=self._options.on_chunk)
        return Replica(learner, self._rates, self.batches_per_epoch, JoinedStep(learner.model, peers, self.memory))

"""`HybridTrainer`: several trainers of one process that share every mini-batch (HyScale-GNN, section III).

Also computes the times of each mini-batch's stages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from time import perf_counter
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
from a3gnn.hybrid.stage_times import StageTimes
from a3gnn.hybrid.trainers.adapting import filling, give_threads, schedule_of
from a3gnn.hybrid.trainers.request import OpenTrainers
from a3gnn.hybrid.trainers.trainer_thread import DevicePeers, Synchronizer, TrainerThread, none_is_whole
from a3gnn.measurement import StageSeconds
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.divided import DividedBatch, RepeatedWork, repeated_work
from a3gnn.pipeline.watch import StoppedError, Watch
from a3gnn.ranks.joined_step import JoinedStep, warm_up
from a3gnn.ranks.peers import Member
from a3gnn.task import Task
from a3gnn.threads.ending import TRAINERS
from a3gnn.threads.feeder import Feeder
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.learner import Replica, checked_loss
from a3gnn.training.step import Step, TrainerStep, traversed
from a3gnn.training.trainer import Trainer, TrainerOptions, gpus_of

#: Mini-batches to sample again for estimating repeated work. Guess.
_SAMPLED_AGAIN = 4


class HybridTrainer(Trainer):
    """A `Trainer` that runs several trainers, each with a copy of the model, in threads of their own.

    The calling thread is the runtime and the synchronizer. It receives prepared mini-batches, hands out the shares,
    sums gradients, and continues once all trainers have updated their weights. The weights stay equal: bit for bit if
    devices are of one kind. Evaluation and checkpoints use the first trainer.

    If a trainer fails or stalls, the others stop. `model` and `optimizer` are then those of a trainer with consistent
    weights, as after the last yielded mini-batch.

    The configuration's `batch_size` counts the seeds of all shares together.

    Args:
        trainers: The opened trainers. A smaller mini-batch is divided in the same proportion as theirs.
        controller: Changes shares and threads between mini-batches by measured times; None leaves them unchanged.

    Attributes:
        devices: The device of each trainer.
        assignment: The current assignment, which the controller may change.
        schedule: Which stages overlap.
        watch: Records which thread works at which stage, and the spans of finished work.
        times: Stage times of the last mini-batch, and the time since the previous one.
        division: The controller's changes; None without a controller.

    Raises:
        UsageError: Shares would not compute what the whole mini-batch computes, or don't sum to `batch_size` seeds.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        options: TrainerOptions = TrainerOptions(),
        *,
        trainers: OpenTrainers,
        controller: Controller | None = None,
    ) -> None:
        devices, assignment, asked = trainers.devices, trainers.assignment, trainers.asked
        self.devices, self.assignment = devices, assignment
        self._prefetch, self._independent = asked.schedule, asked.sampling == "independent"
        if controller is not None and self._independent:
            raise UsageError(
                f"{option('trainer_sampling')} must be whole with a controller, got 'independent'; shares would change "
                "the sampled neighbors, and so the training; leave one of them out"
            )
        names = [device.name for device in devices]
        self.division: Adaptation | None = None
        if controller is not None:
            self.division = Adaptation(controller, assignment, names, filling(config, self._prefetch))
        self.schedule, self.watch = schedule_of(config, self._prefetch), Watch(names, asked.stall_s)
        self.times: StageTimes | None = None
        self._synchronizer = Synchronizer(len(devices), self.watch)
        self._peers = [DevicePeers(place, device, self._synchronizer) for place, device in enumerate(devices)]
        self._dividing = trainers.dividing(config, self.watch)
        member = Member(self._dividing, self._peers[0])
        super().__init__(graph, config, task, options, device=str(devices[0].memory), member=member)
        warm_up()
        self._replicas = [self._replica, *(self._another(peers) for peers in self._peers[1:])]
        self._threads: list[TrainerThread] = []
        self._feeder: Feeder[MiniBatch] | None = None
        self._has_stalled, self.gpus = False, gpus_of(device.memory for device in devices)
        self._begun = 0.0
        self._repeated: dict[tuple[int, ...], RepeatedWork] = {}

    def __exit__(self, *error: Any) -> None:
        if self._has_stalled:  # the feeder may be the stalled thread, and closing the pipeline would wait for it
            self.memory.__exit__(*error)
        else:
            super().__exit__(*error)

    @property
    def trainers(self) -> dict[str, Any]:
        """Names, shares, sampling and repeated work of the trainers, and the controller's changes."""
        shares = self.assignment.shares
        if shares not in self._repeated:
            first, sampler = self._pipeline.plan(0)[:_SAMPLED_AGAIN], self._pipeline.sampler
            self._repeated[shares] = repeated_work(sampler, first, shares, independent=self._independent)
        told = {
            "names": [device.name for device in self.devices],
            "kinds": [device.kind for device in self.devices],
            "shares": list(shares),
            "sampling": "independent" if self._independent else "whole",
            "prefetch": None if self._prefetch is None else list(self._prefetch.depths),
            "repeated_work": dataclasses.asdict(self._repeated[shares]),
        }
        return told if self.division is None else told | self.division.told

    @property
    def choices(self) -> list[str]:
        """Like `Trainer.choices`, and one sentence for each change by the controller."""
        return super().choices + ([] if self.division is None else self.division.lines)

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one.

        Raises:
            MemoryLimitError: Memory exceeded the limit; the last yielded mini-batch has been trained.
            TrainerError: A trainer has failed or stalled; the last yielded mini-batch has been trained.
            A3GNNError: The loss is not finite, or no trainer has consistent weights.
            UsageError: A trainer has stalled in an earlier call.
        """
        if self._has_stalled:
            raise UsageError("a trainer has not returned, and may still write to its weights; begin in a new process")
        for replica in self._replicas:
            if replica is not self._replica:
                replica.copy_from(self._replica)
            replica.learner.model.train()
        own_threads = torch.get_num_threads()
        batches = cast(Generator[MiniBatch, None, None], self._pipeline.epoch(epoch, start))
        self._synchronizer.reset()
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
            torch.set_num_threads(own_threads)  # for later threads, because the trainers' threads have changed it

    def _train_together(self, batch: DividedBatch) -> Generator[Step, None, None]:
        begin, summed_s, threads = perf_counter(), self._synchronizer.seconds, self._threads
        self._synchronizer.begin()
        for thread, part in zip(threads, batch.parts, strict=True):
            thread.give(part)
        try:
            self._synchronizer.serve(self.watch.check)
        except BaseException as error:
            self._synchronizer.fail(error)
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
        """Applies the shares to mini-batches that are read later, and the threads to those that are trained later."""
        self.assignment, self._dividing.weights = assignment, assignment.shares
        give_threads(self.devices, assignment)

    def _settled(self, error: BaseException) -> bool:
        """Selects a trainer with consistent weights for all, and returns whether these include the update."""
        done, torn = self._synchronizer.acknowledged, self._synchronizer.updating
        whole = [place for place in range(len(self._replicas)) if place not in torn]
        if not whole:
            raise none_is_whole(error) from error
        self._replica = self._replicas[min(done, default=whole[0])]
        self._learner = self._replica.learner
        return bool(done)

    def _end(self) -> None:
        """Ends all threads except stalled ones, and notes whether any has stalled."""
        self._synchronizer.fail(StoppedError())
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
        summed_s, passed_s = self._synchronizer.seconds - summed_s, perf_counter() - self._begun
        self.times = times_of(self.devices, batch.seconds, work, summed_s, self.schedule, passed_s)
        return Step(
            epoch=batch.epoch,
            index=batch.index,
            loss=checked_loss(threads[min(self._synchronizer.acknowledged)].loss, batch),
            seeds=batch.num_seeds,
            input_nodes=sum(part.subgraph.num_nodes for part in batch.parts),
            hits=batch.hits,
            sampled_edges=sum(part.subgraph.num_edges for part in batch.parts),
            seconds=dataclasses.replace(batch.seconds, train=perf_counter() - begin),
            traversed=traversed(part.subgraph for part in batch.parts),
            trainers=tuple(work),
        )

    def _another(self, peers: DevicePeers) -> Replica:
        learner = BuiltIn(
            self.graph,
            self.config,
            self.task,
            device=peers.device.memory,
            scratch=self._scratch,
            on_chunk=self._options.on_chunk,
        )
        return Replica(learner, self._rates, self.batches_per_epoch, JoinedStep(learner.model, peers, self.memory))


def times_of(
    devices: Sequence[Device],
    seconds: StageSeconds,
    work: Sequence[TrainerStep],
    synchronization_s: float,
    schedule: Schedule,
    passed_s: float,
) -> StageTimes:
    """Returns the seconds of a mini-batch's stages.

    Args:
        devices: The trainers' devices.
        seconds: Time of stages that work for all trainers.
        work: Time of each trainer's stages.
        synchronization_s: Time to sum gradients.
        schedule: Which stages overlap.
        passed_s: Time since the previous mini-batch. Ignored with a simulated accelerator, whose seconds don't pass in
            real time; the iteration then takes the time computed from its stages (Eq. 6).
    """
    sent, trained = (tuple(getattr(one, name) for one in work) for name in ("transfer_s", "train_s"))
    kinds = tuple(device.kind for device in devices)
    times = StageTimes(kinds, seconds.sample, 0.0, seconds.gather, sent, trained, synchronization_s)
    simulated = any(device.is_simulated for device in devices)
    return times.with_iteration(schedule.iteration_seconds(times.by_stage) if simulated else passed_s)

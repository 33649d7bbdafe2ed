"""`Trainers`: the requested trainers of this process, and the share of a mini-batch that each gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from a3gnn.checks import flag, positive_number, whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError, unknown_name
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.devices.opening import AUTO, device_names, open_devices
from a3gnn.hybrid.performance import ModelShape, PerformanceModel, PredictedDivision, fastest_division, probed_speeds
from a3gnn.hybrid.schedule import STALL_S, TRAINER_SAMPLINGS, Schedule, TrainerSampling
from a3gnn.hybrid.trainers.adapting import schedule_of, stage_threads
from a3gnn.machine.probe import probe_hardware
from a3gnn.option_names import option
from a3gnn.pipeline.divided import Dividing
from a3gnn.pipeline.watch import Watch
from a3gnn.sampling.counts import CountCurve
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.checkpoint import SavedShares
from a3gnn.units import count

#: Parts of a mini-batch in which nodes and edges are counted; between them they are interpolated. Guess.
_COUNTED = (1 / 16, 1 / 4, 1 / 2, 1)
#: What the numbers of an option mean, for error messages.
_WHAT = {"trainer_shares": "one per trainer", "prefetch": "such as 1, 1, 1"}


@dataclass(frozen=True, slots=True)
class Trainers:
    """The options of `train` for trainers.

    Attributes:
        names: auto, or devices such as cpu:2, cuda:0 and sim:u250, separated by commas; each is a trainer. None leaves
            it to the configuration.
        shares: Seeds of each trainer, which sum to batch_size; 0 leaves one out. None makes them equal among trainers
            of one kind, and lets the performance model divide between processors and accelerators.
        sampling: whole samples a mini-batch once and cuts it, so that any division equals one trainer; independent
            samples each share for itself.
        stall_s: Seconds after which a trainer counts as lost if a stage of a mini-batch has not ended.
        adapt: Whether shares and threads change while training runs.
        prefetch: Mini-batches by which sampling may be ahead of loading, loading of transfer, and transfer of
            propagation. None leaves it to the configuration's mode and workers.

    Raises:
        UsageError: A field is out of range, or `adapt` is set without whole sampling.
    """

    names: str | None = None
    shares: Sequence[int] | None = None
    sampling: TrainerSampling = "whole"
    stall_s: float = STALL_S
    adapt: bool = False
    prefetch: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.names is None:
            flag("adapt", self.adapt)
            return
        if not isinstance(self.names, str):
            raise UsageError(f"{option('trainers')} must be text such as cpu:1,cpu:1, got {self.names!r}")
        for field, name, remedy in (
            ("shares", "trainer_shares", "0 leaves a trainer out"),
            ("prefetch", "prefetch", "0 runs two stages in turn"),
        ):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _whole(name, getattr(self, field), remedy))
        if self.prefetch is not None and len(self.prefetch) != len(Schedule().depths):
            raise UsageError(
                f"{option('prefetch')} must be three numbers, got {','.join(map(str, self.prefetch))}; they limit how "
                "many mini-batches sampling, loading and transfer may be ahead of the next stage; 1,1,1 is two-stage "
                "prefetching"
            )
        if self.sampling not in TRAINER_SAMPLINGS:
            raise unknown_name(option("trainer_sampling"), self.sampling, TRAINER_SAMPLINGS)
        positive_number(option("trainer_stall"), self.stall_s, "seconds")
        if flag("adapt", self.adapt) and self.sampling != "whole":
            raise UsageError(
                f"{option('trainer_sampling')} must be whole with {option('adapt')}, got {self.sampling!r}; shares "
                "would change the sampled neighbors, and so the training; leave one of them out"
            )

    def of(self, config: TrainConfig) -> Self | None:
        """Returns the trainers: the named ones, or those of `config` with its depths and `adapt`; None for one.

        Raises:
            UsageError: A field is out of range; or there is one trainer, and another field needs several.
        """
        config = config.canonical()
        if self.names is not None:
            return self
        if config.trainers > 1:
            prefetch, adapt = self.prefetch, self.adapt or config.adapt == "on"
            if prefetch is None and config.prefetch_depth:
                prefetch = [config.prefetch_depth] * len(Schedule().depths)
            return dataclasses.replace(self, names=device_names(config.trainers), adapt=adapt, prefetch=prefetch)
        said = {"trainer_shares": self.shares is not None, "trainer_sampling": self.sampling != "whole"}
        said |= {"trainer_stall": self.stall_s != STALL_S, "prefetch": self.prefetch is not None}
        for name in (name for name, is_said in said.items() if is_said):
            raise UsageError(f"{option(name)} must be left out without {option('trainers')}, such as cpu:1,cpu:1")
        return None

    @property
    def schedule(self) -> Schedule | None:
        """The stages that overlap; None leaves it to the configuration's mode and workers."""
        return None if self.prefetch is None else Schedule(*self.prefetch)

    def on(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        processes: int = 1,
        *,
        kept: SavedShares | None = None,
        hardware: Callable[[], Hardware] = probe_hardware,
    ) -> OpenTrainers:
        """Opens the devices, and divides a mini-batch among them.

        Args:
            graph: The graph.
            config: The configuration.
            task: The task.
            processes: Processes of this training run.
            kept: The first shares of the run that is resumed, instead of a prediction; None for a new run.
            hardware: Returns this machine; called only if shares are predicted.

        Raises:
            UsageError: A name is not valid, shares are not one per trainer or do not sum to `batch_size`, a single
                trainer is to adapt, this process is one of several, or the graph is on graph servers.
            DeviceError: A device does not exist.
        """
        if processes > 1:
            raise UsageError(
                f"{option('trainers')} must be left out if torchrun starts {processes} processes, because each already "
                "has a share of every mini-batch; use one or the other"
            )
        if graph.is_parted:
            raise UsageError(
                f"{option('dataset')} must be a graph on this machine's disk with {option('trainers')}, got parts on "
                f"graph servers; leave out {option('trainers')}"
            )
        names = self.names or AUTO
        devices = open_devices([name.strip() for name in names.split(",") if name.strip()], graph, task)
        if self.adapt and len(devices) < 2:
            raise UsageError(
                f"{option('trainers')} must name two or more with {option('adapt')}, got {names}; name another, "
                f"such as cpu:1,cpu:1; without {option('trainers')}, one trainer adapts its cache"
            )
        ahead = pool.usable_cores() if config.parallel_mode == "sequential" else config.num_workers
        if self.schedule is not None:
            ahead = stage_threads(devices, self.schedule)
        shares, why = self.shares, None
        if shares is None:
            schedule = schedule_of(config, self.schedule)
            shares, why = first_shares(devices, graph, config, task, schedule, hardware, ahead, kept)
        return OpenTrainers(self, tuple(devices), self._assignment(devices, config, tuple(shares), ahead), why)

    def _assignment(
        self, devices: Sequence[Device], config: TrainConfig, shares: tuple[int, ...], ahead: int
    ) -> Assignment:
        if len(shares) != len(devices) or sum(shares) != config.batch_size:
            raise UsageError(
                f"{option('trainer_shares')} must have one number per trainer and sum to batch_size "
                f"{config.batch_size}, got {','.join(map(str, shares))} for {count(len(devices), 'trainer')}; leave it "
                "out for equal shares"
            )
        threads, kinds = tuple(device.threads for device in devices), tuple(device.kind for device in devices)
        return Assignment(kinds, shares, 0, Threads(ahead, ahead, sum(threads)), trainer_threads=threads)


class OpenTrainers(NamedTuple):
    """Requested trainers, opened for a machine, a graph and a configuration."""

    asked: Trainers  # the request
    devices: tuple[Device, ...]  # the device of each trainer
    assignment: Assignment  # the division of a mini-batch
    why: str | None = None  # a line for people on the division, if the performance model chose it

    @property
    def lines(self) -> list[str]:
        """Lines for people before training runs."""
        threads, cores = sum(device.threads for device in self.devices), pool.usable_cores()
        said = [] if self.why is None else [self.why]
        if threads > cores:
            said.append(
                f"warning: trainers compute on {count(threads, 'thread')} at once, but this process may use "
                f"{count(cores, 'core')}"
            )
        return said

    def dividing(self, config: TrainConfig, watch: Watch) -> Dividing:
        """Returns how mini-batches are divided; `watch` receives the stage that each thread works at.

        Raises:
            UsageError: Shares are not one per trainer, or do not sum to `batch_size`.
        """
        devices, assignment, prefetch = self.devices, self.assignment, self.asked.schedule
        if assignment.batch_size != config.batch_size or len(assignment.shares) != len(devices):
            raise UsageError(
                f"shares must have one number per trainer and sum to batch_size {config.batch_size}, got "
                f"{assignment.shares} for {count(len(devices), 'trainer')}"
            )
        return Dividing(
            assignment.shares,
            tuple(device.send for device in devices),
            tuple(device.page_locked for device in devices),
            watch,
            independent=self.asked.sampling == "independent",
            depths=None if prefetch is None else prefetch.depths,
            threads=1 if prefetch is None else stage_threads(devices, prefetch),
        )

    @property
    def use_gpu(self) -> bool:
        """Whether a trainer is a GPU."""
        return any(device.memory.type != "cpu" for device in self.devices)


def first_shares(
    devices: Sequence[Device],
    graph: Graph,
    config: TrainConfig,
    task: Task,
    schedule: Schedule,
    hardware: Callable[[], Hardware],
    ahead: int,
    kept: SavedShares | None = None,
) -> tuple[tuple[int, ...], str | None]:
    """Returns the shares at the start of training, and a line on the choice, None if trainers are of one kind.

    Shares are equal among trainers of one kind, and the predicted fastest ones between kinds.

    Args:
        devices: The trainers' devices.
        graph: The graph.
        config: The configuration.
        task: The task.
        schedule: The stages that overlap.
        hardware: Returns this machine, probed; called only if shares are predicted.
        ahead: Threads for sampling, and as many for loading.
        kept: The first shares of the run that is resumed. They replace a prediction if the trainers' kinds are the
            same.
    """
    batch, kinds = config.batch_size, [device.kind for device in devices]
    if len(set(kinds)) == 1 or task.is_own:  # several trainers refuse such tasks later
        return tuple(divide(batch, [1.0] * len(devices))), None
    if kept is not None and (list(kept.kinds), sum(kept.shares)) == (kinds, batch):
        return kept.shares, f"trainers: shares {','.join(map(str, kept.shares))}, as at the start of the run"
    seeds = min(batch, len(graph.train_ids))
    here = [device for device in devices if device.kind == "processor"]
    there = [device for device in devices if device.kind == "accelerator"]
    model = _model(there, graph, config, task, schedule, hardware(), seeds)

    def fits(share: int) -> bool:
        return all(device.fits(model.counts.at(share)) for device in there)

    found = fastest_division(model, seeds, [device.threads for device in here], ahead=ahead, fits=fits)
    in_order = iter(divide(batch, [float(share) for share in found.shares]))
    places = [place for kind in ("processor", "accelerator") for place, own in enumerate(kinds) if own == kind]
    shares = dict(zip(places, in_order, strict=True))
    given = tuple(shares[place] for place in range(len(devices)))
    return given, _why(given, found)


def _model(
    accelerators: Sequence[Device],
    graph: Graph,
    config: TrainConfig,
    task: Task,
    schedule: Schedule,
    hardware: Hardware,
    seeds: int,
) -> PerformanceModel:
    """Returns the performance model of this machine, with `accelerators` instead of the probed devices."""
    sampler = Sampler(graph.edges, config.fanouts(task), seed=task.seed)
    counted = sorted({max(1, round(seeds * part)) for part in _COUNTED})
    counts = CountCurve.sampled(sampler, graph.train_ids, counted)
    widths = (graph.num_features, *(task.hidden_channels,) * (task.num_layers - 1), graph.num_classes)
    # Dense rows are summed while they are gathered, except for gcn, which weighs them by degree.
    fused = task.aggregates not in (None, "gcn") and not graph.features.is_sparse
    speeds = dataclasses.replace(
        probed_speeds(hardware, counts), accelerators=tuple(device.speeds(hardware.profile) for device in accelerators)
    )
    return PerformanceModel(ModelShape(task.model, widths, fused, maps_first=True), counts, speeds, schedule)


def _why(shares: Sequence[int], found: PredictedDivision) -> str:
    times = found.times
    assert times.iteration is not None, "it was predicted"
    slowest = max(times.by_stage, key=times.by_stage.__getitem__)
    return (
        f"trainers: shares {','.join(map(str, shares))} by the performance model, which predicts "
        f"{1e3 * times.iteration:.3g} ms per mini-batch; {slowest} is the longest stage; {option('trainer_shares')} "
        "sets other shares"
    )


def _whole(name: str, numbers: Any, remedy: str) -> tuple[int, ...]:
    """Returns `numbers` as Python integers, because checkpoints and JSON hold no others."""
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise UsageError(f"{option(name)} must be integers, {_WHAT[name]}, got {numbers!r}")
    return tuple(whole_number(option(name), number, 0, remedy) for number in numbers)

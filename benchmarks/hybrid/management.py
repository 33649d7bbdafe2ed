"""Dynamic resource management on random simulated platforms, from bad starts and from the best static division.

The best static division is that of all on a grid of shares and threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import MemoryLimitError
from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.control.adaptation import Managed
from a3gnn.hybrid.control.controller import Controller, ShareBounds
from a3gnn.hybrid.control.fitted import FittedScaling
from a3gnn.hybrid.devices.simulated_accelerator import on_accelerator, sampled_bytes
from a3gnn.hybrid.stage_times import PipelineStage
from benchmarks.hybrid.algorithm1 import Algorithm1
from benchmarks.hybrid.platform import loaded_bytes, on_processor, sampling_on_accelerator, sampling_on_processor
from benchmarks.hybrid.random_platforms import BATCH, random_start, random_training, still
from benchmarks.hybrid.simulated_training import SimulatedTraining, most_seeds

#: A division whose bound is not lower than this share of the best is not simulated: it could gain half a percent.
_CLOSE = 0.995


@dataclass(frozen=True, slots=True)
class Best:
    """What was found.

    Attributes:
        assignment: The fastest division that was simulated.
        seconds: From one mini-batch to the next.
        simulated: Divisions that were simulated.
        divisions: Divisions on the grid.
    """

    assignment: Assignment
    seconds: float
    simulated: int
    divisions: int


def best_division(training: SimulatedTraining, batch: int, parts: int = 64, sampled_parts: int = 16) -> Best:
    """Returns the fastest static division, at most half a percent slower than any other on the grid, without jitter.

    Shares are multiples of a 1 / `parts` of the mini-batch, equal on all accelerators; what accelerators sample is a
    multiple of 1 / `sampled_parts`; threads are all that add up to the host's. No stage can be faster than alone on the
    platform, which bounds each division from below; they are simulated in the order of their bounds until none is left
    that could be faster than the best.
    """
    calm = still(training)
    grid = Grid(calm, batch, parts, sampled_parts)
    best, best_seconds, simulated = None, np.inf, 0
    for place in np.argsort(grid.bounds, kind="stable"):
        if grid.bounds[place] >= _CLOSE * best_seconds:
            break
        assignment = grid.assignment(int(place))
        try:
            seconds = calm.seconds_per_batch(assignment)
        except MemoryLimitError:
            continue
        simulated += 1
        if seconds < best_seconds:
            best, best_seconds = assignment, seconds
    assert best is not None, "with all seeds on the processors, a division fits"
    return Best(best, best_seconds, simulated, len(grid.bounds))


class Grid:
    """All divisions, and the least seconds that each can take; arrays have a row per split, a column per sampling."""

    def __init__(self, training: SimulatedTraining, batch: int, parts: int, sampled_parts: int) -> None:
        self._training, self._platform, self._batch = training, training.platform, batch
        devices, total = len(self._platform.accelerators), self._platform.processor.threads
        shares = [round(batch * part / parts) for part in range(parts + 1)] if devices else [batch]
        self._shares = {share: (share, *divide(batch - share, [1.0] * devices)) for share in shares}
        steps = range(sampled_parts + 1) if self._platform.can_sample else [0]
        self._sampled = [round(batch * part / sampled_parts) for part in steps]
        self._splits = [
            (share, Threads(one, two, total - one - two))
            for share, one, two in product(shares, range(1, total), range(1, total))
            if (total - one - two >= 1 if share else total - one - two == 0)
        ]
        self.bounds = self._bounds().ravel()

    def assignment(self, place: int) -> Assignment:
        """Returns the division of a place in `bounds`."""
        split, sampling = divmod(place, len(self._sampled))
        share, threads = self._splits[split]
        return Assignment(self._platform.kinds, self._shares[share], self._sampled[sampling], threads)

    def _bounds(self) -> NDArray[np.float64]:
        sampling, device_sampling = self._sampling()
        rows = np.array([self._alone(share, threads) for share, threads in self._splits])[:, :, None]
        loading, transfer, processor, accelerators, moved = rows.transpose(1, 0, 2)
        stages: dict[PipelineStage, NDArray[np.float64]] = {
            "sampling": sampling,
            "loading": loading,
            "transfer": transfer,
            "propagation": np.maximum(processor, accelerators),
        }
        longest = self._training.schedule.iteration_seconds(stages)
        busy = accelerators + device_sampling
        memory = moved / self._platform.processor.memory_bytes_per_s
        bounds: NDArray[np.float64] = np.maximum.reduce(np.broadcast_arrays(longest, busy, memory))
        return bounds

    def _sampling(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the seconds of sampling, and what of them takes the accelerators' time."""
        processor, devices, counts = self._platform.processor, self._platform.accelerators, self._training.counts
        rest = [counts.at(self._batch - seeds) for seeds in self._sampled]
        numbers = [threads.sampling for _, threads in self._splits]
        table = {n: [sampling_on_processor(processor, n, found) for found in rest] for n in set(numbers)}
        here = np.array([table[n] for n in numbers])
        there, busy = np.zeros(len(self._sampled)), np.zeros(len(self._sampled))
        for place, seeds in enumerate(self._sampled):
            for device, share in zip(devices, divide(seeds, [1.0] * len(devices)), strict=True) if seeds else ():
                found = counts.at(share)
                seconds = sampling_on_accelerator(device, found)
                there[place] = max(there[place], seconds + sampled_bytes(found) / device.link_bytes_per_s)
                busy[place] = max(busy[place], 0.0 if device.samples_beside else seconds)
        return np.maximum(here, there), busy

    def _alone(self, share: int, threads: Threads) -> tuple[float, float, float, float, float]:
        """Returns the seconds of loading, transfer, processors and accelerators, and the bytes of the host's memory."""
        processor = self._platform.processor
        loaded, transfer, accelerators, sent = self._by_share(share)
        speed = processor.speed(threads.loading) * processor.load_bytes_per_s
        loading = loaded / min(speed, processor.memory_bytes_per_s)
        seconds = moved = 0.0
        if share:
            seconds, moved = self._on_host(threads.training, share)
        return loading, transfer, seconds, accelerators, loaded + moved + sent * self._platform.sent_host_bytes

    @cache  # noqa: B019
    def _by_share(self, share: int) -> tuple[float, float, float, float]:
        model, devices = self._training.model, self._platform.accelerators
        parts = [self._training.counts.at(part) for part in self._shares[share]]
        sent = [model.sent_bytes(part) if part.nodes[0] else 0.0 for part in parts[1:]]
        transfer = max(
            (size / device.link_bytes_per_s for size, device in zip(sent, devices, strict=True)), default=0.0
        )
        worked = zip(devices, parts[1:], strict=True)
        seconds = max((on_accelerator(device, model, part) for device, part in worked if part.nodes[0]), default=0.0)
        return sum(loaded_bytes(model, part) for part in parts), transfer, seconds, sum(sent)

    @cache  # noqa: B019
    def _on_host(self, threads: int, share: int) -> tuple[float, float]:
        processor, counts = self._platform.processor, self._training.counts
        work = on_processor(processor, threads, self._training.model, counts.at(share))
        return work.seconds, work.moved_bytes


CONTROLLERS = ("algorithm 1", "fitted scaling")
#: Steps of a controller, and the last ones, in which it is to have settled.
ITERATIONS, LAST = 20, 5


@dataclass(frozen=True, slots=True)
class Managed20:
    """What a controller reached in `ITERATIONS` steps on one simulated platform.

    Attributes:
        controller: Its name.
        start: Seconds of the first division over those of the best static one.
        end: Seconds of the last division, likewise.
        from_best: As `end`, where the first division was the best static one.
        changes: How often the division changed in the last `LAST` steps, from the bad start.
    """

    controller: str
    start: float
    end: float
    from_best: float
    changes: int


def bounds_of(training: SimulatedTraining, batch: int = BATCH) -> ShareBounds:
    """Returns what of a mini-batch of `batch` seeds fits into the accelerators' memory."""
    fits = (
        most_seeds(one, training.model, training.counts, training.schedule) for one in training.platform.accelerators
    )
    return ShareBounds(min(sum(fits), batch))


def controller(name: str, training: SimulatedTraining, batch: int) -> Controller:
    """Returns the controller of one of `CONTROLLERS` for `training`."""
    bounds = bounds_of(training, batch)
    return Algorithm1(bounds) if name == "algorithm 1" else FittedScaling(bounds, training.schedule)


def managed(name: str, training: SimulatedTraining, start: Assignment) -> Managed:
    """Returns how a controller went on from `start`."""
    run = Managed(controller(name, training, start.batch_size), start, ITERATIONS)
    training.run(run)
    return run


def on_random_platform(seed: int) -> list[Managed20]:
    """Returns what each controller reached on the platform of `seed`."""
    training = random_training(seed)
    calm, start = still(training), random_start(training, seed)
    best = best_division(training, BATCH)
    found = []
    for name in CONTROLLERS:
        bad, good = managed(name, training, start), managed(name, training, best.assignment)
        last = [step.assignment for step in bad.history[-LAST:]] + [bad.current]
        found.append(
            Managed20(
                name,
                calm.seconds_per_batch(start) / best.seconds,
                calm.seconds_per_batch(bad.current) / best.seconds,
                calm.seconds_per_batch(good.current) / best.seconds,
                sum(one != other for one, other in pairwise(last)),
            )
        )
    return found

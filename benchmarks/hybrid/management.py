"""Dynamic resource management on random simulated platforms, from bad starts and from the best static division."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from a3gnn.training.hybrid.assignment import Assignment
from a3gnn.training.hybrid.control.amounts import Bounds
from a3gnn.training.hybrid.control.controller import Algorithm1, Controller
from a3gnn.training.hybrid.control.fitted import FittedScaling
from a3gnn.training.hybrid.control.learned import Learned, Network
from a3gnn.training.hybrid.control.managed import Managed
from a3gnn.training.hybrid.simulation.memory import most_seeds
from a3gnn.training.hybrid.simulation.training import SimulatedTraining
from benchmarks.hybrid.exhaustive import best_division
from benchmarks.hybrid.platforms import BATCH, random_start, random_training, still

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


def bounds_of(training: SimulatedTraining, batch: int = BATCH) -> Bounds:
    """Returns what of a mini-batch of `batch` seeds fits into the accelerators' memory."""
    fits = (
        most_seeds(one, training.model, training.counts, training.schedule) for one in training.platform.accelerators
    )
    return Bounds(min(sum(fits), batch))


def controller(name: str, training: SimulatedTraining, batch: int, learned: Path | None = None) -> Controller:
    """Returns the controller of one of `CONTROLLERS`, or the network in the folder `learned`, for what is trained."""
    bounds = bounds_of(training, batch)
    if name == "learned" and learned is not None:
        return Learned(bounds, Network.load(learned))
    return Algorithm1(bounds) if name == "algorithm 1" else FittedScaling(bounds, training.schedule)


def managed(
    name: str, training: SimulatedTraining, start: Assignment, learned: Path | None = None
) -> Managed[Assignment]:
    """Returns how a controller went on from `start`."""
    run = Managed(controller(name, training, start.batch_size, learned), start, ITERATIONS)
    training.run(run)
    return run


def on_random_platform(seed: int, learned: Path | None = None) -> list[Managed20]:
    """Returns what each controller reached on the platform of `seed`, that in the folder `learned` the last one."""
    training = random_training(seed)
    calm, start = still(training), random_start(training, seed)
    best = best_division(training, BATCH)
    found = []
    for name in (*CONTROLLERS, *(() if learned is None else ("learned",))):
        bad, good = managed(name, training, start, learned), managed(name, training, best.assignment, learned)
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

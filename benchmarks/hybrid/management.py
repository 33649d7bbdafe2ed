"""Dynamic resource management on random simulated platforms, from bad starts and from the best static division."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from a3gnn.training.hybrid.assignment import Assignment
from a3gnn.training.hybrid.control.amounts import Bounds
from a3gnn.training.hybrid.control.controller import Algorithm1, Controller
from a3gnn.training.hybrid.control.fitted import FittedScaling
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


def controller(name: str, training: SimulatedTraining, batch: int) -> Controller:
    """Returns the controller of one of `CONTROLLERS` for what is trained."""
    fits = (
        most_seeds(one, training.model, training.counts, training.schedule) for one in training.platform.accelerators
    )
    bounds = Bounds(min(sum(fits), batch))
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

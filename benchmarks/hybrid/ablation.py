"""HyScale-GNN's Fig. 11 on simulated platforms: what each optimisation gains over offloading everything."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.schedule import (
    NO_PREFETCHING,
    ONE_STAGE_PREFETCHING,
    TWO_STAGE_PREFETCHING,
)
from benchmarks.hybrid.first_division import initial_assignment
from benchmarks.hybrid.management import CONTROLLERS, managed
from benchmarks.hybrid.platforms import BATCH, paper_training, still
from benchmarks.hybrid.probe import performance_model
from benchmarks.hybrid.simulated_training import SimulatedTraining


@dataclass(frozen=True, slots=True)
class Ablation:
    """Seconds of a mini-batch with each optimisation added to those before; all simulated.

    Attributes:
        offload: All training on accelerators; threads by the performance model.
        static: Shares and threads by the performance model.
        managed: Dynamic resource management (`FittedScaling`) from there.
        one_stage: Loading and transfer run ahead, as one stage.
        two_stage: Loading and transfer run ahead, as two stages.
        even: As `static`, but with equally many threads for each of the host's stages.
        even_managed: Dynamic resource management from there, without prefetching.
        even_algorithm1: Algorithm 1 as printed from there, likewise.
        predicted: What the performance model says of `static`.
    """

    offload: float
    static: float
    managed: float
    one_stage: float
    two_stage: float
    even: float
    even_managed: float
    even_algorithm1: float
    predicted: float

    @property
    def speedups(self) -> tuple[float, ...]:
        """Of each optimisation and those before it: static, managed, one stage, two stages."""
        return tuple(self.offload / one for one in (self.static, self.managed, self.one_stage, self.two_stage))


def ablation(accelerator: str, dataset: str, model: str, devices: int = 4) -> Ablation:
    """Returns what each optimisation gains in one of the paper's set-ups."""
    return ablation_of(paper_training(accelerator, dataset, model, devices), BATCH * devices)


def ablation_of(training: SimulatedTraining, batch: int) -> Ablation:
    """Returns what each optimisation gains in `training`, whatever its schedule."""
    serial = dataclasses.replace(training, schedule=NO_PREFETCHING)
    model = performance_model(serial)
    alone = initial_assignment(model, batch, sampled_parts=0, train_on_processors=False)
    chosen = initial_assignment(model, batch)
    even = _even(chosen, training.platform.processor.threads)
    run = managed("fitted scaling", serial, chosen).current
    one, two = (dataclasses.replace(training, schedule=each) for each in (ONE_STAGE_PREFETCHING, TWO_STAGE_PREFETCHING))
    ahead = managed("fitted scaling", one, run).current
    predicted = model.predict(chosen).iteration
    assert predicted is not None
    return Ablation(
        *(still(serial).seconds_per_batch(each) for each in (alone, chosen, run)),
        still(one).seconds_per_batch(ahead),
        still(two).seconds_per_batch(managed("fitted scaling", two, ahead).current),
        still(serial).seconds_per_batch(even),
        *(still(serial).seconds_per_batch(managed(name, serial, even).current) for name in reversed(CONTROLLERS)),
        predicted,
    )


def _even(assignment: Assignment, total: int) -> Assignment:
    """Returns `assignment` with equally many threads for each stage of the host that has work."""
    stages = 3 if assignment.seeds_of("processor") else 2
    part = total // stages
    threads = Threads(part, total - part * (stages - 1), part if stages == 3 else 0)
    return dataclasses.replace(assignment, threads=threads)

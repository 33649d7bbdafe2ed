"""HyScale-GNN's Fig. 9 on simulated platforms: how throughput grows with the number of accelerators."""

from __future__ import annotations

import dataclasses

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING
from benchmarks.hybrid.management import managed
from benchmarks.hybrid.platforms import BATCH, paper_training, still
from benchmarks.hybrid.simulated_training import SimulatedTraining, Static

#: Mini-batches of a run, those that fill its pipeline, and those that drain it.
_BATCHES, _FILL, _DRAIN = 18, 8, 4
#: Threads for sampling where only accelerators train: enough not to be the bottleneck, the others load.
_SAMPLING = 64


def accelerators_only(accelerator: str, dataset: str, model: str, devices: int, sent_host_bytes: float = 0.0) -> float:
    """Returns simulated MTEPS where `devices` accelerators train 1,024 seeds each, and processors only feed them."""
    training = still(paper_training(accelerator, dataset, model, devices))
    platform = dataclasses.replace(training.platform, sent_host_bytes=sent_host_bytes)
    threads = Threads(_SAMPLING, platform.processor.threads - _SAMPLING, 0)
    assignment = Assignment(platform.kinds, (0, *(BATCH for _ in range(devices))), 0, threads)
    return _mteps(dataclasses.replace(training, platform=platform), assignment)


def hybrid(accelerator: str, dataset: str, model: str, devices: int) -> float:
    """Returns simulated MTEPS where processors train too, with dynamic resource management and prefetching."""
    training = dataclasses.replace(paper_training(accelerator, dataset, model, devices), schedule=TWO_STAGE_PREFETCHING)
    third = training.platform.processor.threads // 3
    threads = Threads(third, third, training.platform.processor.threads - 2 * third)
    own = BATCH * devices // (devices + 1)
    start = Assignment(training.platform.kinds, (0, *(BATCH for _ in range(devices))), 0, Threads(1, 1, 0))
    run = managed("fitted scaling", training, start.divided(own, 0, threads))
    return _mteps(still(training), run.current)


def _mteps(training: SimulatedTraining, assignment: Assignment) -> float:
    return training.run(Static(assignment, _BATCHES)).mteps(_FILL, _DRAIN)

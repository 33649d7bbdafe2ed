"""Random platforms that are simulated."""

from __future__ import annotations

import dataclasses

import numpy as np

from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedAccelerator, SimulatedModel
from a3gnn.sampling.counts import CountCurve
from benchmarks.hybrid.platform import SimulatedPlatform, SimulatedProcessor
from benchmarks.hybrid.simulated_training import SimulatedTraining

#: Seeds of a mini-batch, and fanouts (HyScale-GNN, section VI-A).
BATCH, FANOUTS = 1024, (25, 10)
_COUNTED = tuple(2**power for power in range(13))


def random_training(seed: int) -> SimulatedTraining:
    """Returns a model on a random platform: each constant log-uniform over what processors and accelerators have."""
    random = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    processor = SimulatedProcessor(
        threads=int(random.integers(4, 17)),
        flops_per_s=between(2e10, 1.5e11),
        load_bytes_per_s=between(2e9, 1.2e10),
        sampled_edges_per_s=between(1e7, 8e7),
        memory_bytes_per_s=between(2e10, 3e11),
        thread_loss=float(random.uniform(0.0, 0.03)),
        launch_s=between(5e-6, 5e-5),
    )
    accelerator = SimulatedAccelerator(
        flops_per_s=between(3e11, 2e13),
        memory_bytes_per_s=between(5e10, 1e12),
        memory_bytes=between(2e9, 3.2e10),
        link_bytes_per_s=between(3e9, 3e10),
        launch_s=between(3e-6, 3e-5),
        sampled_edges_per_s=between(3e7, 1e9) if random.random() < 0.5 else 0.0,
        samples_beside=bool(random.random() < 0.5),
        pipelined=bool(random.random() < 0.5),
        flush_s=between(1e-6, 3e-5),
    )
    devices = int(random.integers(1, 5))
    platform = SimulatedPlatform(
        processor, (accelerator,) * devices, sent_host_bytes=float(random.integers(0, 2)), jitter=0.02
    )
    widths = (int(between(32, 768)), int(random.choice([64, 128, 256])), int(random.integers(2, 173)))
    counts = CountCurve.expected(int(between(1e5, 1e8)), between(8, 60), FANOUTS, _COUNTED)
    return SimulatedTraining(platform, SimulatedModel(widths, bool(random.random() < 0.5)), counts, seed=seed)


def random_start(training: SimulatedTraining, seed: int) -> Assignment:
    """Returns a division that is as bad as chance makes it: every stage has work that can have some."""
    random = np.random.default_rng([seed, 1])
    platform = training.platform
    cuts = np.sort(random.choice(np.arange(1, platform.processor.threads), size=2, replace=False))
    threads = Threads(*(int(part) for part in np.diff([0, *cuts, platform.processor.threads])))
    sampled = int(random.integers(1, BATCH)) if platform.can_sample else 0
    own = int(random.integers(1, BATCH))
    shares = (own, *divide(BATCH - own, [1.0] * len(platform.accelerators)))
    return Assignment(platform.kinds, shares, sampled, threads)


def still(training: SimulatedTraining) -> SimulatedTraining:
    """Returns `training` without jitter, on which divisions are compared."""
    return dataclasses.replace(training, platform=dataclasses.replace(training.platform, jitter=0.0))

"""A small platform whose figures can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedAccelerator, SimulatedModel
from a3gnn.sampling.counts import CountCurve
from benchmarks.hybrid.platform import SimulatedPlatform, SimulatedProcessor
from benchmarks.hybrid.simulated_training import SimulatedTraining


@pytest.fixture
def counts() -> CountCurve:
    """Two hops without repeated nodes: per seed 10 and then 100 edges, 111 nodes."""
    seeds = np.array([1.0, 1024.0])
    nodes, edges = np.outer(seeds, [1.0, 11.0, 111.0]), np.outer(seeds, [10.0, 100.0])
    return CountCurve((1, 1024), nodes, edges)


@pytest.fixture
def platform() -> SimulatedPlatform:
    processor = SimulatedProcessor(
        threads=8,
        flops_per_s=2e10,
        load_bytes_per_s=4e9,
        sampled_edges_per_s=2e7,
        memory_bytes_per_s=1e12,
    )
    accelerator = SimulatedAccelerator(
        flops_per_s=1e12, memory_bytes_per_s=2e11, memory_bytes=1e9, link_bytes_per_s=1e10, sampled_edges_per_s=1e8
    )
    return SimulatedPlatform(processor, (accelerator,) * 2, sent_host_bytes=0.0)


@pytest.fixture
def training(platform: SimulatedPlatform, counts: CountCurve) -> SimulatedTraining:
    return SimulatedTraining(platform, SimulatedModel((100, 64, 10)), counts)


@pytest.fixture
def assignment(platform: SimulatedPlatform) -> Assignment:
    return Assignment(platform.kinds, (200, 412, 412), 0, Threads(2, 3, 3))

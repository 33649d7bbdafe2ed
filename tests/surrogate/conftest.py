"""A small physical simulator with factors that the analytic model does not know: ground truth for the surrogate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.measurement import Measurement, Metrics, StageSeconds, default_accuracy_epochs
from a3gnn.seeding import generator
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task

Simulate = Callable[[str, Sequence[TrainConfig]], list[Measurement]]

_SHAPES = {
    # name: nodes, mean degree, features, stored share, classes, train share, Gini, homophily
    "dense": (120_000, 60.0, 128, 1.0, 7, 0.5, 0.55, 0.55),
    "wide": (40_000, 30.0, 700, 1.0, 10, 0.3, 0.5, 0.78),
    "road": (300_000, 3.0, 40, 1.0, 10, 0.6, 0.15, 0.6),
    "words": (240_000, 4.0, 2_500, 0.01, 45, 0.5, 0.6, 0.7),
    "papers": (18_000, 9.0, 6_800, 0.01, 15, 0.3, 0.4, 0.8),
    "friends": (380_000, 75.0, 100, 1.0, 5, 0.5, 0.5, 0.5),
}


def _graph(name: str) -> GraphCharacteristics:
    nodes, degree, width, density, classes, train, gini, homophily = _SHAPES[name]
    row_bytes = 8 * width * density + 8 if density < 1 else 4.0 * width
    # Lorenz curve of a power law: the hottest share x takes x ** a of the entries, whose Gini is (1 - a) / (1 + a).
    exponent = (1 - gini) / (1 + gini)
    return GraphCharacteristics(
        name=name,
        fingerprint=f"fingerprint-{name}",
        num_nodes=nodes,
        num_edges=int(nodes * degree),
        mean_degree=degree,
        p95_degree=degree * (1 + 3 * gini),
        max_degree=int(degree * 100 * gini) + 5,
        degree_gini=gini,
        num_features=width,
        feature_density=density,
        feature_bytes=int(row_bytes * nodes),
        row_bytes=row_bytes,
        sparse_features=density < 1,
        num_classes=classes,
        num_train=int(train * nodes),
        num_val=nodes // 10,
        num_test=nodes // 10,
        label_rate=train,
        homophily=homophily,
        num_components=50,
        largest_component=0.98,
        cached_edge_mass=tuple(share**exponent for share in CACHE_FRACTIONS),
    )


def _machine(device: bool) -> Hardware:
    limits = MachineProfile(
        random_reads_per_s=65e6,
        copy_bytes_per_s=12e9,
        disk_read_bytes_per_s=2e9,
        gemm_flops_per_s=2e11,
        spmm_bytes_per_s=1e10,
        thread_efficiency=0.85,
        batch_overhead_s=0.002,
        idle_host_bytes=300 * 2**20,
        host_to_device_bytes_per_s=1.2e10 if device else 0.0,
        device_gemm_flops_per_s=1e13 if device else 0.0,
        idle_device_bytes=400 * 2**20 if device else 0,
    )
    names = ("accelerated", 16, 64 * 2**30, "accelerator", 1, 24 * 2**30) if device else ("laptop", 4, 2**34, "", 0, 0)
    return Hardware(*names, limits)


def _truth(config: TrainConfig, graph: GraphCharacteristics, machine: Hardware, noise: np.random.Generator) -> Metrics:
    """Returns what a trial would find: cost, memory and accuracy by rules of the simulator's own."""
    contention, allocator = generator(7, machine.cpu).uniform((0.1, 1.0), (0.3, 1.25))
    clustering, speed, fragility = generator(7, graph.name).uniform((0.85, 0.5, 0.5), (1.0, 1.6, 2.0))
    limits, width = machine.profile, graph.num_features
    seeds = min(config.batch_size, graph.num_train / config.num_partitions)
    local = config.num_partitions**-0.25
    p, g = float(graph.cached_mass(config.cache_bytes)), config.bias_rate
    hit = g**0.8 * p / (1 + p * (g**0.8 - 1))
    of_seeds, deep = config.fanouts(Task())
    first = seeds * min(graph.mean_degree * local, of_seeds) * 0.8
    second = first * min(graph.mean_degree * local, deep) * 0.9
    part = graph.num_nodes / config.num_partitions * (1 - 0.6 * (hit - p))
    nodes = part * (1 - math.exp(-((seeds + first + second) ** clustering) * part**-clustering))
    nodes = max(nodes, seeds)
    row = 8 * width * graph.feature_density if graph.sparse_features else 4.0 * width
    sample = (first + second + nodes) / limits.random_reads_per_s * (1.3 if g > 1 else 1.0) * speed
    missed = nodes * row * (1 - hit)
    slow = missed / limits.disk_read_bytes_per_s * speed if config.feature_tier == "disk" else 0.0
    gather = nodes * row / limits.copy_bytes_per_s * 1.4 + slow
    compute = max(limits.gemm_flops_per_s, limits.device_gemm_flops_per_s * 0.3)
    rate = limits.spmm_bytes_per_s * (12 if machine.has_device else 1)
    # A sparse row meets the weights row by row, and those stay in the processor's cache.
    sparse = nodes * width * graph.feature_density * 256 * 8 / (1.5 * rate)
    dense = (seeds + first) * 2 * 512 * 3 * width / compute
    train = (sparse if graph.sparse_features else dense) + second * 4 * min(width, 256) / rate
    train = train / speed + limits.batch_overhead_s * 1.5
    transfer = missed / limits.host_to_device_bytes_per_s if machine.has_device else 0.0
    workers = min(config.num_workers / (1 + contention * config.num_workers), machine.num_cores)
    workers = max(workers, 0.9)
    mode = config.parallel_mode
    tau = {
        "sequential": sample + gather + transfer + train,
        "mode1": max(train, (sample + gather + transfer) / workers) * (1 + contention),
        "mode2": max(gather + transfer + train, sample / workers) * (1 + contention / 2),
    }[mode]
    if not machine.has_device:
        tau = max(tau, train + (sample + gather + transfer) / machine.num_cores)
    epoch = graph.num_train / seeds * tau * math.exp(0.05 * noise.standard_normal()) + 0.005
    ready = {"sequential": 1.0, "mode1": config.num_workers + 0.5, "mode2": 1.2}[mode]
    activations = (seeds + first) * ((0 if graph.sparse_features else width) + 1024) * 8.0
    host = limits.idle_host_bytes * 1.1 + ready * nodes * (row + 16) * allocator + 5.0 * graph.num_nodes
    host += graph.feature_bytes / config.num_partitions**0.95 * (config.feature_tier == "ram")
    host += config.num_workers * 3e6
    host += 4.2 * graph.num_edges * (config.bias_rate > 1)
    device = 0.0
    if machine.has_device:
        device = limits.idle_device_bytes + config.cache_bytes + (nodes * row + activations) * allocator
    else:
        host += config.cache_bytes + activations * allocator
    skew = p * (1 - p) * (g - 1) / (1 + p * (g - 1))
    epochs = default_accuracy_epochs(graph)
    steps, default_steps = epochs * graph.num_train / seeds, epochs * max(graph.num_train / 1024, 1.0)
    together = {"metis": 0.8, "blocks": 0.5, "random": 0.0}[config.partitioner]
    drift = graph.homophily * together * (1 - 1 / config.num_partitions)
    drop = fragility * (0.03 * skew + 0.12 * drift + 0.15 * (steps**-0.5 - default_steps**-0.5))
    accuracy = 0.5 + 0.45 * graph.homophily - drop + 0.002 * noise.standard_normal()
    memory = math.exp(0.02 * noise.standard_normal())
    return Metrics(
        throughput_epochs_per_s=1 / epoch,
        peak_host_bytes=int(host * memory),
        peak_device_bytes=int(device * memory),
        resident_file_bytes=0,
        test_accuracy=accuracy,
        val_accuracy=accuracy,
        accuracy_epochs=epochs,
        timed_batches=20,
        batches_per_epoch=math.ceil(graph.num_train / seeds),
        epoch_overhead_s=0.005,
        stage_seconds=StageSeconds(sample, gather, transfer, train),
        cache_hit_rate=hit,
        cache_bytes=config.cache_bytes,
        input_nodes_per_batch=nodes,
        sampled_edges_per_batch=first + second,
    )


@pytest.fixture(scope="session")
def graphs() -> dict[str, GraphCharacteristics]:
    """Graphs of different kinds by name; `friends` is the one that a corpus leaves out."""
    return {name: _graph(name) for name in _SHAPES}


@pytest.fixture(scope="session")
def laptop() -> Hardware:
    return _machine(device=False)


@pytest.fixture(scope="session")
def accelerated() -> Hardware:
    return _machine(device=True)


@pytest.fixture(scope="session")
def simulate(graphs: dict[str, GraphCharacteristics], laptop: Hardware, accelerated: Hardware) -> Simulate:
    """Returns a function that measures configurations on a graph, on the laptop unless the name ends in `@device`."""

    def measure(name: str, configs: Sequence[TrainConfig]) -> list[Measurement]:
        graph, machine = graphs[name.removesuffix("@device")], accelerated if name.endswith("@device") else laptop
        noise = generator(11, name, len(configs))
        return [
            Measurement(
                config=config.canonical(),
                setting=Setting(Task(), graph, machine),
                outcome=_truth(config.canonical(), graph, machine, noise),
                accuracy_budget=5,
                seconds=3.0,
                version=1,
                created="2026-01-01T00:00:00Z",
            )
            for config in configs
        ]

    return measure


@pytest.fixture(scope="session")
def draw(
    graphs: dict[str, GraphCharacteristics], laptop: Hardware, accelerated: Hardware
) -> Callable[[str, int, int], list[TrainConfig]]:
    """Returns a function that gives the default configuration and draws others from the graph's space."""

    def configurations(name: str, count: int, seed: int) -> list[TrainConfig]:
        machine = accelerated if name.endswith("@device") else laptop
        space = SearchSpace.of(Setting(Task(), graphs[name.removesuffix("@device")], machine))
        return [TrainConfig(), *(space.decode(row) for row in space.sample(count - 1, seed))]

    return configurations


@pytest.fixture(scope="session")
def corpus(simulate: Simulate, draw: Callable[[str, int, int], list[TrainConfig]]) -> list[Measurement]:
    """Forty rows of each of five graphs on the laptop, and of two of them on the accelerated machine."""
    names = ("dense", "wide", "road", "words", "papers", "dense@device", "words@device")
    return [row for seed, name in enumerate(names) for row in simulate(name, draw(name, 40, seed))]

"""The performance model on simulated platforms: its constants, the division that it prefers, and its error.

The constants are the platform's data sheet, and what is measured on it.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedModel, sampled_bytes
from a3gnn.hybrid.performance import AcceleratorSpeeds, ModelShape, PerformanceModel, PlatformSpeeds
from a3gnn.hybrid.stage_times import PipelineStage
from a3gnn.layer_cost import COUNTED_PASSES, Passes
from a3gnn.sampling.counts import Counts
from benchmarks.hybrid.platform import loaded_bytes, sampling_on_accelerator, sampling_on_processor
from benchmarks.hybrid.random_platforms import BATCH, random_training, still
from benchmarks.hybrid.simulated_training import SimulatedTraining

#: Breaks ties between equally fast divisions: this share of the work in all stages is added.
_TIE = 1e-4


def initial_assignment(
    model: PerformanceModel,
    batch: int,
    *,
    parts: int = 64,
    sampled_parts: int = 8,
) -> Assignment:
    """Returns the fastest division on a grid, by `model`.

    Accelerators have equal shares and sample equally much; the processors have the rest.

    Args:
        model: The performance model.
        batch: Seeds of a mini-batch.
        parts: The processors' shares are multiples of 1 / `parts` of the batch.
        sampled_parts: Accelerators sample multiples of 1 / `sampled_parts` of the batch.

    Raises:
        UsageError: There are fewer than two threads, or fewer than three without accelerators.
    """
    devices = len(model.speeds.accelerators)
    least = 2 if devices else 3
    total = whole_number("threads", model.speeds.threads, least, "sampling, loading and trainers need one each")
    own = sorted({round(batch * part / parts) for part in range(parts + 1)}) if devices else [batch]
    shares = [(share, *divide(batch - share, [1.0] * devices)) for share in own]
    can_sample = model.speeds.accelerator_sampling is not None
    sampled = [round(batch * part / sampled_parts) for part in range(sampled_parts + 1)] if can_sample else [0]
    return _fastest(model, shares, sampled, total)


def _fastest(model: PerformanceModel, shares: list[tuple[int, ...]], sampled: list[int], total: int) -> Assignment:
    """Returns the fastest division. The arrays have the axes shares, sampled, threads."""
    threads = [
        Threads(one, two, rest) for one, two in product(range(1, total), repeat=2) if (rest := total - one - two) >= 0
    ]
    counts = range(total + 1)
    batch = sum(shares[0])
    of_threads = {name: [getattr(one, name) for one in threads] for name in ("sampling", "loading", "training")}

    def table(rows: list[list[float]], name: str) -> NDArray[np.float64]:
        return np.array(rows)[:, of_threads[name]]

    here = table([[model.sampling(batch - seeds, max(n, 1)) for n in counts] for seeds in sampled], "sampling")
    there = np.array([model.accelerator_sampling(seeds) for seeds in sampled])[:, None]
    loading = table([[model.loading(one, max(n, 1)) for n in counts] for one in shares], "loading")
    idle = [[np.inf if one[0] and not n else max(model.training(one, max(n, 1))) for n in counts] for one in shares]
    synchronized = np.array([model.synchronization(one) for one in shares])[:, None]
    transfer = np.array([max(model.transfer(one)) for one in shares])[:, None]
    stages: dict[PipelineStage, NDArray[np.float64]] = {
        "sampling": np.maximum(here, there)[None],
        "loading": loading[:, None],
        "transfer": np.broadcast_to(transfer, loading.shape)[:, None],
        "propagation": (table(idle, "training") + synchronized + model.speeds.overhead_s)[:, None],
    }
    memory = np.array([model.host_memory(one) for one in shares])[:, None, None]
    seconds = np.maximum(model.schedule.iteration_seconds(stages), memory)
    seconds = seconds + _TIE * np.add.reduce(np.broadcast_arrays(*stages.values()))
    share, sampling, place = np.unravel_index(int(np.argmin(seconds)), seconds.shape)
    return Assignment(model.speeds.kinds, shares[share], sampled[sampling], threads[place])


#: Of the rows that the probe of a real machine copies (`a3gnn/machine/host_constants.py`).
_FEATURES = 100

#: Times that sampling is measured, by seeds and threads.
_MEASURED = 3


def performance_model(
    training: SimulatedTraining, passes: Passes = COUNTED_PASSES, *, shares_memory: bool = True
) -> PerformanceModel:
    """Returns the performance model of what is simulated.

    Operations per second and the bandwidths of accelerators and links are the parts' own; those of loading are what
    comes of rows of 100 features, as in the probe of a real machine. Launches, flushed pipelines, activations, small
    matrix products and other rows are not in the model. As constants and counts are the simulator's own, only
    structural error shows: none of it comes of constants that were measured wrong.

    Args:
        training: What is simulated.
        passes: How often a step runs each layer.
        shares_memory: Whether the host's memory bounds the iteration; False is the paper's model.
    """
    platform, shape = training.platform, training.model
    processor = platform.processor
    # Of the bytes that are read, those of the row.
    useful = 4 * _FEATURES / loaded_bytes(SimulatedModel((_FEATURES, 1)), Counts((1.0, 1.0), (1.0,)))

    def sampling(seeds: int, threads: int) -> float:
        alone = sampling_on_processor(processor, threads, training.counts.at(seeds))
        return _measured(alone, platform.jitter, (training.seed, seeds, threads))

    def accelerator_sampling(seeds: int) -> float:
        counts = training.counts.at(seeds)
        sent = (sampled_bytes(counts) / one.link_bytes_per_s for one in platform.accelerators)
        alone = (sampling_on_accelerator(one, counts) for one in platform.accelerators)
        longest = max(map(sum, zip(alone, sent, strict=True)))
        return _measured(longest, platform.jitter, (training.seed, seeds))

    speeds = PlatformSpeeds(
        threads=processor.threads,
        speedup=processor.speed,
        host_bytes_per_s=useful * processor.memory_bytes_per_s,
        load_bytes_per_s=useful * processor.load_bytes_per_s,
        flops_per_s=processor.flops_per_s,
        memory_bytes_per_s=processor.load_bytes_per_s,
        accelerators=tuple(
            AcceleratorSpeeds(one.flops_per_s, one.memory_bytes_per_s, one.link_bytes_per_s, one.pipelined)
            for one in platform.accelerators
        ),
        sampling=sampling,
        accelerator_sampling=accelerator_sampling if platform.can_sample else None,
        sent_host_bytes=platform.sent_host_bytes if shares_memory else None,
    )
    name = "sage" if shape.concatenates else "gcn"
    return PerformanceModel(
        ModelShape(name, shape.widths, shape.fused_gather), training.counts, speeds, training.schedule, passes
    )


def _measured(seconds: float, jitter: float, key: tuple[int, ...]) -> float:
    """Returns the mean of a few measurements of what takes `seconds` without jitter; always the same for a key."""
    return seconds * float(
        np.exp(jitter * np.random.default_rng(key).standard_normal(_MEASURED) - jitter**2 / 2).mean()
    )


def model_error(seed: int, passes: Passes = COUNTED_PASSES, *, shares_memory: bool = True) -> float:
    """Returns predicted over simulated seconds of an iteration, less 1, of the model's division on a random platform.

    Args:
        seed: Of the platform.
        passes: How often a step runs each layer.
        shares_memory: Whether the model knows that the host's memory is shared; the paper's does not.
    """
    training = random_training(seed)
    model = performance_model(training, passes, shares_memory=shares_memory)
    assignment = initial_assignment(model, BATCH)
    predicted = model.predict(assignment).iteration
    assert predicted is not None
    return predicted / still(training).seconds_per_batch(assignment) - 1

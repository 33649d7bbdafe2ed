"""The performance model's constants of a simulated platform, and by how much the model misses what is simulated.

The constants are the platform's data sheet, and what is measured on it.
"""

from __future__ import annotations

import numpy as np

from a3gnn.hybrid.devices.simulated_accelerator import SimulatedModel, sampled_bytes
from a3gnn.hybrid.performance import AcceleratorSpeeds, ModelShape, PerformanceModel, PlatformSpeeds
from a3gnn.layer_cost import COUNTED_PASSES, Passes
from a3gnn.sampling.counts import Counts
from benchmarks.hybrid.first_division import initial_assignment
from benchmarks.hybrid.platform import loaded_bytes, sampling_on_accelerator, sampling_on_processor
from benchmarks.hybrid.platforms import BATCH, random_training, still
from benchmarks.hybrid.simulated_training import SimulatedTraining

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

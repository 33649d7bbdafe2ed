"""The first shares and threads: the division that the performance model predicts to be the fastest (section V)."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.hybrid.assignment import Assignment, Threads, divide
from a3gnn.hybrid.performance import PerformanceModel
from a3gnn.training.adapting.stage_times import PipelineStage

#: Breaks ties between equally fast divisions: this share of the work in all stages is added.
_TIE = 1e-4


def initial_assignment(
    model: PerformanceModel,
    batch: int,
    *,
    parts: int = 64,
    sampled_parts: int = 8,
    most_on_accelerators: int | None = None,
    train_on_processors: bool = True,
) -> Assignment:
    """Returns the fastest division on a grid, by `model`.

    Accelerators have equal shares and sample equally much; the processors have the rest.

    Args:
        model: The performance model.
        batch: Seeds of a mini-batch.
        parts: The processors' shares are multiples of 1 / `parts` of the batch.
        sampled_parts: Accelerators sample multiples of 1 / `sampled_parts` of the batch; 0 samples on processors alone.
        most_on_accelerators: Most seeds that fit into the accelerators' memory; None for no bound.
        train_on_processors: False gives all seeds to the accelerators, the usual mapping.

    Raises:
        UsageError: There are fewer than two threads, or fewer than three without accelerators.
    """
    devices = len(model.speeds.accelerators)
    least = 2 if devices else 3
    total = whole_number("threads", model.speeds.threads, least, "sampling, loading and trainers need one each")
    most = batch if most_on_accelerators is None else min(most_on_accelerators, batch)
    grid = {round(batch * part / parts) for part in range(parts + 1)} if devices else {batch}
    own = sorted({max(share, batch - most) for share in grid}) if train_on_processors else [0]
    shares = [(share, *divide(batch - share, [1.0] * devices)) for share in own]
    can_sample = model.speeds.accelerator_sampling is not None and sampled_parts > 0
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
    synchronised = np.array([model.synchronisation(one) for one in shares])[:, None]
    transfer = np.array([max(model.transfer(one)) for one in shares])[:, None]
    stages: dict[PipelineStage, NDArray[np.float64]] = {
        "sampling": np.maximum(here, there)[None],
        "loading": loading[:, None],
        "transfer": np.broadcast_to(transfer, loading.shape)[:, None],
        "propagation": (table(idle, "training") + synchronised + model.speeds.overhead_s)[:, None],
    }
    memory = np.array([model.host_memory(one) for one in shares])[:, None, None]
    seconds = np.maximum(model.schedule.iteration_seconds(stages), memory)
    seconds = seconds + _TIE * np.add.reduce(np.broadcast_arrays(*stages.values()))
    share, sampling, place = np.unravel_index(int(np.argmin(seconds)), seconds.shape)
    return Assignment(model.speeds.kinds, shares[share], sampled[sampling], threads[place])

"""What an iteration takes where several trainers compute on the processors, with threads of their own each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from a3gnn.errors import UsageError
from a3gnn.hybrid.model.performance import PerformanceModel
from a3gnn.training.adapting.stage_times import StageTimes, TrainerKind

#: Bytes of a float32.
_VALUE = 4.0


def predict_on_processors(
    model: PerformanceModel, shares: Sequence[int], threads: Sequence[int], *, sampling: int = 1, loading: int = 1
) -> StageTimes:
    """Returns the predicted seconds of each stage, and of the iteration (Eqs. 6, 7, 9 to 13).

    The paper has one trainer on the processors, whose gradients pass a link. Here nothing is sent, and gradients pass
    the host's memory, which is what Eq. 13's bandwidth then is.

    Args:
        model: Of the platform; its accelerators are left alone.
        shares: Seeds of each trainer.
        threads: Of each trainer.
        sampling: Threads that sample a mini-batch.
        loading: Threads that load one.

    Raises:
        UsageError: There are not as many threads as shares.
    """
    if len(shares) != len(threads) or not shares:
        raise UsageError(f"threads must be one number per share, got {tuple(threads)} for shares {tuple(shares)}")
    model = dataclasses.replace(model, speeds=dataclasses.replace(model.speeds, accelerators=()))
    processor: TrainerKind = "processor"
    sums = sum(share > 0 for share in shares) > 1
    times = StageTimes(
        (processor,) * len(shares),
        model.sampling(sum(shares), sampling),
        0.0,
        model.loading(tuple(shares), loading),
        (0.0,) * len(shares),
        tuple(model.training((share,), own)[0] for share, own in zip(shares, threads, strict=True)),
        2 * _VALUE * model.shape.parameters / model.speeds.host_bytes_per_s if sums else 0.0,
    )
    memory = sum(model.host_memory((share,)) for share in shares)
    return times.with_iteration(max(model.iteration(times), memory))


def calibrated(model: PerformanceModel, predicted: StageTimes, measured: StageTimes) -> PerformanceModel:
    """Returns `model` with the constants of each stage scaled by what one measured run took over `predicted`.

    Sampling and loading are scaled each for itself, arithmetic and aggregation together, by the slowest trainer. The
    overhead is what the measured iteration took beyond its stages, if anything. Links and synchronisation stay as they
    are.

    Raises:
        UsageError: Sampling, loading or training of one of them takes no time.
    """

    def parts(times: StageTimes) -> tuple[float, float, float]:
        return times.by_stage["sampling"], times.loading, max(times.training)

    before, after = parts(predicted), parts(measured)
    if min(*before, *after) <= 0:
        raise UsageError(f"sampling, loading and training must take time, got {after} s, predicted as {before} s")
    sampling, loading, training = (own / expected for own, expected in zip(after, before, strict=True))
    speeds, sampled, summed = model.speeds, model.speeds.sampling, model.speeds.fused_bytes_per_s
    overhead = speeds.overhead_s
    if measured.iteration is not None:
        overhead = max(0.0, measured.iteration - float(model.schedule.iteration_seconds(measured.by_stage)))
    changed = dataclasses.replace(
        speeds,
        sampling=lambda seeds, threads: sampling * sampled(seeds, threads),
        # What bounds all threads together gives way where one stage alone was faster than it allows.
        host_bytes_per_s=speeds.host_bytes_per_s / min(1.0, loading, training),
        load_bytes_per_s=speeds.load_bytes_per_s / loading,
        flops_per_s=speeds.flops_per_s / training,
        memory_bytes_per_s=speeds.memory_bytes_per_s / training,
        fused_bytes_per_s=None if summed is None else summed / loading,
        overhead_s=overhead,
    )
    return dataclasses.replace(model, speeds=changed)

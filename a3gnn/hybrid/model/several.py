"""Shares to begin with among trainers that have devices and threads already: the fastest by the performance model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from a3gnn.hybrid.assignment import divide, trainer_kinds
from a3gnn.hybrid.model.performance import PerformanceModel
from a3gnn.training.adapting.stage_times import StageTimes


class Division(NamedTuple):
    """Shares and what they are predicted to take.

    Attributes:
        shares: Seeds of each trainer on the processors, then of each accelerator.
        times: Predicted.
    """

    shares: tuple[int, ...]
    times: StageTimes


def fastest_division(
    model: PerformanceModel,
    batch: int,
    threads: Sequence[int],
    *,
    ahead: int = 1,
    fits: Callable[[int], bool] = lambda share: True,
    parts: int = 64,
) -> Division:
    """Returns the fastest division of `batch` seeds by `model`, which may leave processors or accelerators out.

    Trainers of a kind have equal shares. Of equally fast divisions it is the one with the fewest seeds on processors.

    Args:
        model: Of the platform, with its accelerators.
        batch: Seeds.
        threads: Of each trainer on the processors.
        ahead: Threads that sample, and that load.
        fits: Whether an accelerator can hold so many seeds.
        parts: The processors' shares are multiples of 1 / `parts` of the batch.
    """
    found = (
        _predicted(model, shares, threads, ahead) for shares in _divisions(model, batch, len(threads), fits, parts)
    )
    return min(found, key=lambda one: one.times.iteration or 0.0)


def _divisions(
    model: PerformanceModel, batch: int, processors: int, fits: Callable[[int], bool], parts: int
) -> Iterator[tuple[int, ...]]:
    accelerators = len(model.speeds.accelerators)
    for own in sorted({round(batch * part / parts) for part in range(parts + 1)}):
        there = divide(batch - own, [1.0] * accelerators)
        if own == batch or fits(max(there)):
            yield (*divide(own, [1.0] * processors), *there)


def _predicted(model: PerformanceModel, shares: tuple[int, ...], threads: Sequence[int], ahead: int) -> Division:
    here, there = shares[: len(threads)], shares[len(threads) :]
    nobody = (0,) * len(there)
    processors, accelerators = trainer_kinds(1)[:1] * len(here), trainer_kinds(len(there))[1:]
    times = StageTimes(
        processors + accelerators,
        model.sampling(sum(shares), ahead),
        0.0,
        model.loading(shares, ahead),
        (0.0,) * len(here) + model.transfer((0, *there))[1:],
        (
            *(model.training((share, *nobody), own)[0] for share, own in zip(here, threads, strict=True)),
            *model.training((0, *there), 1)[1:],
        ),
        model.synchronisation((sum(here), *there)),
    )
    memory = model.host_memory((0, *there)) + sum(model.host_memory((share, *nobody)) for share in here)
    return Division(shares, times.with_iteration(max(model.iteration(times), memory)))

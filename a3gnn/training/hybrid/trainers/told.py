"""`Told`, `times_of`: what several trainers say of themselves, and of a mini-batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from a3gnn.measurement import StageSeconds
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.runtime.repeated import RepeatedWork, repeated_work
from a3gnn.training.hybrid.devices.device import Device
from a3gnn.training.hybrid.schedule import Schedule
from a3gnn.training.hybrid.stage_times import StageTimes
from a3gnn.training.step import TrainerStep

#: Mini-batches that are sampled once more, to know what work is repeated. Guess.
_SAMPLED_AGAIN = 4


class Told:
    """Tells of trainers, and of what their shares repeat, which is counted once for the same ones.

    Args:
        devices: Theirs.
        pipeline: Samples.
        prefetch: How far each stage is ahead of the next; None where mode and workers say it.
        independent: Whether each share is sampled for itself.
    """

    def __init__(
        self, devices: Sequence[Device], pipeline: Pipeline, prefetch: Schedule | None, *, independent: bool
    ) -> None:
        self._devices, self._pipeline, self._prefetch, self._independent = devices, pipeline, prefetch, independent
        self._repeated: dict[tuple[int, ...], RepeatedWork] = {}

    def of(self, shares: tuple[int, ...]) -> dict[str, Any]:
        """Returns names, kinds and shares, how mini-batches are sampled, how far ahead, and what work is repeated."""
        if shares not in self._repeated:
            first, sampler = self._pipeline.plan(0)[:_SAMPLED_AGAIN], self._pipeline.sampler
            self._repeated[shares] = repeated_work(sampler, first, shares, independent=self._independent)
        return {
            "names": [device.name for device in self._devices],
            "kinds": [device.kind for device in self._devices],
            "shares": list(shares),
            "sampling": "independent" if self._independent else "whole",
            "prefetch": None if self._prefetch is None else list(self._prefetch.depths),
            "repeated_work": dataclasses.asdict(self._repeated[shares]),
        }


def times_of(
    devices: Sequence[Device],
    seconds: StageSeconds,
    work: Sequence[TrainerStep],
    synchronisation_s: float,
    schedule: Schedule,
    passed_s: float,
) -> StageTimes:
    """Returns the seconds of a mini-batch's stages.

    Args:
        devices: Of the trainers.
        seconds: Of what was done for all of them.
        work: Of each.
        synchronisation_s: Of sums.
        schedule: Which stages overlap.
        passed_s: From the mini-batch before to this one. A simulated accelerator's seconds don't pass here: with one,
            an iteration takes what its stages come to (Eq. 6).
    """
    sent, trained = (tuple(getattr(one, name) for one in work) for name in ("transfer_s", "train_s"))
    kinds = tuple(device.kind for device in devices)
    times = StageTimes(kinds, seconds.sample, 0.0, seconds.gather, sent, trained, synchronisation_s)
    simulated = any(device.is_simulated for device in devices)
    return times.with_iteration(schedule.iteration_seconds(times.by_stage) if simulated else passed_s)

"""How fast the machine runs while a tune goes on, by timings of one configuration, and how trials are judged by that.

Drift is the speed at which the machine runs, over that at which it ran when the reference was measured: other tenants
of a host make it half as fast within minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from a3gnn.errors import UsageError
from a3gnn.measurement import Metrics, StageSeconds

#: Trials after which the reference is timed once more. Guess.
TRIALS_BETWEEN = 4


@dataclass(frozen=True, slots=True)
class SpeedTiming:
    """A timing of the reference's configuration.

    Attributes:
        created: When it began, ISO 8601, UTC.
        drift: The machine's speed then, over that at which the reference was measured.

    Raises:
        UsageError: One of them is no time or no ratio of speeds.
    """

    created: str
    drift: float

    def __post_init__(self) -> None:
        check_drift(self.drift)
        _seconds(self.created)


def check_drift(drift: float) -> None:
    """Raises a `UsageError` where `drift` is no ratio of two speeds."""
    if not (math.isfinite(drift) and drift > 0):
        raise UsageError(f"drift must be finite and > 0, got {drift}; 1 is a machine at the reference's speed")


def differs(drift: float) -> bool:
    """Whether `drift` is another than 1 as people are told it, by two digits."""
    return f"{drift:.2g}" != "1"


def drift_at(created: str, timings: Sequence[SpeedTiming]) -> float | None:
    """Returns the machine's drift at the time `created`, ISO 8601; None before the first of `timings`.

    Between two timings the drift's logarithm is interpolated in time. After the last one, that one's drift holds until
    there is another. A simulated load of 25 % is corrected with a root mean square error of 0.11 to 0.31, and of 0.16
    to 0.35 by the timing before a trial alone, with correlation times of one minute to two seconds (tests/tuning).
    """
    if not timings or _seconds(created) < _seconds(timings[0].created):
        return None
    times = [_seconds(one.created) for one in timings]
    return float(np.exp(np.interp(_seconds(created), times, np.log([one.drift for one in timings]))))


def at_reference_pace(metrics: Metrics, drift: float) -> Metrics:
    """Returns what would have been measured instead of `metrics` at the speed that the reference was measured at.

    That is epochs per second over `drift`, and the seconds of the set-up, of stages and of an epoch's overhead times
    it. What the trial itself cost, the seconds of its curve, is left as it was.
    """
    if drift == 1:
        return metrics
    stages = dataclasses.asdict(metrics.stage_seconds)
    return dataclasses.replace(
        metrics,
        throughput_epochs_per_s=metrics.throughput_epochs_per_s / drift,
        throughput_replicates=tuple(one / drift for one in metrics.throughput_replicates),
        setup_seconds=metrics.setup_seconds * drift,
        epoch_overhead_s=metrics.epoch_overhead_s * drift,
        stage_seconds=StageSeconds(**{name: seconds * drift for name, seconds in stages.items()}),
    )


def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError as error:
        raise UsageError(f"created must be a time in ISO 8601, got {created!r}") from error

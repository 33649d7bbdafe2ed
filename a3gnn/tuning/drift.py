"""How a machine's drift is told from two measurements of one configuration, and taken out of others.

Drift is the speed at which the machine runs now, over that at which it ran when the reference was measured: other
tenants of a host make it half as fast within minutes.
"""

from __future__ import annotations

import dataclasses

from a3gnn.measurement import Metrics, StageSeconds

#: Trials after which a machine's drift is measured once more. Guess.
TRIALS_BETWEEN = 4


def drift_since(before: Metrics, now: Metrics) -> float:
    """Returns the throughput `now` over that `before`, both of one configuration.

    1 where the ranges of their replicates overlap: such a difference may be the windows' own noise, which a ratio of
    two medians would add to every trial that is judged by it.
    """
    old, new = (one.throughput_replicates or (one.throughput_epochs_per_s,) for one in (before, now))
    if min(new) <= max(old) and min(old) <= max(new):
        return 1.0
    return now.throughput_epochs_per_s / before.throughput_epochs_per_s


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

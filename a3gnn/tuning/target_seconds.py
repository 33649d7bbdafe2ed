"""The seconds to the target, with the range that the timed trials of a configuration give them."""

from __future__ import annotations

from a3gnn.learning_curve import Pace
from a3gnn.measurement import Metrics
from a3gnn.spread import Spread


def seconds_to_target(metrics: Metrics, target: float | None) -> Spread | None:
    """Returns the seconds after which the curve of `metrics` reaches `target`, at the pace of each timed replicate.

    None without a target, and where it is not reached.
    """
    reached = None if metrics.curve is None or target is None else metrics.curve.first_reaching(target)
    if reached is None:
        return None
    per_epoch = metrics.batches_per_epoch
    paces = (Pace(metrics.setup_seconds, epochs * per_epoch) for epochs in metrics.throughput_replicates)
    return Spread.of(pace.seconds(reached) for pace in paces) or Spread.of([metrics.pace.seconds(reached)])

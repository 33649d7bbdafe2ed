"""Noise of a machine's throughputs, from the replicates of its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from a3gnn.measurement import Measurement

#: Degrees of freedom that the prior's variance counts as. Guess: that of five trials of three windows.
_PRIOR_DEGREES = 10.0


def throughput_noise(measurements: Sequence[Measurement], prior: float) -> Mapping[str, float]:
    """Returns the relative standard deviation of one trial's throughput, by the machine's fingerprint.

    The variance of the logarithms of a trial's replicates, pooled over a machine's trials and with the prior's, which
    leads while replicates are few. A trial's throughput is the median of its windows; what disturbs a machine outlasts
    a window, so the median is not taken to scatter less than a window does.

    Args:
        measurements: Of any machines; those without a trial of several replicates are left out.
        prior: Relative standard deviation of one trial's throughput where nothing is known.
    """
    squares: dict[str, float] = {}
    degrees: dict[str, int] = {}
    for row in measurements:
        if row.metrics is None or len(row.metrics.throughput_replicates) < 2:
            continue
        machine, logs = row.setting.hardware.fingerprint, np.log(row.metrics.throughput_replicates)
        squares[machine] = squares.get(machine, 0.0) + float(np.sum((logs - logs.mean()) ** 2))
        degrees[machine] = degrees.get(machine, 0) + len(logs) - 1
    return {
        machine: float(np.sqrt((_PRIOR_DEGREES * prior**2 + squares[machine]) / (_PRIOR_DEGREES + degrees[machine])))
        for machine in squares
    }

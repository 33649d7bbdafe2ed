"""How a learning curve that was ended early would have gone on: as the default's does, only slower or faster.

What takes n mini-batches to an accuracy that the default reaches after m is taken to learn n / m as fast all the way.
`python -m benchmarks.unfinished_curves` at commit 10d4978 measured that on the shipped rows. Cut at half their
mini-batches to the target, curves are told with a mean error of 23 % and no bias; of those that miss the target 64 %
are told to, and 2.9 points too much are expected of their accuracy, for they level off lower.
"""

from __future__ import annotations

import numpy as np

from a3gnn.learning_curve import LearningCurve, next_point
from a3gnn_surrogate.columns import Array


def expected_batches(curve: LearningCurve, default: LearningCurve, target: float) -> float:
    """Returns the mini-batches after which `curve` is expected to reach `target`, which it has not.

    Args:
        curve: What was trained; it has points.
        default: The default configuration's, of the same task; it has points, and reaches `target`.
        target: Validation accuracy, in [0, 1].

    Returns:
        No less than those of the next point. Infinite where nothing is learnt yet.
    """
    alike = _reaching(default, max(curve.val_accuracy))
    least = next_point(curve.trained, curve.batches[0])
    return max(curve.trained * _reaching(default, target) / alike, least) if alike > 0 else float("inf")


def expected_accuracy(curve: LearningCurve, default: LearningCurve, batches: float) -> float:
    """Returns the best validation accuracy in [0, 1] that `curve` is expected to have after `batches` mini-batches.

    No less than it has, and no more than what the default's curve reached, where that is more.

    Args:
        curve: As in `expected_batches`.
        default: As there.
        batches: No fewer than `curve` was trained.
    """
    best = max(curve.val_accuracy)
    if best >= max(default.val_accuracy):
        return best
    counts, rising = _rising(default)
    return max(best, float(np.interp(_reaching(default, best) * batches / curve.trained, counts, rising)))


def _reaching(curve: LearningCurve, accuracy: float) -> float:
    """Returns the mini-batches after which `curve` reaches `accuracy`, on straight lines through its best so far."""
    counts, rising = _rising(curve)
    after = int(np.searchsorted(rising, accuracy))
    if after == 0:
        return 0.0
    if after == len(rising):
        return float(counts[-1])
    share = (accuracy - rising[after - 1]) / (rising[after] - rising[after - 1])
    return float(counts[after - 1] + share * (counts[after] - counts[after - 1]))


def _rising(curve: LearningCurve) -> tuple[Array, Array]:
    """Returns the counts of mini-batches from 0 on, and the best quality up to each, from 0, float64, (points + 1,)."""
    return np.array([0.0, *curve.batches]), np.maximum.accumulate([0.0, *curve.running_best()])

"""Learning curves for tests that only need one."""

from __future__ import annotations

from a3gnn.learning_curve import CurveEnd, LearningCurve


def rising_curve(accuracy: float, points: int = 10, first: int = 10) -> LearningCurve:
    """Returns a curve that rises to `accuracy` over two thirds of its points, and stays there; at most 17 points."""
    counts = tuple(first * (point + 1) for point in range(points))
    rising = -(-2 * points // 3)
    return LearningCurve(
        counts, tuple(accuracy * min(1.0, (point + 1) / rising) for point in range(points)), CurveEnd.BUDGET
    )

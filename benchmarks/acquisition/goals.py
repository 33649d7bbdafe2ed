"""What a rule comes to on a measured grid, in the figures by which acquisitions are judged."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn_envs.acquisition.studies import Studies
from a3gnn_envs.acquisition.world import Floats, World
from benchmarks.acquisition.compare import Rule, follow
from benchmarks.acquisition.replays import Grid

#: How close to the best counts as there: 5 % of the score.
_CLOSE = np.log2(1.05)
#: Standard deviation of the median of many normal values beside that of their mean.
_MEDIAN = np.sqrt(np.pi / 2)


class Goals(NamedTuple):
    """Figures of replays, float64, shape (n,) each.

    Attributes:
        regret: Share of the best score that the choice at the end of the budget loses; 0 where that is within the noise
            of the two configurations' measurements.
        close_s: Seconds of trials until the choice would come within 5 % of the best, over those of a whole trial; the
            whole budget where that never happens.
        came_close: 1 where it happens, else 0.
        broken: Share of the seconds that went to trials which failed, or of what breaks a limit as measured.
    """

    regret: Floats
    close_s: Floats
    came_close: Floats
    broken: Floats

    @classmethod
    def joined(cls, parts: list[Goals]) -> Self:
        """Returns the figures of all replays together."""
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def goals(rule: Rule, grid: Grid, worlds: list[World]) -> Goals:
    """Returns what `rule` comes to in `worlds`, which are of the whole of `grid` in its order."""
    studies = Studies(World.stack(worlds, len(grid.configs)))
    kept, true = studies.keeps_truly(), studies.true_score()
    best = np.where(kept, true, -np.inf).max(axis=1)
    breaks = ~studies.keeps_limits(studies.world.measured) | studies.world.crashes
    at = np.arange(len(worlds))
    broken_s, close_s = np.zeros(len(worlds)), np.where(_is_close(studies, best), 0.0, np.inf)
    for step in follow(rule, studies):
        broken_s += np.where(breaks[at, step.candidate], step.seconds, 0.0)
        close_s = np.where(np.isinf(close_s) & _is_close(studies, best), studies.spent_s, close_s)
    whole_s, budget_s = studies.world.start_s + studies.world.curve_s, studies.world.budget_s
    lost = np.where(
        np.isfinite(best), best - studies.objective(), 0.0
    )  # nothing to lose where nothing keeps the limits
    lost = np.where(lost <= _noise(studies, grid, best), 0.0, lost)
    return Goals(
        regret=1 - np.exp2(-lost),
        close_s=np.minimum(close_s, budget_s) / whole_s,
        came_close=np.isfinite(close_s).astype(np.float64),
        broken=broken_s / np.maximum(studies.spent_s, 1e-9),
    )


def _is_close(studies: Studies, best: Floats) -> NDArray[np.bool_]:
    return np.asarray(best - studies.objective() <= _CLOSE)


def _noise(studies: Studies, grid: Grid, best: Floats) -> Floats:
    """Returns the standard deviation of the difference of the choice's and the best's true scores, shape (n,).

    Both are medians of replicates, whose variance is pooled over the grid.
    """
    counts = np.array([found.shape[1] for found in grid.replicates])
    squares = sum(
        ((found - found.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for found in grid.replicates if found.shape[1]
    )
    degrees = np.maximum(counts - 1, 0).sum()
    variance = np.asarray(squares) / max(degrees, 1)
    weights, true = studies.world.weights, studies.true_score()
    total = np.zeros(len(best))
    for score in (best, studies.objective()):
        count = np.maximum(counts[np.abs(true - score[:, None]).argmin(axis=1)], 1)
        total += (weights**2 @ variance) * np.where(count > 1, _MEDIAN**2, 1.0) / count
    return np.sqrt(total)

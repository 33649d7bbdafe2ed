"""`World`: one tuning problem as arrays: true costs, beliefs, and the results and seconds of trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.objectives import Priority

Floats = NDArray[np.float64]

#: The costs of a configuration, all to be minimized: -log2 of epochs per second; log2 of peak bytes; -validation
#: accuracy within the default's budget; log2 of the epochs to the target less log2 of that budget's seconds. So
#: SPEED + WORK is log2 of the share of the default's budget after which the target is reached.
SPEED, MEMORY, ACCURACY, WORK = range(4)
NUM_COSTS = 4
#: Number of an array's last axes that are over the candidates, for arrays that have any.
_AXES = {
    **dict.fromkeys(("present", "mean", "truth", "measured", "play_off", "early", "crashes", "keys"), 1),
    "covariance": 2,
}


@dataclass(frozen=True, slots=True)
class World:
    """A tuning problem over K candidates, of which the first is the default configuration.

    Costs are those above. Worlds that are stacked have a leading axis of studies in every array.

    Attributes:
        present: Which candidates exist; the others are padding, bool, shape (K,).
        weights: Doublings of the score that a unit of each cost takes off, float64, shape (4,).
        limits: Largest allowed costs, infinite without a limit, float64, shape (4,).
        mean: Costs as believed before anything is measured, float64, shape (4, K).
        covariance: Covariance of these beliefs over the candidates, per cost, float64, shape (4, K, K).
        noise: Standard deviations of a trial's costs around the true ones, as believed, > 0, float64, shape (4,).
        truth: True costs, float64, shape (4, K).
        measured: Costs that a trial finds, float64, shape (4, K).
        play_off: Costs that the play-off finds, float64, shape (4, K).
        early: The cost ACCURACY after a quarter of the curve, at least that of `measured`; NaN where no point of the
            curve lies there, float64, shape (K,).
        rise: Believed fall of ACCURACY from there to the curve's end, float64, shape ().
        rise_deviation: Standard deviation of `rise`, float64, shape ().
        crashes: Which candidates' trials fail whatever the limits, bool, shape (K,).
        keys: Equal numbers for candidates that train bit-identically and share a curve, int64, shape (K,).
        start_s: Seconds of a trial without its curve, float64, shape ().
        curve_s: Seconds of a whole curve, its evaluation counted, float64, shape ().
        budget_s: Seconds of trials that the study may take besides the default's, float64, shape ().
        ends_at_target: Whether a curve ends where it reaches the limit on ACCURACY, bool, shape ().
    """

    present: NDArray[np.bool_]
    weights: Floats
    limits: Floats
    mean: Floats
    covariance: Floats
    noise: Floats
    truth: Floats
    measured: Floats
    play_off: Floats
    early: Floats
    rise: Floats
    rise_deviation: Floats
    crashes: NDArray[np.bool_]
    keys: NDArray[np.int64]
    start_s: Floats
    curve_s: Floats
    budget_s: Floats
    ends_at_target: NDArray[np.bool_]

    def padded(self, num_candidates: int) -> Self:
        """Returns the world padded to `num_candidates`; the added candidates are not present.

        Raises:
            UsageError: It has more candidates.
        """
        more = num_candidates - len(self.present)
        if more < 0:
            raise UsageError(
                f"a world must have at most {num_candidates} candidates, got {len(self.present)}; draw fewer, "
                "or make room for more"
            )
        return dataclasses.replace(self, **{name: _filled(self, name, axes, more) for name, axes in _AXES.items()})

    @classmethod
    def stack(cls, worlds: Sequence[World], num_candidates: int) -> Self:
        """Returns `worlds` as one, each filled up to `num_candidates`; its arrays are new and may be written to."""
        filled = [world.padded(num_candidates) for world in worlds]
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: np.stack([getattr(world, name) for world in filled]) for name in names})


def _filled(world: World, name: str, axes: int, more: int) -> NDArray[Any]:
    array: NDArray[Any] = getattr(world, name)
    return np.pad(array, [*[(0, 0)] * (array.ndim - axes), *[(0, more)] * axes])


class Worlds(Protocol):
    """A source of worlds."""

    def draw(self, random: np.random.Generator) -> World:
        """Returns a world, decided by `random`."""
        ...


def score_weights(priority: Priority) -> Floats:
    """Returns the `weights` of a world with this `priority`, float64, shape (4,).

    Accuracy weighs nothing if it is only a limit. The epochs to the target weigh as much as speed if speed means the
    seconds to it, and nothing otherwise.
    """
    speed, memory, accuracy = (float(-priority.score(unit[None])[0]) for unit in np.eye(3))
    return np.array([speed, memory, accuracy * priority.accuracy_counts, speed * priority.time])

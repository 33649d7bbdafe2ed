"""`Scaling`: how a stage's seconds grow with its seeds and fall with its threads, fitted to what was measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

#: Before anything is known, seconds are proportional to seeds and to one over threads, and other stages don't matter;
#: the standard deviations of these exponents, and of the logarithm of measured seconds. Guesses.
_EXPECTED, _SPREAD, _NOISE = np.array([1.0, -1.0, 0.0]), np.array([0.3, 0.3, 0.5]), 0.03
#: Where the exponents may be: no stage gets slower with fewer seeds, more threads, or less beside it.
_LOW, _HIGH = np.array([0.0, -1.2, 0.0]), np.array([1.2, 0.0, 3.0])


class Scaling:
    """Fits log seconds = a + b log seeds + c log threads + d beside by ridge regression towards b, c, d = 1, -1, 0.

    `beside` is what another stage that shares a resource has, as a share of the mini-batch: trainers on processors
    beside loading, which share the host's memory; sampling on accelerators beside training on them.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, float, float]] = []
        self._level, self._exponents = 0.0, _EXPECTED

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._rows)

    def add(self, seeds: float, threads: float, beside: float, seconds: float) -> None:
        """Takes a measurement: seconds of so many seeds (> 0) on so many threads (> 0; 1 where they don't matter)."""
        self._rows.append((np.log(seeds), np.log(threads), beside, np.log(seconds)))
        table = np.array(self._rows)
        inputs, outputs = table[:, :3], table[:, 3]
        mean_in, mean_out = inputs.mean(axis=0), outputs.mean()
        centred = inputs - mean_in
        left = outputs - mean_out - centred @ _EXPECTED
        precision = centred.T @ centred / _NOISE**2 + np.diag(1 / _SPREAD**2)
        found = _EXPECTED + np.linalg.solve(precision, centred.T @ left / _NOISE**2)
        self._exponents = np.clip(found, _LOW, _HIGH)
        self._level = float(mean_out - mean_in @ self._exponents)

    def seconds(self, seeds: Values, threads: Values, beside: Values) -> Values:
        """Returns the expected seconds, float64, of the shape that all broadcast to; 0 without seeds."""
        logs = np.log(np.maximum(seeds, 1e-9)), np.log(np.maximum(threads, 1e-9))
        by_seeds, by_threads, by_others = self._exponents
        found = np.exp(self._level + by_seeds * logs[0] + by_threads * logs[1] + by_others * beside)
        return np.where(seeds > 0, found, 0.0)

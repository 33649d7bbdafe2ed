"""Length scales, fitted to errors that were drawn with known ones."""

from __future__ import annotations

import numpy as np

from a3gnn_surrogate.features import POINT_NAMES, SHARED_SCALES
from a3gnn_surrogate.local import rbf_kernel
from a3gnn_surrogate.rows import THROUGHPUT
from benchmarks.length_scales import Errors, densities, fit


def test_an_input_that_matters_has_a_shorter_scale_and_held_out_errors_are_likelier() -> None:
    random, scales = np.random.default_rng(0), np.full(len(POINT_NAMES), 2.0)
    seeds, cache = (POINT_NAMES.index(name) for name in ("seeds", "cache"))
    scales[[seeds, cache]] = 0.7, 20.0
    points = np.zeros((40, 12, len(POINT_NAMES)))
    points[:, :, [seeds, cache]] = random.uniform(0, 3, size=(40, 12, 2))
    errors = [
        random.multivariate_normal(np.zeros(12), rbf_kernel(own / scales, own / scales) + 0.1 * np.eye(12))
        for own in points
    ]
    names = np.repeat([f"graph {number:02}" for number in range(40)], 12)
    every = Errors(THROUGHPUT, np.concatenate(errors), points.reshape(-1, len(POINT_NAMES)), names, names)
    first = names < "graph 20"
    found = fit([every.take(first)])
    assert 0.4 < found[seeds] < 1.2
    assert found[cache] > 4
    unvaried = [POINT_NAMES.index(names[0]) for names, _ in SHARED_SCALES if names[0] not in ("seeds", "cache")]
    np.testing.assert_allclose(found[unvaried], 2.0, rtol=1e-3)
    guess = np.full(len(POINT_NAMES), 2.0)
    fitted, judged = every.take(first), every.take(~first)
    assert densities(fitted, judged, found).sum() > densities(fitted, judged, guess).sum()

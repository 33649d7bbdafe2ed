"""Errors on held-out rows in standard deviations: given a trial of the default, and beside the default."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn_surrogate.corrections import one_per_curve
from a3gnn_surrogate.features import POINT_NAMES
from a3gnn_surrogate.local import (
    KindFactors,
    VarianceComponents,
    rbf_kernel,
    scores_beside_default,
    scores_given_default,
)
from a3gnn_surrogate.residual import variance_components
from a3gnn_surrogate.rows import EPOCHS, OUTPUTS, THROUGHPUT, RowSource

VARIANCES = VarianceComponents(between_settings=0.5, within_setting=0.09, noise=0.01)


@pytest.fixture(scope="module")
def rows(corpus):
    """Two settings, the first of which has its default three times."""
    settings = {row.setting.graph.name: [] for row in corpus}
    for row in corpus:
        settings[row.setting.graph.name].append(row)
    first, second = list(settings.values())[:2]
    same = [row for row in first if row.setting.key() == first[0].setting.key()][:8]
    other = [row for row in second if row.setting.key() == second[0].setting.key()][:8]
    return RowSource([same[0], *same, same[0], *other]).rows()


def test_a_level_that_is_wrong_for_all_is_in_no_score(rows) -> None:
    errors = np.random.default_rng(0).normal(size=len(rows))
    levels = errors + 3 * (rows.settings == rows.settings[0])
    before, after = (scores_beside_default(one, rows, VARIANCES, THROUGHPUT) for one in (errors, levels))
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_one_disturbed_trial_of_the_default_changes_no_score_beside_it(rows) -> None:
    errors = np.full(len(rows), 0.2)
    errors[0] -= 2.0
    beside, given = (
        scored(errors, rows, VARIANCES, THROUGHPUT) for scored in (scores_beside_default, scores_given_default)
    )
    own = (rows.settings == rows.settings[0]) & np.isfinite(beside)
    assert own.sum() == 7
    np.testing.assert_allclose(beside[own], 0.0, atol=1e-12)
    assert (np.abs(given[own]) > 3).all()


def test_the_default_itself_has_no_score(rows) -> None:
    beside = scores_beside_default(np.ones(len(rows)), rows, VARIANCES, THROUGHPUT)
    assert np.isnan(beside[[0, 1, 9]]).all()
    assert np.isnan(beside).sum() == 4


def test_kinds_are_scaled_by_their_own_errors(rows) -> None:
    points = np.repeat(rows.points[:2], 20, axis=0)
    points[:, 1] = np.repeat([0.0, 1.0], 20)  # parts
    scores = np.repeat([1.0, 3.0], 20)
    found = KindFactors.of(scores, points)
    assert found.parts == pytest.approx(3 * found.whole)
    np.testing.assert_allclose(found.at(points), np.repeat([found.whole, found.parts], 20))
    assert KindFactors.of(scores[:25], points[:25]) == KindFactors()


def test_rows_that_share_the_defaults_curve_have_no_score_of_what_it_gives(rows) -> None:
    """Two trials that differ in workers alone learn alike, so the curve of the first tells of the second."""
    points = rows.points.copy()
    points[2] = points[0]
    points[2, POINT_NAMES.index("workers")] += 1
    same = dataclasses.replace(rows, points=points)
    for output, missing in ((EPOCHS, True), (THROUGHPUT, False)):
        given = scores_given_default(np.ones(len(rows)), same, VARIANCES, output)
        assert np.isnan(given[2]) == missing
        assert np.isnan(given[1]) == missing  # the default's second trial


def test_a_learning_curve_counts_once(rows) -> None:
    points = rows.points[[3, 4, 3, 3]]
    points[2, POINT_NAMES.index("workers")] += 1
    residuals = np.arange(4 * len(OUTPUTS), dtype=float).reshape(4, -1)
    residuals[3, EPOCHS] = np.nan
    found = one_per_curve(points, residuals)
    np.testing.assert_array_equal(found[:, THROUGHPUT], residuals[:, THROUGHPUT])
    np.testing.assert_array_equal(
        found[:, EPOCHS], [residuals[[0, 2], EPOCHS].mean(), residuals[1, EPOCHS], *[np.nan] * 2]
    )


def test_variances_are_those_that_alike_rows_were_drawn_with() -> None:
    """Rows close to each other share most of what varies over the knobs; their spread is a small part of it."""
    random, drawn = np.random.default_rng(0), VarianceComponents(0.5, 0.9, 0.1)
    points = random.normal(scale=0.4, size=(300, 12, 3))
    errors = [
        random.multivariate_normal(np.zeros(12), 0.5 + 0.9 * rbf_kernel(own, own) + 0.1 * np.eye(12)) for own in points
    ]
    settings = np.repeat([f"setting {number}" for number in range(300)], 12)
    found = variance_components(np.concatenate(errors), points.reshape(-1, 3), settings, drawn)
    assert found.within_setting == pytest.approx(drawn.within_setting, rel=0.1)
    assert found.noise == pytest.approx(drawn.noise, rel=0.1)

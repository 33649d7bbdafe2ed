"""Errors on held-out rows in standard deviations: given a trial of the default, and beside the default."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn_surrogate.posterior import VarianceComponents
from a3gnn_surrogate.row_source import RowSource
from a3gnn_surrogate.scores import KindFactors, scores_beside_default, scores_given_default
from a3gnn_surrogate.training_rows import THROUGHPUT

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

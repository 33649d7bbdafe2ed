"""What is known of the default before anything is measured, and the intervals that follow from it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.rows import OUTPUTS
from a3gnn_surrogate.surrogate import Surrogate, given_default

ABSOLUTE = [METRICS.index(name) for name in ("throughput_epochs_per_s", "peak_host_bytes")]
DEFAULT = KnownDefault(val_accuracy=0.5)


@pytest.fixture(scope="module")
def fitted(corpus):
    return Surrogate(seed=5).fit(corpus, target="fingerprint-friends")


@pytest.fixture(scope="module")
def unseen(graphs, laptop):
    return Setting(Task(), graphs["friends"], laptop)


def widths(prediction, metric):
    return prediction.spread(metric)


def test_absolute_figures_stay_as_they_are(fitted, unseen, draw) -> None:
    configs = draw("friends", 20, 3)
    plain, given = (
        fitted.predict(configs, unseen, DEFAULT),
        given_default(fitted, unseen).predict(configs, unseen, DEFAULT),
    )
    for bound in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(given, bound)[:, ABSOLUTE], getattr(plain, bound)[:, ABSOLUTE], rtol=1e-12)


def test_the_default_loses_hardly_anything_against_itself(fitted, unseen) -> None:
    plain, given = (one.predict([TrainConfig()], unseen, DEFAULT) for one in (fitted, given_default(fitted, unseen)))
    off = [abs(float(one.column("val_accuracy")[0]) - 0.5) for one in (plain, given)]
    assert off[1] <= off[0]
    assert widths(given, "val_accuracy")[0] < widths(plain, "val_accuracy")[0]


def test_what_both_share_is_not_in_the_intervals_beside_a_default_as_predicted(fitted, unseen, draw) -> None:
    configs = draw("friends", 20, 3)
    plain = fitted.predict(configs, unseen, DEFAULT)
    beside = given_default(fitted, unseen, as_predicted=True).predict(configs, unseen, DEFAULT)
    for metric in ("throughput_epochs_per_s", "peak_host_bytes"):
        np.testing.assert_allclose(beside.column(metric), plain.column(metric), rtol=1e-9)
        assert widths(beside, metric)[0] < widths(beside, metric)[1:].max()
        assert widths(beside, metric)[0] < widths(plain, metric)[0]


def test_ratios_to_the_default_lie_in_their_intervals_on_an_unseen_graph(fitted, unseen, simulate, draw) -> None:
    configs = draw("friends", 60, 9)
    measured = np.array([row.metrics.throughput_epochs_per_s for row in simulate("friends", configs)])
    found = given_default(fitted, unseen, as_predicted=True).predict(configs, unseen, DEFAULT)
    low, mean, high = (found.column("throughput_epochs_per_s", bound) for bound in ("low", "mean", "high"))
    ratio = measured[1:] / measured[0]
    inside = (low[1:] / mean[0] <= ratio) & (ratio <= high[1:] / mean[0])
    assert inside.mean() >= 0.75


def test_a_measured_setting_says_more(fitted, corpus) -> None:
    assert given_default(fitted, corpus[0].setting) is fitted


def test_the_surrogate_stays_as_it_is(fitted, unseen) -> None:
    before = set(fitted.setting_corrections_.corrections)
    assert given_default(fitted, unseen) is not fitted
    assert set(fitted.setting_corrections_.corrections) == before


def test_an_unfitted_one_is_refused(unseen) -> None:
    with pytest.raises(NotFittedError):
        given_default(Surrogate(), unseen)


def test_beside_the_default_speed_and_memory_have_scales_of_their_own(fitted, unseen) -> None:
    beside = given_default(fitted, unseen, as_predicted=True)
    (own,) = set(beside.setting_corrections_.own_scales) - set(fitted.setting_corrections_.own_scales)
    expected = [
        model.scale_default_known if name in ("accuracy_drop", "epochs_to_accuracy") else model.scale_beside_default
        for name, model in zip(OUTPUTS, fitted.residual_models_, strict=True)
    ]
    np.testing.assert_array_equal(beside.setting_corrections_.own_scales[own], expected)
    assert set(given_default(fitted, unseen).setting_corrections_.own_scales) == set(
        fitted.setting_corrections_.own_scales
    )

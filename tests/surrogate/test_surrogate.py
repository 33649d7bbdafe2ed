"""The surrogate on a simulated world whose truth is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import truncnorm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS, Failure, FailureKind, Measurement
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn_surrogate import residual
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.corrections import expected_beyond
from a3gnn_surrogate.features import kernel_points
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.local import rbf_kernel
from a3gnn_surrogate.surrogate import Surrogate

THROUGHPUT, DEVICE, HOST, ACCURACY, SECONDS = range(5)


@pytest.fixture(scope="module")
def unseen(simulate, draw):
    """Measurements of a graph that the corpus does not hold; the first is the default configuration."""
    return simulate("friends", draw("friends", 120, 99))


@pytest.fixture
def few_trees(monkeypatch):
    """Fits have at most 40 trees: for what holds of any number of them."""
    monkeypatch.setattr(residual, "_NUM_TREES", (0, 20, 40))


@pytest.fixture(scope="module")
def default_known(corpus, unseen):
    """A surrogate fitted to the corpus and the unseen graph's default configuration."""
    return Surrogate().fit([*corpus, unseen[0]], target=unseen[0].setting.graph.fingerprint)


def truth(rows):
    """Returns all metrics but the seconds to accuracy, which rows without a curve don't know."""
    return np.array([[getattr(row.metrics, name) for name in METRICS[:-1]] for row in rows], dtype=np.float64)


def predict(surrogate, rows, **known):
    return surrogate.predict([row.config for row in rows], rows[0].setting, **known)


def spread(prediction):
    return np.mean(prediction.high[:, THROUGHPUT] / prediction.low[:, THROUGHPUT])


def log_error(surrogate, rows, metric):
    return np.sqrt(np.mean(np.log(predict(surrogate, rows).mean[:, metric] / truth(rows)[:, metric]) ** 2))


def test_metrics_keep_their_ranges_by_construction(default_known, graphs, laptop, accelerated):
    for graph in graphs.values():
        for hardware in (laptop, accelerated):
            setting = Setting(Task(), graph, hardware)
            space = SearchSpace.of(setting)
            p = default_known.predict(space.columns(space.sample(300, 0)), setting)
            assert p.mean.shape == p.low.shape == p.high.shape == (300, len(METRICS))
            assert (p.low <= p.mean).all()
            assert (p.mean <= p.high).all()
            assert (p.low[:, [THROUGHPUT, HOST, SECONDS]] > 0).all()
            assert (p.low[:, ACCURACY] >= 0).all()
            assert (p.high[:, ACCURACY] <= 1).all()
            assert ((p.mean[:, DEVICE] > 0) == hardware.has_device).all()


def test_one_measured_default_sets_the_level(default_known, unseen):
    p, measured = predict(default_known, unseen[:1]), truth(unseen[:1])
    assert p.mean[0, THROUGHPUT] == pytest.approx(measured[0, THROUGHPUT], rel=0.15)
    assert p.mean[0, HOST] == pytest.approx(measured[0, HOST], rel=0.1)
    assert p.mean[0, ACCURACY] == pytest.approx(measured[0, ACCURACY], abs=0.01)


@pytest.fixture(scope="module")
def unseen_graphs(corpus, unseen):
    """Returns, by contender, errors and intervals' hits of every graph predicted from the others and its default.

    At most 40 trees are fitted: more take most of the time and change no order of errors.
    """
    rows = [row for row in [*corpus, *unseen[:40]] if not row.setting.hardware.has_device]
    contenders = {"residual": {}, "physics": {"learner": "none"}, "trees": {"physics": False}}
    errors, inside = {}, {}
    for contender, parameters in contenders.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(residual, "_NUM_TREES", (0, 20, 40))
            names = {row.setting.graph.name: None for row in rows}
            found = [_held_out(Surrogate(**parameters), rows, name) for name in names]
        errors[contender] = np.concatenate([error for error, _ in found])
        inside[contender] = np.concatenate([hits for _, hits in found])
    return errors, inside


def _held_out(surrogate, rows, name):
    own = [row for row in rows if row.setting.graph.name == name]
    surrogate.fit(
        [row for row in rows if row.setting.graph.name != name] + own[:1], target=own[0].setting.graph.fingerprint
    )
    p, measured = predict(surrogate, own[1:]), truth(own[1:])
    metrics = [THROUGHPUT, HOST, ACCURACY]
    errors = np.abs(np.log(p.mean[:, metrics] / measured[:, metrics]))
    return errors, ((p.low[:, :-1] <= measured) & (measured <= p.high[:, :-1]))[:, metrics]


def test_the_residual_beats_physics_alone_and_xgboost_alone_on_unseen_graphs(unseen_graphs):
    errors, _ = unseen_graphs
    squares = {contender: (values**2).mean(axis=0) for contender, values in errors.items()}
    assert (squares["residual"][:2] < squares["trees"][:2]).all()
    assert squares["residual"][1] < 1.02 * squares["physics"][1]
    # What is off in a graph's speed, and how much its accuracy suffers, are the graph's own here: there is little to
    # learn, and little may be lost.
    assert (squares["residual"] < 1.2 * squares["physics"]).all()


def test_intervals_cover_unseen_graphs(unseen_graphs):
    _, inside = unseen_graphs
    assert (inside["residual"].mean(axis=0) >= 0.82).all()


def test_rows_of_the_target_narrow_its_intervals_and_its_errors(default_known, corpus, unseen):
    known, rest = unseen[:30], unseen[30:]
    tuned = Surrogate().fit([*corpus, *known], target=known[0].setting.graph.fingerprint)
    wide, narrow = predict(default_known, rest), predict(tuned, rest)
    assert spread(narrow) < spread(wide)
    assert log_error(tuned, rest, THROUGHPUT) < log_error(default_known, rest, THROUGHPUT)
    measured = truth(rest)
    inside = ((narrow.low[:, :-1] <= measured) & (measured <= narrow.high[:, :-1])).mean(axis=0)
    assert (inside[[THROUGHPUT, HOST, ACCURACY]] >= 0.75).all()


def test_intervals_are_narrow_near_the_rows_and_wide_far_from_them(corpus, unseen):
    near = [row for row in unseen if row.config.feature_tier == "ram" and row.config.num_partitions == 1][:12]
    tuned = Surrogate().fit([*corpus, *near], target=unseen[0].setting.graph.fingerprint)
    far = TrainConfig(batch_size=64, num_partitions=8, feature_tier="disk", parallel_mode="mode2", num_workers=4)
    p = tuned.predict([near[3].config, far], near[0].setting)
    idle = near[0].setting.hardware.profile.idle_host_bytes
    above_idle = (p.column("peak_host_bytes", "high") - idle) / (p.column("peak_host_bytes") - idle)
    for at, away in (p.spread("throughput_epochs_per_s"), np.log(above_idle)):
        assert away > 1.2 * at


def test_the_analytic_model_serves_where_nothing_is_measured(unseen):
    empty = Surrogate().fit([])
    p = predict(empty, unseen)
    assert (p.high[:, THROUGHPUT] > 3 * p.low[:, THROUGHPUT]).all()
    order = np.corrcoef(np.log(p.mean[:, THROUGHPUT]), np.log(truth(unseen)[:, THROUGHPUT]))[0, 1]
    assert order > 0.7
    assert (p.low[:, ACCURACY] == 0).all()
    assert (p.high[:, ACCURACY] == 1).all()


def test_a_given_reference_sets_the_accuracy(unseen):
    p = predict(Surrogate().fit([]), unseen[:1], reference=KnownDefault(val_accuracy=0.8))
    assert p.mean[0, ACCURACY] == pytest.approx(0.8)
    assert p.low[0, ACCURACY] > 0.6


def test_configurations_that_run_identically_are_predicted_identically(default_known, unseen):
    configs = [TrainConfig(), TrainConfig(num_workers=4), TrainConfig(bias_rate=8.0)]
    p = default_known.predict(configs, unseen[0].setting)
    assert (p.mean == p.mean[0]).all()


def test_columns_and_configurations_agree_and_chunks_do_not_show(default_known, unseen):
    setting = unseen[0].setting
    space = SearchSpace.of(setting)
    rows = np.tile(space.sample(500, 1), (70, 1))
    whole = default_known.predict(space.columns(rows), setting)
    few = default_known.predict([space.decode(row) for row in rows[:500]], setting)
    np.testing.assert_allclose(whole.mean[-500:], few.mean, rtol=1e-9)


def test_a_broken_memory_limit_raises_the_peaks_of_its_like(corpus, unseen, default_known):
    rows, row = unseen[1:], unseen[1]
    before = predict(default_known, rows)

    def after(share: float) -> np.ndarray:
        limit = share * before.mean[0, HOST]
        failure = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", int(limit), limit)
        failed = dataclasses.replace(row, outcome=failure, id="failed")
        fitted = Surrogate().fit([*corpus, unseen[0], failed], row.setting.graph.fingerprint, like=default_known)
        assert fitted.num_rows_ == default_known.num_rows_
        return predict(fitted, rows)

    found = after(1.5)
    assert found.mean[0, HOST] > 0.9 * 1.5 * before.mean[0, HOST]
    raised = found.mean[:, HOST] / before.mean[:, HOST]
    points = kernel_points(as_columns([one.config for one in rows]), row.setting)
    alike = rbf_kernel(points[:1], points)[0]
    assert np.corrcoef(alike[1:], np.log(raised[1:]))[0, 1] > 0.6
    np.testing.assert_array_equal(np.delete(found.mean, HOST, axis=1), np.delete(before.mean, HOST, axis=1))
    expected = after(0.5)  # as predicted
    assert expected.mean[0, HOST] == pytest.approx(before.mean[0, HOST], rel=0.02)


def test_other_failed_trials_change_nothing(few_trees, corpus, unseen):
    failed = dataclasses.replace(corpus[0], outcome=Failure(FailureKind.OUT_OF_MEMORY, "killed"))
    small = corpus[:30]
    with_failure, without = Surrogate().fit([*small, failed]), Surrogate().fit(small)
    np.testing.assert_array_equal(predict(with_failure, unseen).mean, predict(without, unseen).mean)
    assert with_failure.num_rows_ == 30


def test_copies_count_once_and_repetitions_all(few_trees, corpus, unseen):
    small = corpus[:30]
    again = [Measurement.from_dict(row.to_dict()) for row in small]
    once, twice = Surrogate().fit(small), Surrogate().fit([*small, *again])
    assert twice.num_rows_ == 30
    np.testing.assert_array_equal(predict(twice, unseen).high, predict(once, unseen).high)
    assert Surrogate().fit([*small, dataclasses.replace(small[3], id="repeated")]).num_rows_ == 31


def test_the_same_seed_gives_the_same_surrogate(few_trees, corpus, unseen):
    first, second = (Surrogate(seed=3).fit(corpus[:80]) for _ in range(2))
    np.testing.assert_array_equal(predict(first, unseen).high, predict(second, unseen).high)


def test_what_takes_the_time_to_find_can_be_taken_over(few_trees, corpus, unseen):
    target = unseen[0].setting.graph.fingerprint
    before = Surrogate().fit(corpus, target)
    same, longer = (Surrogate().fit([*corpus, *own], target, like=before) for own in ([], unseen[:20]))
    rest = unseen[20:]
    for bound in ("mean", "low", "high"):
        found, expected = (getattr(predict(one, rest), bound) for one in (same, before))
        np.testing.assert_array_equal(found, expected)
    for name in ("variances", "scale_unseen", "scale_default_known", "kinds"):
        taken_over = [getattr(model, name) for model in longer.residual_models_]
        assert taken_over == [getattr(model, name) for model in before.residual_models_]
    anew = Surrogate().fit([*corpus, *unseen[:20]], target)
    for metric in (THROUGHPUT, HOST):
        errors = [log_error(one, rest, metric) for one in (before, longer, anew)]
        assert errors[1] < 0.9 * errors[0]
        assert errors[1] == pytest.approx(errors[2], rel=0.1)
    with pytest.raises(UsageError, match="like must have been fitted with the same parameters"):
        Surrogate(seed=1).fit(corpus, target, like=before)


def test_it_is_an_estimator_of_scikit_learn():
    surrogate = Surrogate(learner="tree", coverage=0.8)
    copy = clone(surrogate)
    assert copy.get_params() == surrogate.get_params()
    assert copy.set_params(coverage=0.7).coverage == 0.7
    assert copy.fit([]) is copy
    assert not [name for name in vars(surrogate) if name.endswith("_")]


def test_predicting_before_fitting_is_refused(unseen):
    with pytest.raises(NotFittedError, match="call fit"):
        predict(Surrogate(), unseen)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learner": "xgbost"}, "did you mean 'xgboost'"),
        ({"coverage": 1.0}, "coverage must be in"),
        ({"target_weight": 0.0}, "target_weight must be positive"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(UsageError, match=message):
        Surrogate(**parameters).fit([])


def test_missing_columns_are_named(graphs, laptop):
    with pytest.raises(UsageError, match="num_workers"):
        Surrogate().fit([]).predict({"batch_size": np.array([64])}, Setting(Task(), graphs["road"], laptop))


def test_what_lies_beyond_a_bound_is_expected_as_of_a_truncated_normal():
    bound, mean, deviation = np.array([0.0, 3.0, -2.0, 40.0, np.nan]), np.array([1.0, 1.0, 1.0, 0.0, 0.0]), 2.0
    found = expected_beyond(bound, mean, np.full(5, deviation))
    exact = truncnorm.mean((bound[:3] - mean[:3]) / deviation, np.inf, loc=mean[:3], scale=deviation)
    np.testing.assert_allclose(found[:3], exact, rtol=1e-9)
    assert 40 < found[3] < 40.2
    assert np.isnan(found[4])


def test_limits_that_may_be_a_devices_teach_nothing(few_trees, corpus, simulate, draw):
    own = simulate("dense@device", draw("dense@device", 3, 5))
    failure = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", 2**31, 2.0**30)
    failed = dataclasses.replace(own[1], outcome=failure, id="failed")
    without = Surrogate().fit(corpus)
    found = Surrogate().fit([*corpus, failed], like=without)
    np.testing.assert_array_equal(predict(found, own).high, predict(without, own).high)

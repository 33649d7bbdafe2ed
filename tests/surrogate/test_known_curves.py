"""Rows with learning curves: what they say of accuracy at equal training time and of seconds, and what is exact."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.measurement import MEASUREMENT_VERSION, METRICS
from a3gnn.prediction import log_points
from a3gnn.setting import Setting, setting_key
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.known_curves import LATER, KnownCurve, KnownCurves, KnownDefault, expected_batches, learning_values
from a3gnn_surrogate.rows import ACCURACY_DROP, EPOCHS, RowSource
from a3gnn_surrogate.surrogate import Surrogate

DEFAULT_EPOCHS = 10.0
SETUP_S = 0.5
SMALL = TrainConfig(batch_size=256)
PARTED = TrainConfig(num_partitions=4)


def curve_of(config, batches_per_epoch, epochs, exponent=0.5):
    """Validation accuracy rises to 0.9, faster per epoch in smaller mini-batches and slower in parts."""
    pace = (config.batch_size / 1024) ** -exponent / config.num_partitions**exponent
    points, first = [], max(batches_per_epoch // 4, 1)
    while not points or next_point(points[-1], first) <= epochs * batches_per_epoch:
        points.append(next_point(points[-1] if points else 0, first))
    found = (0.9 * (1 - math.exp(-pace * point / batches_per_epoch / 2)) for point in points)
    return LearningCurve(tuple(points), tuple(found), CurveEnd.BUDGET)


def with_curve(row, curve):
    """Returns the row as measurement version 3 has it."""
    unknown = {"test_accuracy": None, "val_accuracy": None, "accuracy_epochs": 0}
    metrics = dataclasses.replace(row.metrics, **unknown, setup_seconds=SETUP_S, curve=curve)
    return dataclasses.replace(row, outcome=metrics, version=MEASUREMENT_VERSION, accuracy_budget=0)


@pytest.fixture(scope="module")
def measure(simulate):
    """Returns a function that measures configurations of `friends` with curves of so many epochs; 0 for no curve."""

    def measurements(configs, epochs):
        return [
            with_curve(row, curve_of(row.config, row.metrics.batches_per_epoch, length) if length else None)
            for row, length in zip(simulate("friends", configs), epochs, strict=True)
        ]

    return measurements


@pytest.fixture(scope="module")
def rows(measure):
    """The default, a faster one of its key, smaller mini-batches, parts that were trained too short, and no curve."""
    configs = [
        TrainConfig(),
        TrainConfig(parallel_mode="mode1", num_workers=2),
        SMALL,
        PARTED,
        TrainConfig(batch_size=512),
    ]
    return measure(configs, [DEFAULT_EPOCHS, DEFAULT_EPOCHS, 40.0, 2.0, 0])


@pytest.fixture(scope="module")
def fitted(corpus, rows):
    return Surrogate().fit([*corpus, *rows], target=rows[0].setting.graph.fingerprint)


def column(prediction, metric):
    return [float(prediction.column(metric, bound)[0]) for bound in ("low", "mean", "high")]


def test_outputs_are_the_figures_of_the_study(rows):
    source = RowSource(rows)
    measured = source.rows().measured
    reference = Reference.of(rows[0].metrics, rows[0].metrics.curve, 0.01)
    for row, outputs in zip(rows[:3], measured[:3], strict=True):
        figures = Figures.of(row.metrics, row.metrics.curve, reference)
        assert outputs[ACCURACY_DROP] == pytest.approx(log_points(reference.val_accuracy - figures.val_accuracy))
        epochs = figures.seconds_to_accuracy * row.metrics.throughput_epochs_per_s
        of_default = Figures.of(rows[0].metrics, rows[0].metrics.curve, reference)
        default_epochs = of_default.seconds_to_accuracy * rows[0].metrics.throughput_epochs_per_s
        assert outputs[EPOCHS] == pytest.approx(math.log(epochs / default_epochs), abs=1e-9)
    assert measured[0, EPOCHS] == 0
    assert measured[2, EPOCHS] < 0


def test_rows_are_judged_by_the_reference_that_is_given(measure):
    # Of two tunes that share a store, the first trained the default shortly.
    rows = measure([TrainConfig(), TrainConfig(), SMALL], [6.0, DEFAULT_EPOCHS, 40.0])
    reference = Reference.of(rows[1].metrics, rows[1].metrics.curve, 0.03)
    key = setting_key(rows[0].setting)
    judged, usual = (RowSource(rows, judged_by=by).rows().measured[2] for by in ({key: reference}, None))
    figures = Figures.of(rows[2].metrics, rows[2].metrics.curve, reference)
    assert judged[ACCURACY_DROP] == pytest.approx(log_points(reference.val_accuracy - figures.val_accuracy))
    assert judged[ACCURACY_DROP] != pytest.approx(usual[ACCURACY_DROP])
    default_s = Figures.of(rows[0].metrics, rows[1].metrics.curve, reference).seconds_to_accuracy
    ratio = figures.seconds_to_accuracy * rows[2].metrics.throughput_epochs_per_s
    ratio /= default_s * rows[0].metrics.throughput_epochs_per_s
    assert judged[EPOCHS] == pytest.approx(math.log(ratio), abs=1e-9)
    beyond = dataclasses.replace(reference, target=1.0)  # the default does not reach it
    assert KnownCurves.of(rows, beyond).reference.target == pytest.approx(reference.val_accuracy - 0.01)


def test_rows_without_a_curve_give_no_accuracy_and_no_epochs(rows):
    measured = RowSource(rows).rows().measured
    assert np.isnan(measured[4:][:, [ACCURACY_DROP, EPOCHS]]).all()
    assert np.isfinite(measured[4:, 0]).all()


def test_a_curve_that_ended_early_counts_as_what_it_lets_expect(measure, rows):
    # Parts learn half as fast per epoch here, all the way: a short curve of them tells what the whole one does.
    # Measured curves fall further behind, which the factor counts.
    configs, epochs = [TrainConfig(), PARTED], [DEFAULT_EPOCHS, 4 * DEFAULT_EPOCHS]
    short, whole = (RowSource(found).rows().measured for found in (rows, measure(configs, epochs)))
    assert short[3, EPOCHS] == pytest.approx(whole[1, EPOCHS] + math.log(LATER), abs=0.1)
    assert short[3, ACCURACY_DROP] == pytest.approx(whole[1, ACCURACY_DROP], abs=0.1)


@pytest.mark.parametrize("missing", [0.001, 0.3])
def test_a_curve_that_missed_the_target_is_expected_to_fall_further_behind(measure, missing):
    rows = measure([TrainConfig(), PARTED], [DEFAULT_EPOCHS, 4 * DEFAULT_EPOCHS])
    known = KnownCurves.of(rows)
    curve, target = rows[1].metrics.curve, known.reference.target
    missed = tuple(min(one, target - missing) for one in curve.val_accuracy)
    rows[1] = with_curve(rows[1], dataclasses.replace(curve, val_accuracy=missed))
    learned = KnownCurves.of(rows).learned(rows)[1]
    assert np.isnan(learned.seconds)
    assert learned.val_accuracy == learned.expected_accuracy <= target - missing
    metrics = rows[1].metrics
    as_the_default = expected_batches(metrics.curve, known.default.curve, target)
    most = 10 * known.reference.budget_s
    assert learned.expected_s == pytest.approx(min(metrics.pace.seconds(LATER * as_the_default), most))
    assert learned.expected_s > metrics.pace.seconds(LATER * curve.trained)


def test_without_the_default_nothing_is_said_of_learning(rows):
    assert np.isnan(RowSource(rows[2:]).rows().measured[:, [ACCURACY_DROP, EPOCHS]]).all()


def test_a_curve_that_is_known_is_exact_but_for_the_pace(fitted, rows):
    setting, small = rows[0].setting, rows[2].metrics
    p = fitted.predict([SMALL], setting)
    reference = Reference.of(rows[0].metrics, rows[0].metrics.curve, 0.01)
    for bound, pace_bound in (("mean", "mean"), ("low", "high"), ("high", "low")):
        throughput = p.column("throughput_epochs_per_s", pace_bound)[0]
        metrics = dataclasses.replace(small, throughput_epochs_per_s=throughput)
        figures = Figures.of(metrics, small.curve, reference)
        assert p.column("seconds_to_accuracy", bound)[0] == pytest.approx(figures.seconds_to_accuracy)
        at_pace = p.column("val_accuracy", pace_bound)[0]
        assert figures.complete
        assert at_pace == pytest.approx(figures.val_accuracy)


def test_the_default_takes_its_own_seconds(fitted, rows):
    known = KnownCurves.of(rows).default_seconds()
    p = fitted.predict([TrainConfig()], rows[0].setting)
    pace = rows[0].metrics.throughput_epochs_per_s / p.column("throughput_epochs_per_s")[0]
    assert p.column("seconds_to_accuracy")[0] == pytest.approx(SETUP_S + (known - SETUP_S) * pace)


def test_a_curve_that_was_cut_short_bounds_what_is_predicted(fitted, rows):
    setting, parted = rows[0].setting, rows[3].metrics
    p = fitted.predict([PARTED], setting)
    assert p.column("val_accuracy")[0] >= max(parted.curve.val_accuracy)
    trained = parted.curve.trained / parted.batches_per_epoch
    low, mean, high = column(p, "seconds_to_accuracy")
    assert low >= SETUP_S + trained / p.column("throughput_epochs_per_s", "high")[0] * (1 - 1e-9)
    assert mean >= SETUP_S + trained / p.column("throughput_epochs_per_s")[0] * (1 - 1e-9)
    assert low < mean < high


def test_another_target_is_read_off_the_same_curve(fitted, rows):
    setting, small = rows[0].setting, rows[2].metrics
    p = fitted.predict([SMALL], setting, KnownDefault(target=0.5))
    reached = small.curve.first_reaching(0.5)
    expected = SETUP_S + reached / small.batches_per_epoch / p.column("throughput_epochs_per_s")[0]
    assert p.column("seconds_to_accuracy")[0] == pytest.approx(expected)


def test_seconds_of_unknown_curves_are_the_defaults_times_epochs_over_pace(corpus, graphs, laptop):
    """Without rows of the setting: half the seeds need fewer epochs, by the analytic model; seconds scale."""
    fitted = Surrogate().fit(corpus, target="friends")
    setting = Setting(Task(), graphs["friends"], laptop)
    configs = [TrainConfig(), TrainConfig(batch_size=512)]
    relative, absolute = fitted.predict(configs, setting), fitted.predict(configs, setting, KnownDefault(seconds=30.0))
    assert relative.column("seconds_to_accuracy")[0] == pytest.approx(1.0)
    np.testing.assert_allclose(absolute.column("seconds_to_accuracy"), 30 * relative.column("seconds_to_accuracy"))
    pace = relative.column("throughput_epochs_per_s")
    assert relative.column("seconds_to_accuracy")[1] == pytest.approx(0.5**0.6 * pace[0] / pace[1])


def test_rows_teach_what_smaller_mini_batches_gain(corpus, measure):
    sizes = (64, 128, 256, 512)
    rows = measure([TrainConfig(), *(TrainConfig(batch_size=size) for size in sizes)], [DEFAULT_EPOCHS] + [80.0] * 4)
    fitted = Surrogate().fit([*corpus, *rows[:1], *rows[2:]], target=rows[0].setting.graph.fingerprint)
    p = fitted.predict([rows[1].config], rows[0].setting)
    reference = Reference.of(rows[0].metrics, rows[0].metrics.curve, 0.01)
    truth = Figures.of(rows[1].metrics, rows[1].metrics.curve, reference)
    low, _, high = column(p, "seconds_to_accuracy")
    assert low < truth.seconds_to_accuracy < high


def test_intervals_of_seconds_cover_unseen_graphs(corpus):
    """Each graph is predicted from the others and its default; how much its mini-batches matter is its own."""
    exponents = {"dense": 0.2, "wide": 0.35, "road": 0.5, "words": 0.65, "papers": 0.3}
    groups = {}
    for row in corpus:
        name = row.setting.graph.name
        if not row.setting.hardware.has_device:
            epochs = DEFAULT_EPOCHS if row.config == TrainConfig() else 60.0
            curve = curve_of(row.config, row.metrics.batches_per_epoch, epochs, exponents[name])
            groups.setdefault(name, []).append(with_curve(row, curve))
    hits = []
    for name, own in groups.items():
        others = [row for other, rows in groups.items() if other != name for row in rows]
        target = own[0].setting.graph.fingerprint
        p = Surrogate().fit([*others, own[0]], target=target).predict([row.config for row in own[1:]], own[0].setting)
        truth = np.array([learned.seconds for learned in KnownCurves.of(own).learned(own[1:])])
        low, high = (p.column("seconds_to_accuracy", bound) for bound in ("low", "high"))
        known = np.isfinite(truth)
        assert known.sum() > 20
        hits.append(((low <= truth) & (truth <= high))[known])
        assert p.spread("seconds_to_accuracy").mean() < 1.7  # of four graphs the largest error counts
    assert np.concatenate(hits).mean() >= 0.82


def test_positions_are_those_of_the_learning_key(graphs, laptop):
    space = SearchSpace.of(Setting(Task(), graphs["dense"], laptop))
    configs = [space.decode(row) for row in space.sample(400, 3)]
    curve = LearningCurve((1,), (0.5,), CurveEnd.BUDGET)
    keys = list(dict.fromkeys(learning_values(config) for config in configs[::3]))
    curves = KnownCurves(tuple(KnownCurve(values, curve, 1, 0.0) for values in keys))
    found = curves.positions(as_columns(configs))
    for config, position in zip(configs, found, strict=True):
        same = [known for known in configs[::3] if known.learning_key() == config.learning_key()]
        assert (position >= 0) == bool(same)
        assert position < 0 or keys[position] == learning_values(config)
    assert (KnownCurves().positions(as_columns(configs)) == -1).all()
    assert len(keys[0]) < len(KNOBS)


def test_known_curves_survive_saving(fitted, rows, tmp_path):
    loaded = Surrogate.load(fitted.save(tmp_path))
    configs = [row.config for row in rows]
    one, other = (surrogate.predict(configs, rows[0].setting) for surrogate in (fitted, loaded))
    for metric in METRICS:
        for bound in ("mean", "low", "high"):
            np.testing.assert_array_equal(one.column(metric, bound), other.column(metric, bound))

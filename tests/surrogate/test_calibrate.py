"""Factors on the seconds of stages and on memory, fitted to measured ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.task import OwnCost, OwnModel, Task
from a3gnn_surrogate.physics.analytic import expected_work
from a3gnn_surrogate.physics.memory import host_bytes_above_idle, memory_terms
from a3gnn_surrogate.physics.stage_seconds import UNCALIBRATED, Calibration, Calibrations, stage_seconds
from a3gnn_surrogate.rows import HOST_BYTES, RowSource, general_calibrations, own_calibration
from a3gnn_surrogate.surrogate import Surrogate

TRUTH = Calibration(
    train=(0.8, 1.5, 5.0, 2.0, 3.0),
    sample=2.0,
    gather=4.0,
    memory=(1.5, 3.0, 1.0, 2.0, 0.5, 2.0, 1.0, 0.4, 0.2, 1.2, 0.8),
)


@pytest.fixture(scope="module")
def source(corpus):
    return RowSource(corpus)


def timed(one, calibration):
    """Returns the measured setting with the stages and the memory that `calibration` predicts."""
    found, measured = stage_seconds(one.columns, *one.work, one.setting, calibration), one.measured.copy()
    measured[:, HOST_BYTES] = np.log(host_bytes_above_idle(one.columns, *one.work, one.setting, calibration))
    stages = np.stack([found.sample, found.gather, found.train], axis=1)
    return dataclasses.replace(one, stages=stages, measured=measured)


def settings(source, has_device=False):
    return [one for found in source.settings.values() for one in found if one.setting.hardware.has_device == has_device]


def test_factors_that_made_the_seconds_are_found(source):
    found = general_calibrations([timed(one, TRUTH) for one in settings(source)])
    assert found.host.sample == pytest.approx(2.0, rel=0.02)
    assert found.host.gather == pytest.approx(4.0, rel=0.02)
    for one in settings(source):
        expected, predicted = (
            stage_seconds(one.columns, *one.work, one.setting, calibration) for calibration in (TRUTH, found.host)
        )
        np.testing.assert_allclose(predicted.train, expected.train, rtol=0.05)
    assert found.device == UNCALIBRATED


def test_factors_that_made_the_memory_are_found(source):
    found = general_calibrations([timed(one, TRUTH) for one in settings(source)]).host
    for one in settings(source):
        expected, predicted = (
            host_bytes_above_idle(one.columns, *one.work, one.setting, calibration) for calibration in (TRUTH, found)
        )
        np.testing.assert_allclose(predicted, expected, rtol=0.1)
        terms = memory_terms(one.columns, *one.work, one.setting)
        np.testing.assert_allclose(terms @ np.array(TRUTH.memory), expected)


def test_rows_without_a_peak_above_that_of_an_idle_trial_do_not_calibrate(source):
    known = [timed(one, TRUTH) for one in settings(source)]
    unknown = []
    for one in known:
        measured = one.measured.copy()
        measured[::2, HOST_BYTES] = np.nan
        unknown.append(dataclasses.replace(one, measured=measured))
    found, whole = general_calibrations(unknown).host, general_calibrations(known).host
    assert found.train == whole.train
    assert found.memory == pytest.approx(whole.memory, rel=0.5, abs=0.5)


def test_machines_with_a_device_have_factors_of_their_own(source):
    found = general_calibrations([timed(one, TRUTH) for one in settings(source, has_device=True)])
    assert found.host == UNCALIBRATED
    assert found.device.sample == pytest.approx(2.0, rel=0.02)


def test_settings_weigh_the_same_whatever_their_rows(source, corpus):
    one, other = settings(source)[:2]
    half = RowSource([row for row in corpus if row.setting == other.setting][:10]).settings
    fewer = next(iter(half.values()))[0]
    slow = Calibration(sample=4.0)
    whole = general_calibrations([timed(one, UNCALIBRATED), timed(other, slow)]).host.sample
    part = general_calibrations([timed(one, UNCALIBRATED), timed(fewer, slow)]).host.sample
    assert part == pytest.approx(whole, rel=0.02)
    assert 1.5 < whole < 3.0


def test_own_rows_refine_the_factors_once_there_are_enough(source):
    one = settings(source)[0]
    own = timed(one, TRUTH)
    few, some, most = (np.arange(len(one)) < count for count in (3, 5, 40))
    assert own_calibration([own], UNCALIBRATED, few) is None
    by_some, by_most = (own_calibration([own], UNCALIBRATED, kept) for kept in (some, most))
    assert 1.0 < by_some.gather < by_most.gather < 4.0
    assert own_calibration([timed(one, UNCALIBRATED)], UNCALIBRATED, most).sample == pytest.approx(1.0)


def test_the_first_row_of_a_users_model_tells_its_speed(source):
    one = settings(source)[0]
    own = OwnModel("of files", "of weights", "edge_index", None, OwnCost(10_000, 2e4, 0.0, 2e3, 500.0, 0.0))
    setting = dataclasses.replace(
        one.setting, task=Task(model="models:make", fanouts=one.setting.task.fanouts, own=own)
    )
    users = dataclasses.replace(one, setting=setting, work=expected_work(one.columns, setting))
    slow = Calibration(train=tuple(4 * factor for factor in UNCALIBRATED.train))
    first = np.arange(len(one)) < 1
    found = own_calibration([timed(users, slow)], UNCALIBRATED, first)
    expected, predicted = (
        stage_seconds(users.columns, *users.work, setting, calibration).train for calibration in (slow, found)
    )
    assert predicted[0] == pytest.approx(expected[0], rel=0.1)
    assert np.median(np.abs(np.log(predicted / expected))) < np.log(1.5)
    assert own_calibration([timed(one, slow)], UNCALIBRATED, first) is None


def test_graphs_that_are_held_out_do_not_calibrate(source, corpus):
    held = corpus[0].setting.graph.fingerprint
    others = RowSource([row for row in corpus if row.setting.graph.fingerprint != held])
    assert source.calibrations(frozenset({held})) == others.calibrations()
    assert source.calibrations() != others.calibrations()
    rows = source.rows(frozenset({held}))
    np.testing.assert_array_equal(rows.graphs, source.rows().graphs)
    assert (rows.analytic[:, 0] != source.rows().analytic[:, 0]).any()


def test_only_the_analytic_model_is_calibrated(corpus):
    assert Surrogate(learner="tree", physics=False).fit(corpus[:40]).calibrations_ == Calibrations()
    fitted = Surrogate(learner="none").fit(corpus, target=corpus[0].setting.graph.fingerprint)
    assert fitted.calibrations_.host != UNCALIBRATED
    own = fitted.calibrations_.of(corpus[0].setting)
    assert own not in (fitted.calibrations_.host, fitted.calibrations_.device)
    assert Calibrations.from_dict(fitted.calibrations_.to_dict()) == fitted.calibrations_


def test_calibration_scales_its_stage_alone(source):
    one = settings(source)[0]
    work = expected_work(one.columns, one.setting)
    plain, slow = (
        stage_seconds(one.columns, *work, one.setting, calibration)
        for calibration in (UNCALIBRATED, Calibration(sample=3.0))
    )
    np.testing.assert_allclose(slow.sample, 3 * plain.sample)
    for stage in ("gather", "transfer", "train"):
        np.testing.assert_array_equal(getattr(slow, stage), getattr(plain, stage))

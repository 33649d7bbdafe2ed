"""The noise of a machine's throughputs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.setting import setting_key
from a3gnn_surrogate.surrogate import Surrogate, throughput_noise


def replicated(row, windows):
    """Returns the row as if its trial had timed windows of these throughputs."""
    metrics = dataclasses.replace(
        row.metrics, throughput_replicates=tuple(windows), throughput_epochs_per_s=float(np.median(windows))
    )
    return dataclasses.replace(row, outcome=metrics, id="")


@pytest.fixture(scope="module")
def noisy(corpus):
    """Forty trials on the laptop with three windows each that scatter by a fifth around the measured throughput."""
    random = np.random.default_rng(0)
    rows = [row for row in corpus if not row.setting.hardware.has_device][:40]
    return [replicated(row, row.metrics.throughput_epochs_per_s * np.exp(0.2 * random.normal(size=3))) for row in rows]


def test_many_replicates_say_what_the_noise_is(noisy, laptop):
    assert throughput_noise(noisy, 0.05) == {laptop.fingerprint: pytest.approx(0.2, rel=0.15)}


def test_few_replicates_leave_it_to_the_prior(noisy):
    few = list(throughput_noise(noisy[:1], 0.05).values())
    assert few[0] < 0.12
    same = [replicated(noisy[0], [2.0, 2.0, 2.0])]
    assert list(throughput_noise(same, 0.05).values()) == [pytest.approx(0.05 * (10 / 12) ** 0.5)]


def test_trials_without_replicates_say_nothing(corpus, noisy):
    one = [replicated(row, [row.metrics.throughput_epochs_per_s]) for row in noisy]
    assert throughput_noise([*corpus, *one], 0.05) == {}


def test_the_noise_of_a_machine_is_that_of_its_settings(corpus, noisy, laptop, accelerated):
    fitted = Surrogate().fit([*noisy, *corpus[-40:]])
    assert fitted.noise(laptop) == fitted.noise_[laptop.fingerprint] == pytest.approx(0.2, rel=0.15)
    assert accelerated.fingerprint not in fitted.noise_
    assert 0 < fitted.noise(accelerated) < 0.2
    correction = fitted.setting_corrections_.corrections[setting_key(noisy[0].setting)]
    assert correction.variances[0].noise == pytest.approx(fitted.noise(laptop) ** 2)
    p = fitted.predict([TrainConfig()], noisy[0].setting)
    assert p.spread("throughput_epochs_per_s")[0] > 0.1

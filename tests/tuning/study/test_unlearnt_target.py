"""Where a baseline has hardly learned, the allowed drop counts from the quality that needs no learning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.measurement import Metrics
from a3gnn.tuning.study.history import History
from tests.tuning.study.test_own_target import studied
from tests.vocabulary.test_learning_curve import curve_of


@pytest.mark.parametrize(
    ("unlearnt", "asked", "target"),
    [(0.2, None, 0.295), (0.3, None, 0.295), (0.5, None, 0.495), (0.5, 40.0, 0.4)],
    ids=["learned", "just as much", "hardly learned", "asked for"],
)
def test_the_drop_counts_from_the_baseline_or_what_needs_no_learning(
    history: History,
    make_metrics: Callable[..., Metrics],
    unlearnt: float,
    asked: float | None,
    target: float,
) -> None:
    curve = curve_of(*(0.3 for _ in range(20)))
    options = {"max_accuracy_drop": 0.5, "target_accuracy": asked}
    tune = studied(history, curve, curve.batches[-1], make_metrics(100.0, 300 * 2**20, 0.0), **options)
    tune = dataclasses.replace(tune, study=dataclasses.replace(tune.study, unlearnt=unlearnt))
    assert tune.reference is not None
    assert tune.reference.target == pytest.approx(target)
    baseline = tune.trials[0].measurement.config
    assert baseline == TrainConfig()
    assert (tune.limits(baseline).least_accuracy is None) == (asked is None)

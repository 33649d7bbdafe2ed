"""A baseline never breaks a target that comes from its own training, wherever that was cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.figures import Reference
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Failure, Metrics
from a3gnn.objectives import PRESETS, Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Trial
from tests.tuning.formulas import Formulas, learned
from tests.tuning.histories import measured
from tests.vocabulary.test_learning_curve import curve_of

#: Points of the fatal curve of a tune of a real graph, and a spike at every third point.
SPIKES = (
    (0.5, 0.7, 0.8, 0.85, 0.86, 0.87, 0.875, 0.878, 0.881, 0.88, 0.879, 0.881, 0.8865, 0.86, 0.87, 0.8815, 0.88, 0.878),
    tuple(0.8 + 0.1 * (point % 3 == 2) - 0.002 * point for point in range(24)),
)


def real_curves(number: int = 12) -> list[LearningCurve]:
    """Returns the longest shipped curves of the baseline, one per graph."""
    found = [one for one in shipped_measurements() if one.config == TrainConfig().canonical()]
    curves = {
        one.setting.graph.fingerprint: one.outcome.curve
        for one in found
        if isinstance(one.outcome, Metrics) and one.outcome.curve is not None
    }
    return sorted(curves.values(), key=lambda curve: -len(curve.batches))[:number]


def studied(history: History, curve: LearningCurve, epochs: int, metrics: Metrics, **options: object) -> History:
    """Returns a tune whose plan ends the baseline after `epochs`, and that has its longer `curve`."""
    request = dataclasses.replace(history.study.request, accuracy_epochs=epochs, **options)
    history = dataclasses.replace(history, study=dataclasses.replace(history.study, request=request))
    outcome = dataclasses.replace(metrics, curve=curve, batches_per_epoch=1)
    return history.with_trial(Trial("default", {}, measured(history, TrainConfig(), outcome)))


@pytest.mark.parametrize(("priority", "drop"), [("time", 0.0), ("throughput", 0.5), ("accuracy", 0.1)])
def test_a_baseline_that_was_cut_anywhere_reaches_its_own_target(
    history: History, make_metrics: Callable[..., Metrics], priority: str, drop: float
) -> None:
    options = {"priority": Priority.parse(priority), "max_accuracy_drop": drop}
    for accuracies in [*(curve.val_accuracy[:24] for curve in real_curves(2)), *SPIKES]:
        curve = curve_of(*accuracies)
        assert len(curve.batches) > 10
        for end in curve.batches:
            tune = studied(history, curve, end, make_metrics(100.0, 300 * 2**20, 0.0), **options)
            assert tune.reference_metrics.curve.trained == end
            figures = tune.reference_figures
            assert figures.seconds_to_accuracy is not None, (accuracies, end)
            assert figures.seconds_to_accuracy <= tune.reference.budget_s
            assert figures.val_accuracy >= tune.reference.target
            assert [one.trial for one in tune.eligible()] == [tune.reference_trial]


def test_the_target_is_as_before_if_no_longer_curve_is_known(make_metrics: Callable[..., Metrics]) -> None:
    for curve in real_curves():
        reference = Reference.of(make_metrics(1.0, 300 * 2**20, 0.0), curve, 0.005)
        assert reference.target == curve.best_held() - 0.005


class Continued(Formulas):
    """Trials of the baseline go on from a training state that another tune saved."""

    def run(self, request: TrialRequest) -> Metrics | Failure:
        if request.config == TrainConfig().canonical() and request.plan.curve is not None:
            request = dataclasses.replace(request, known_curve=curve_of(*SPIKES[0]))
        return super().run(request)


@pytest.mark.parametrize("priority", ["time", "memory"])
def test_a_tune_after_a_longer_tune_of_the_same_baseline_ends_with_an_answer(
    quick_tune: Callable[..., TuneResult], make_metrics: Callable[..., Metrics], priority: str
) -> None:
    """Its curve is cut at the spike: 13 points, of which the last is .5 points above what it keeps."""

    def spiky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        curve = curve_of(*SPIKES[0]) if request.config == TrainConfig().canonical() else learned(0.5)
        return dataclasses.replace(metrics, curve=curve)

    epochs = curve_of(*SPIKES[0]).batches[12] // 10
    machine = Continued(make_metrics, spiky)
    result = quick_tune(executor=machine, priority=priority, accuracy_epochs=epochs, max_accuracy_drop=0.5, budget=2)
    assert result.config == TrainConfig()
    assert max(map(len, (one.known_curve.batches for one in machine.ran if one.known_curve))) == len(SPIKES[0])
    baseline = next(row for row in result.front.rows if row.config == TrainConfig().canonical())
    assert baseline.feasible
    assert baseline.measured.seconds_to_accuracy is not None
    for preset in PRESETS:
        assert pick(result.folder, priority=preset).config == TrainConfig()


def test_a_baseline_whose_other_seeds_learn_less_keeps_its_own_target(
    quick_tune: Callable[..., TuneResult], make_metrics: Callable[..., Metrics]
) -> None:
    """The verification trains it with three seeds; with two of them it ends below the target of the first."""

    def unlucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=learned(0.85 if request.setting.task.seed else 0.9))

    result = quick_tune(executor=Formulas(make_metrics, unlucky), max_accuracy_drop=0.5, priority="throughput")
    baseline = next(row for row in result.front.rows if row.config == TrainConfig().canonical())
    assert baseline.feasible
    assert not baseline.broken

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement, Metrics
from a3gnn.objectives import Priority
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.beliefs.expectations import tried_rows
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import Trial

MiB = 2**20


@pytest.fixture
def history(tiny_graph: Graph, hardware: Hardware) -> History:
    request = TuneRequest(
        spec="synthetic:",
        task=Task(),
        priority=Priority.parse("throughput"),
        memory_limit=400 * MiB,
        host_memory_limit=None,
        max_accuracy_drop=2.0,
        budget=5,
        engine="ei",
    )
    return History(Study.of(request, Setting(request.task, tiny_graph.characteristics(), hardware)))


@pytest.fixture
def make_trial(tiny_graph: Graph, hardware: Hardware) -> Callable[..., Trial]:
    def make(config: TrainConfig, outcome: Metrics | Failure) -> Trial:
        setting = Setting(Task(), tiny_graph.characteristics(), hardware)
        created = "2026-01-01T00:00:00+00:00"
        return Trial(
            "front",
            {},
            Measurement(config.canonical(), setting, outcome, 1, 1.0, MEASUREMENT_VERSION, created),
        )

    return make


def fixed(history: History, knob: str, value: object) -> History:
    """The same trials in a study whose space has `knob` fixed."""
    space = history.study.space.fix(knob, value)
    return dataclasses.replace(history, study=dataclasses.replace(history.study, space=space))


def test_without_a_reference_the_best_measured_accuracy_is_kept(history, make_trial, make_metrics) -> None:
    too_much = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit")
    history = history.with_trial(make_trial(TrainConfig(), too_much))
    assert history.reference is None
    fast = make_metrics(throughput=9.0, host=300 * MiB, accuracy=0.4)
    good = make_metrics(throughput=1.0, host=310 * MiB, accuracy=0.9)
    history = history.with_trial(make_trial(TrainConfig(num_partitions=8), fast))
    assert history.best().metrics == fast
    history = history.with_trial(make_trial(TrainConfig(batch_size=64), good))
    assert history.objectives.limits.least_accuracy == pytest.approx(0.88)
    assert history.best().metrics == good


def test_the_reference_is_the_default_or_what_trains_like_it(history, make_trial, make_metrics) -> None:
    twin = TrainConfig(feature_tier="disk")
    history = history.with_trial(make_trial(twin, make_metrics(throughput=1.0, host=300 * MiB, accuracy=0.7)))
    history = history.with_trial(
        make_trial(TrainConfig(batch_size=64), make_metrics(throughput=1.0, host=300 * MiB, accuracy=0.9))
    )
    assert history.reference.val_accuracy == 0.7
    assert history.objectives.limits.least_accuracy == pytest.approx(0.68)


def test_the_reference_ends_where_this_tune_ends_it_though_a_state_had_come_further(
    history, make_trial, make_metrics
) -> None:
    # 200 s of training are known, 10 mini-batches a second, and all of the first two thirds are better than before. A
    # tune that counts trials gives the default 160 s, if it can stop improving within them: until 107 s it can.
    metrics = make_metrics(throughput=1.0, host=300 * MiB, accuracy=0.8, points=200)
    reference = history.with_trial(make_trial(TrainConfig(), metrics)).reference
    assert 105 < reference.budget_s <= 108
    assert reference.still_rising
    assert reference.val_accuracy == metrics.curve.best_within(10 * reference.budget_s) < 0.8


def test_what_lies_outside_the_space_is_not_eligible(history, make_trial, make_metrics) -> None:
    metrics = make_metrics(throughput=1.0, host=300 * MiB, accuracy=0.7)
    history = history.with_trial(make_trial(TrainConfig(batch_size=64), metrics))
    assert history.best() is not None
    history = fixed(history, "batch_size", 256)
    assert history.best() is None
    assert len(history.feasible()) == 1


def test_the_default_is_eligible_however_small_the_graph(history, make_trial, make_metrics) -> None:
    history = history.with_trial(make_trial(TrainConfig(), make_metrics(throughput=1.0, host=300 * MiB, accuracy=0.7)))
    assert history.best() is not None
    assert history.best().trial is history.default


@pytest.mark.parametrize(
    ("knob", "value"), [("num_workers", 4), ("bias_rate", 4.0), ("partitioner", "blocks"), ("cache_policy", "fifo")]
)
def test_what_was_measured_is_seen_and_may_be_chosen_though_an_idle_knob_is_fixed(
    history, make_trial, make_metrics, knob: str, value: object
) -> None:
    history = fixed(history, knob, value)
    for number, row in enumerate(history.space.sample(30, seed=0)):
        metrics = make_metrics(throughput=1.0 + number, host=300 * MiB, accuracy=0.7)
        history = history.with_trial(make_trial(history.space.decode(row), metrics))
        assert row.tobytes() in tried_rows(history)
        assert history.eligible()[-1][:2] == (history.trials[-1], metrics)
    history = history.with_trial(make_trial(TrainConfig(), make_metrics(throughput=99.0, host=300 * MiB, accuracy=0.7)))
    assert history.best().trial is history.default

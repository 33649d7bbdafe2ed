"""The profiler: each configuration once, failures by their limits, learning curves shared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics, distinct
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.known import failed_partitioning
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import PARTITIONING, CurvePlan, Race, TrialPlan, TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.task import Task
from tests.curves import rising_curve

PLAN = TrialPlan(curve=CurvePlan(1e6, most_epochs=20), warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
#: Unlike that of other tests here, whose curves would be known from the states in the cache folder.
TASK = Task(hidden_channels=12, fanouts=(5, 5))
CONFIG = TrainConfig(batch_size=64)

Make = Callable[..., Measurement]


class Recorder:
    """Serves one outcome for every trial, or raises it, and keeps the requests."""

    def __init__(self, outcome: Metrics | Failure | BaseException) -> None:
        self.outcome = outcome
        self.requests: list[TrialRequest] = []

    def run(self, request: TrialRequest) -> Metrics | Failure:
        self.requests.append(request)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def close(self) -> None:
        raise AssertionError("an executor that was given stays open")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProfileStore]:
    with ProfileStore.open(tmp_path / "profiles.db") as opened:
        yield opened


@pytest.fixture
def profiler(store: ProfileStore, tiny_graph: Graph, this_machine: Hardware) -> Callable[..., Profiler]:
    def make(executor: object, **plan: object) -> Profiler:
        setting = Setting(TASK, tiny_graph.characteristics(), this_machine)
        settings = dataclasses.replace(PLAN, **plan)  # type: ignore[arg-type]
        return Profiler(store, tiny_graph, setting, settings, executor)  # type: ignore[arg-type]

    return make


def test_a_rerun_serves_what_is_stored(
    profiler: Callable[..., Profiler], executor: LocalExecutor, store: ProfileStore
) -> None:
    with profiler(executor) as first:
        found = first.measure(CONFIG)
        shared = first.measure(CONFIG.replace(parallel_mode="mode1", num_workers=2))
    assert found.metrics is not None
    assert shared.metrics is not None
    assert found.metrics.curve == shared.metrics.curve != NO_CURVE
    assert found.metrics.curve_train_seconds > 0
    assert shared.metrics.curve_train_seconds == shared.metrics.curve_eval_seconds == 0
    assert found.accuracy_budget == 0
    assert store.rows() == [found, shared]
    with profiler(Recorder(AssertionError("must not run"))) as again:
        # Sequential mode has no workers: this configuration is the measured one.
        assert again.measure(CONFIG.replace(num_workers=4)) == found


def test_a_curve_without_a_point_is_not_measured_again_unless_there_is_time_for_one(
    profiler: Callable[..., Profiler], metrics: Metrics
) -> None:
    none = dataclasses.replace(metrics, curve=NO_CURVE, curve_first=500)
    pace = metrics.pace
    short, long = (CurvePlan(pace.seconds(batches)) for batches in (499, 501))
    found = profiler(Recorder(none), curve=short).measure(CONFIG)
    assert profiler(Recorder(AssertionError("must not run")), curve=short).measure(CONFIG) == found
    assert profiler(Recorder(metrics), curve=long).measure(CONFIG).metrics == metrics


def test_a_served_row_is_known_by_its_id_and_a_repetition_has_its_own(
    profiler: Callable[..., Profiler], metrics: Metrics, store: ProfileStore
) -> None:
    first = profiler(Recorder(metrics))
    measured = first.measure(CONFIG)
    served = profiler(Recorder(AssertionError("must not run"))).measure(CONFIG)
    repeated = first.repeat(CONFIG)
    assert distinct([measured, served, repeated, *store.rows()]) == [measured, repeated]


def test_the_longest_curve_of_the_key_travels_with_the_request(
    profiler: Callable[..., Profiler], metrics: Metrics
) -> None:
    recorder = Recorder(metrics)
    profiler(recorder).measure(CONFIG)
    longer = dataclasses.replace(metrics, curve=rising_curve(0.8, points=12))
    recorder.outcome = longer
    later = profiler(recorder, curve=CurvePlan(1e6, most_epochs=40))
    later.measure(CONFIG.replace(feature_tier="disk"))
    recorder.outcome = metrics  # a shorter one changes nothing
    later.measure(CONFIG.replace(parallel_mode="mode1"))
    later.measure(CONFIG.replace(batch_size=32))
    known = [request.known_curve for request in recorder.requests]
    assert known == [None, metrics.curve, longer.curve, None]
    states = [request.curve_state for request in recorder.requests]
    assert states[0] == states[1] == states[2] != states[3]
    assert profiler(recorder).curves.of(CONFIG) == longer.curve


@pytest.mark.parametrize(
    ("plan", "served"),
    [
        (CurvePlan(1e6, most_epochs=32), True),  # 4 mini-batches an epoch, the next point would be at 130
        (CurvePlan(1e6, most_epochs=33), False),
        (CurvePlan(0.5 + 129 / 10), True),  # 10 mini-batches a second after half a second of set-up
        (CurvePlan(0.5 + 130 / 10), False),
        (CurvePlan(1e6, target=0.8), True),
        (CurvePlan(1e6, target=0.81), False),
        (CurvePlan(1e6, until_plateau=True), False),
        (CurvePlan(1e6, race=Race(0.7, 5.0)), True),
        (CurvePlan(1e6, least_throughput=3.0), True),
        (CurvePlan(1.0, whole=True), False),
        (None, True),
    ],
)
def test_a_stored_row_serves_where_its_curve_reaches_what_is_asked_for(
    profiler: Callable[..., Profiler], metrics: Metrics, plan: CurvePlan | None, served: bool
) -> None:
    profiler(Recorder(metrics)).measure(CONFIG)
    recorder = Recorder(metrics)
    later = profiler(recorder)
    asked = dataclasses.replace(PLAN, curve=plan)
    assert (later.stored(CONFIG, asked) is not None) == served
    later.measure(CONFIG, asked)
    assert [request.plan.curve for request in recorder.requests] == ([] if served else [plan])


def test_a_curve_that_another_configuration_trained_serves_too(
    profiler: Callable[..., Profiler], metrics: Metrics, store: ProfileStore
) -> None:
    short = dataclasses.replace(metrics, curve=rising_curve(0.8, points=3))
    asked = dataclasses.replace(PLAN, curve=CurvePlan(1e6, most_epochs=25))
    first = profiler(Recorder(short))
    measured = first.measure(CONFIG, asked)
    assert first.stored(CONFIG, asked) is None
    assert profiler(Recorder(metrics)).measure(CONFIG.replace(feature_tier="disk"), asked).metrics == metrics
    assert profiler(Recorder(AssertionError("must not run"))).measure(CONFIG, asked) == measured


def test_a_longer_curve_replaces_the_row(
    profiler: Callable[..., Profiler], metrics: Metrics, store: ProfileStore
) -> None:
    profiler(Recorder(metrics)).measure(CONFIG)
    longer = dataclasses.replace(metrics, curve=rising_curve(0.8, points=13))
    asked = dataclasses.replace(PLAN, curve=CurvePlan(1e6, most_epochs=33))
    again = profiler(Recorder(longer)).measure(CONFIG, asked)
    assert store.rows() == [again]
    assert again.metrics == longer


def test_what_a_repetition_learns_is_known_and_not_stored(
    profiler: Callable[..., Profiler], metrics: Metrics, store: ProfileStore
) -> None:
    recorder = Recorder(metrics)
    asked = profiler(recorder)
    asked.repeat(CONFIG, dataclasses.replace(PLAN, curve=CurvePlan(1e6, whole=True)))
    asked.measure(CONFIG.replace(feature_tier="disk"))
    assert [request.known_curve for request in recorder.requests] == [None, metrics.curve]
    assert [row.config.feature_tier for row in store.rows()] == ["disk"]


def test_failures_are_stored(profiler: Callable[..., Profiler], store: ProfileStore) -> None:
    failure = Failure(FailureKind.INVALID, "by itself", peak_host_bytes=5)
    recorder = Recorder(failure)
    measured = profiler(recorder).measure(CONFIG)
    assert measured.outcome == failure
    assert profiler(recorder).measure(CONFIG) == measured
    assert len(recorder.requests) == 1
    assert store.rows() == [measured]


@pytest.mark.parametrize("kind", [FailureKind.CRASHED, FailureKind.OUT_OF_MEMORY])
def test_a_transient_failure_is_tried_twice_and_again_in_a_later_run(
    profiler: Callable[..., Profiler], store: ProfileStore, metrics: Metrics, kind: FailureKind
) -> None:
    recorder = Recorder(Failure(kind, "first line\nwas killed"))
    first = profiler(recorder)
    failed = first.measure(CONFIG)
    assert failed.outcome == Failure(kind, "first line\nwas killed", tries=2)
    assert first.measure(CONFIG) == failed
    assert len(recorder.requests) == 2
    assert store.rows() == [failed]
    recorder.outcome = metrics
    assert profiler(recorder).measure(CONFIG).outcome == metrics
    assert len(recorder.requests) == 3
    assert [row.outcome for row in store.rows()] == [metrics]


METIS_FAILED = Failure(FailureKind.OUT_OF_MEMORY, f"{PARTITIONING} by metis into 4 parts: passed the limit", 5, 100.0)


@pytest.mark.parametrize("later", [False, True], ids=["same run", "later run"])
def test_partitions_that_failed_are_not_tried_for_other_configurations(
    profiler: Callable[..., Profiler], store: ProfileStore, metrics: Metrics, later: bool
) -> None:
    recorder = Recorder(METIS_FAILED)
    asked = profiler(recorder, host_limit_bytes=100)
    failed = asked.measure(CONFIG.replace(num_partitions=4))
    recorder.outcome = metrics
    if later:
        asked = profiler(recorder, host_limit_bytes=80, windows=2)
    alike = asked.measure(CONFIG.replace(num_partitions=4, feature_tier="disk"))
    assert isinstance(alike.outcome, Failure)
    assert (alike.outcome.kind, alike.outcome.limit) == (FailureKind.OUT_OF_MEMORY, 100.0)
    assert alike.outcome.taken_over_from == failed.id
    assert alike.outcome.detail == METIS_FAILED.detail + " (taken over from an earlier trial)"
    assert failed_partitioning(alike) == failed_partitioning(failed) == ("metis", 4)
    assert asked.measure(alike.config) == alike
    assert store.rows() == [failed, alike]
    assert len(recorder.requests) == 1
    for other in (
        CONFIG.replace(num_partitions=4, partitioner="blocks"),
        CONFIG.replace(num_partitions=2),
        CONFIG,
    ):
        assert failed_partitioning(asked.measure(other)) is None
    assert len(recorder.requests) == 4
    profiler(recorder, host_limit_bytes=200).measure(CONFIG.replace(num_partitions=4, batch_size=32))
    assert len(recorder.requests) == 5


def test_partitions_that_failed_by_chance_are_tried_again_in_a_later_run(
    profiler: Callable[..., Profiler], metrics: Metrics
) -> None:
    recorder = Recorder(dataclasses.replace(METIS_FAILED, limit=0.0))
    first = profiler(recorder)
    for size in (16, 32, 64):
        assert failed_partitioning(first.measure(TrainConfig(batch_size=size, num_partitions=4))) == ("metis", 4)
    assert len(recorder.requests) == 2
    recorder.outcome = metrics
    assert profiler(recorder).measure(TrainConfig(batch_size=128, num_partitions=4)).outcome == metrics


@pytest.mark.parametrize(
    ("failure", "plan", "runs"),
    [
        (Failure(FailureKind.OUT_OF_MEMORY, "", 0, 100.0), {"host_limit_bytes": 100}, 1),
        (Failure(FailureKind.OUT_OF_MEMORY, "", 0, 100.0), {"host_limit_bytes": 50}, 1),
        (Failure(FailureKind.OUT_OF_MEMORY, "", 0, 100.0), {"host_limit_bytes": 200}, 2),
        (Failure(FailureKind.OUT_OF_MEMORY, "", 0, 100.0), {"host_limit_bytes": None}, 2),
        (Failure(FailureKind.OUT_OF_MEMORY, "", 0, 0.0), {"host_limit_bytes": None}, 4),
        (Failure(FailureKind.TIMEOUT, "", 0, 10.0), {"timeout_s": 10.0}, 1),
        (Failure(FailureKind.TIMEOUT, "", 0, 10.0), {"timeout_s": 20.0}, 2),
    ],
)
def test_a_failure_by_a_limit_counts_under_limits_as_tight(
    profiler: Callable[..., Profiler], failure: Failure, plan: dict[str, object], runs: int
) -> None:
    recorder = Recorder(failure)
    profiler(recorder).measure(CONFIG)
    profiler(recorder, **plan).measure(CONFIG)
    assert len(recorder.requests) == runs


def test_an_interrupt_leaves_the_store_intact(
    profiler: Callable[..., Profiler], store: ProfileStore, metrics: Metrics
) -> None:
    recorder = Recorder(metrics)
    told: list[tuple[int, bool]] = []

    def note(measurement: Measurement, stored: bool) -> None:
        told.append((measurement.config.batch_size, stored))
        if len(told) == 2:
            recorder.outcome = KeyboardInterrupt()

    configs = [CONFIG.replace(batch_size=size) for size in (16, 32, 64)]
    with pytest.raises(KeyboardInterrupt):
        profiler(recorder).measure_many(configs, note)
    assert [row.config.batch_size for row in store.rows()] == [16, 32]
    recorder.outcome = metrics
    assert len(profiler(recorder).measure_many(configs, note)) == 3
    assert told == [(16, False), (32, False), (16, True), (32, True), (64, False)]

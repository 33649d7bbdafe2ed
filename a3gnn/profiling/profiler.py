"""`Profiler`: measures configurations, each once."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement, Metrics
from a3gnn.process.machine_turn import seconds_waited
from a3gnn.profiling.executor import LocalExecutor, TrialExecutor
from a3gnn.profiling.partition_failures import PartitionFailures
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import Accuracy, TrialPlan, TrialRequest
from a3gnn.setting import Setting


class Profiler:
    """Measures configurations in one setting, and keeps what it finds in the store.

    What is stored is not measured again, failures included; but one that came of a limit counts only under limits that
    are as tight, and a transient one only in the run that met it, which tried twice. Partitions that could not be made
    are not tried for another configuration, which fails alike. The accuracy of a configuration that trains
    bit-identically to a measured one is taken over. An exception, such as KeyboardInterrupt, ends the running trial and
    leaves the store as it was.

    Args:
        store: Where measurements are kept; it stays open.
        graph: The graph; one in RAM is written to the cache folder, from which trials open it.
        setting: What is trained, the graph's characteristics, and the machine, from `probe_hardware`.
        plan: How trials are measured, and their limits.
        executor: Where trials run; by default in processes of this machine. One that is given stays open.
        notify: Takes each line for people.
    """

    def __init__(
        self,
        store: ProfileStore,
        graph: Graph,
        setting: Setting,
        plan: TrialPlan,
        executor: TrialExecutor | None = None,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.store, self.graph, self.setting, self.plan = store, graph, setting, plan
        self._own = executor is None
        self._executor = executor if executor is not None else LocalExecutor(notify)
        self._notify = notify
        self._accuracies: dict[tuple[object, ...], Accuracy] = {}
        self._own_ids: set[str] = set()
        self._unmade = PartitionFailures()
        for row in store.rows(graph=setting.graph.fingerprint, hardware=setting.hardware.fingerprint):
            self._unmade.learn(row)
            if (row.setting.task, row.accuracy_budget) == (setting.task, plan.accuracy_epochs):
                self._learn(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the executor, if it is this profiler's own."""
        if self._own:
            self._executor.close()

    def stored(self, config: TrainConfig) -> Measurement | None:
        """Returns the stored measurement that stands for a trial of `config` under the plan's limits, or None."""
        found = self.store.get(config, self.setting, self.plan.accuracy_epochs)
        return found if found is not None and self._still_holds(found, self.plan) else None

    def measure(self, config: TrainConfig) -> Measurement:
        """Returns the measurement of `config`: the stored one, or a new one, which is stored.

        Raises:
            StoreError: It can't be stored.
        """
        return self.stored(config) or self._run(config)

    def measure_many(
        self, configs: Iterable[TrainConfig], progress: Callable[[Measurement, bool], None] | None = None
    ) -> list[Measurement]:
        """Returns the measurements of `configs`, in their order.

        Args:
            configs: What to measure.
            progress: Called after each with the measurement, and whether it was stored already.
        """
        found = []
        for config in configs:
            stored = self.stored(config)
            measurement = stored or self._run(config)
            found.append(measurement)
            if progress is not None:
                progress(measurement, stored is not None)
        return found

    def repeat(self, config: TrainConfig, plan: TrialPlan | None = None) -> Measurement:
        """Returns a new measurement of `config`, whatever is stored; it trains for its accuracy and is not stored.

        Args:
            config: What to measure.
            plan: How, and under which limits, if not as this profiler's plan says.
        """
        return self._trial(config.canonical(), plan or self.plan, known_accuracy=None)

    def _trial(self, config: TrainConfig, plan: TrialPlan, known_accuracy: Accuracy | None) -> Measurement:
        request = TrialRequest(
            config=config,
            setting=self.setting,
            graph_folder=self._folder(),
            plan=plan,
            known_accuracy=known_accuracy,
        )
        created = datetime.now(UTC).isoformat(timespec="seconds")
        started, waited = time.monotonic(), seconds_waited()
        outcome = self._unmade.of(config, lambda known: self._still_holds(known, plan)) or self._outcome(request)
        waited = seconds_waited() - waited
        measurement = Measurement(
            config=config,
            setting=self.setting,
            outcome=outcome,
            accuracy_budget=plan.accuracy_epochs,
            seconds=time.monotonic() - started - waited,
            version=MEASUREMENT_VERSION,
            created=created,
            id=uuid.uuid4().hex,
        )
        self._own_ids.add(measurement.id)
        self._unmade.learn(measurement)
        return measurement

    def _outcome(self, request: TrialRequest) -> Metrics | Failure:
        """Returns what a trial finds; one that fails by chance is tried once more."""
        outcome = self._executor.run(request)
        if not (isinstance(outcome, Failure) and outcome.transient):
            return outcome
        why = outcome.detail.strip().rpartition("\n")[2]
        self._notify(f"{outcome.kind.replace('_', ' ')}: {why}; that may pass, so the trial is run once more")
        again = self._executor.run(request)
        return dataclasses.replace(again, tries=outcome.tries + 1) if isinstance(again, Failure) else again

    def _run(self, config: TrainConfig) -> Measurement:
        config = config.canonical()
        measurement = self._trial(config, self.plan, self._accuracies.get(config.learning_key()))
        self.store.add(measurement)
        self._learn(measurement)
        return measurement

    def _folder(self) -> str:
        """Returns the folder that trials open the graph from."""
        self.graph = self.graph.on_disk()
        return str(self.graph.folder)

    def _learn(self, measurement: Measurement) -> None:
        found = measurement.outcome
        if isinstance(found, Metrics):
            accuracy = Accuracy(test=found.test_accuracy, val=found.val_accuracy, epochs=found.accuracy_epochs)
            self._accuracies.setdefault(measurement.config.learning_key(), accuracy)

    def _still_holds(self, known: Measurement, plan: TrialPlan) -> bool:
        """Whether a known outcome is what a trial under the limits of `plan` would find."""
        outcome = known.outcome
        if isinstance(outcome, Metrics):
            return True
        if known.failed_by_chance:
            return known.id in self._own_ids
        if outcome.kind is FailureKind.OUT_OF_MEMORY:
            host, device = plan.host_limit_bytes, plan.device_limit_bytes
            if self.setting.hardware.has_device:  # a failure does not say which of the two limits it passed
                return outcome.limit in (host, device)
            return host is not None and host <= outcome.limit
        if outcome.kind is FailureKind.TIMEOUT:
            return plan.timeout_s <= outcome.limit
        return True

"""`Profiler`: measures each configuration once."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Self

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement, Metrics
from a3gnn.notify import detail
from a3gnn.process.machine_turn import seconds_waited
from a3gnn.profiling.executor import LocalExecutor, TrialExecutor
from a3gnn.profiling.known import PartitionFailures, StoredCurves, drop_oldest
from a3gnn.profiling.request import TrialPlan, TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.storage.cache import cache_root

#: Rows of this version have a learning curve instead of an accuracy after a number of epochs.
_NO_ACCURACY_BUDGET = 0


class Profiler:
    """Measures configurations in one setting, and stores the results.

    A stored configuration is not measured again, even if it failed. There are two exceptions. A failure at a limit
    counts only under limits that are as tight. A transient failure counts only in the run that met it, which tried
    twice. If partitions could not be made, other configurations do not try them again.

    Learning curves are known by learning key. A trial extends the known curve, whichever configuration trained it, and
    a stored row is enough if the known curve is. An exception, such as KeyboardInterrupt, ends the running trial and
    leaves the store as it was.

    Args:
        store: The store for measurements; it stays open.
        graph: The graph; one in RAM is written to the cache folder, from which trials open it.
        setting: The task, the graph's characteristics, and the machine from `probe_hardware`.
        plan: How trials are measured, and their limits, unless a call has its own plan.
        executor: Where trials run; by default in processes of this machine. A given executor stays open.
        notify: Receives lines for people.

    Attributes:
        curves: The known learning curves, from stored rows and from later measurements.
        not_before: The latest time of an earlier measurement, ISO 8601, UTC, to the millisecond; "" before the first.
            Measurements keep their order where the system's clock is set back.
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
        self.curves = StoredCurves(setting)
        self.not_before = ""
        self._own_ids: set[str] = set()
        self._unmade = PartitionFailures()
        for row in store.rows(graph=setting.graph.fingerprint, hardware=setting.hardware.fingerprint):
            self._unmade.learn(row)
            self.curves.learn(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the executor, if it is this profiler's own."""
        if self._own:
            self._executor.close()

    def stored(self, config: TrainConfig, plan: TrialPlan | None = None) -> Measurement | None:
        """Returns the stored measurement that stands for a trial of `config`, or None.

        A row with metrics does if its learning curve is known as far as the trial would train it, from any
        configuration; the row's own curve may be shorter. No stored row stands for a whole training.

        Args:
            config: The configuration to look up.
            plan: How it would be measured, and its limits; by default this profiler's plan.
        """
        plan = plan or self.plan
        found = self.store.get(config, self.setting, _NO_ACCURACY_BUDGET)
        return found if found is not None and self._still_holds(found, plan) else None

    def measure(self, config: TrainConfig, plan: TrialPlan | None = None) -> Measurement:
        """Returns the stored measurement of `config`, or makes and stores a new one.

        Args:
            config: The configuration to measure.
            plan: How to measure, and the limits; by default this profiler's plan.

        Raises:
            StoreError: It can't be stored.
        """
        return self.stored(config, plan) or self.measure_anew(config, plan)

    def measure_anew(self, config: TrainConfig, plan: TrialPlan | None = None) -> Measurement:
        """Measures `config`, whatever is stored, and replaces the stored measurement.

        Args:
            config: The configuration to measure.
            plan: How to measure, and the limits; by default this profiler's plan.

        Raises:
            StoreError: It can't be stored.
        """
        measurement = self._trial(config.canonical(), plan or self.plan)
        self.store.add(measurement)
        return measurement

    def measure_many(
        self,
        configs: Iterable[TrainConfig],
        progress: Callable[[Measurement, bool], None] | None = None,
        plan: TrialPlan | None = None,
    ) -> list[Measurement]:
        """Returns the measurements of `configs`, in their order.

        Args:
            configs: The configurations to measure.
            progress: Called after each with the measurement, and whether it was stored already.
            plan: How to measure, and the limits; by default this profiler's plan.
        """
        found = []
        for config in configs:
            stored = self.stored(config, plan)
            measurement = stored or self.measure_anew(config, plan)
            found.append(measurement)
            if progress is not None:
                progress(measurement, stored is not None)
        return found

    def repeat(self, config: TrainConfig, plan: TrialPlan | None = None, task_seed: int | None = None) -> Measurement:
        """Returns a new measurement of `config`, whatever is stored, and does not store it.

        Args:
            config: The configuration to measure.
            plan: How to measure, and the limits; by default this profiler's plan.
            task_seed: The seed of weights and mini-batches; by default the task's. A curve of another seed is trained
                from its start.
        """
        return self._trial(config.canonical(), plan or self.plan, task_seed)

    def _trial(self, config: TrainConfig, plan: TrialPlan, task_seed: int | None = None) -> Measurement:
        known, state, setting = self.curves.of(config), str(self.curves.state(config)), self.setting
        if task_seed is not None and task_seed != setting.task.seed:
            known, state = NO_CURVE, ""
            setting = dataclasses.replace(setting, task=dataclasses.replace(setting.task, seed=task_seed))
        request = TrialRequest(
            config=config,
            setting=setting,
            graph_folder=self._folder(),
            plan=plan,
            known_curve=known if known.batches else None,
            curve_state=state,
        )
        created = self.not_before = max(self.not_before, datetime.now(UTC).isoformat(timespec="milliseconds"))
        started, waited = time.monotonic(), seconds_waited()
        outcome = self._unmade.of(config, lambda known: self._still_holds(known, plan)) or self._outcome(request)
        waited = seconds_waited() - waited
        measurement = Measurement(
            config=config,
            setting=setting,
            outcome=outcome,
            accuracy_budget=_NO_ACCURACY_BUDGET,
            seconds=time.monotonic() - started - waited,
            version=MEASUREMENT_VERSION,
            created=created,
            id=uuid.uuid4().hex,
        )
        self._own_ids.add(measurement.id)
        self._unmade.learn(measurement)
        self.curves.learn(measurement)
        drop_oldest(cache_root())
        return measurement

    def _outcome(self, request: TrialRequest) -> Metrics | Failure:
        """Runs a trial, and once more if it fails by chance."""
        outcome = self._executor.run(request)
        if not (isinstance(outcome, Failure) and outcome.transient):
            return outcome
        self._notify(detail(f"{outcome.describe()}; the trial runs once more, because the cause may pass"))
        again = self._executor.run(request)
        return dataclasses.replace(again, tries=outcome.tries + 1) if isinstance(again, Failure) else again

    def _folder(self) -> str:
        """Returns the folder from which trials open the graph, written first if the graph is in RAM."""
        self.graph = self.graph.on_disk()
        return str(self.graph.folder)

    def _still_holds(self, known: Measurement, plan: TrialPlan) -> bool:
        """Whether a known outcome is the one that a trial with this plan, under its limits, would have."""
        outcome = known.outcome
        if isinstance(outcome, Metrics):
            curve = plan.curve
            return curve is None or (not curve.whole and self.curves.cut(known.config, outcome, curve) is not None)
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

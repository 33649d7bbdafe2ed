"""A tune while it runs: measure, learn, search, propose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, Measurement, Metrics
from a3gnn.prediction import Prediction
from a3gnn.profiling.executor import PARTITIONING
from a3gnn.profiling.profiler import Profiler
from a3gnn.report.text import describe_config, describe_metrics
from a3gnn.search.problem import ENUMERABLE, Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.seeding import derive
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import Rows, best_neighbours, choose_probes, unmeasured
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.context import context_features
from a3gnn.tuning.findings import Findings
from a3gnn.tuning.journal import Journal, Probe, predicted_row
from a3gnn.tuning.request import TuneRequest
from a3gnn_envs.policy import Policy
from a3gnn_surrogate.surrogate import Surrogate

#: Surrogate evaluations of one search, and probes between two of them.
SEARCH_EVALUATIONS = 3_000
ROUND_PROBES = 4
#: A trial without a limit of its own may take this share of the machine's memory.
_MACHINE_SHARE = 0.9


class Campaign:
    """One tune: its space, its findings, and the surrogate that learns from them.

    Args:
        request: What was asked for.
        graph: The graph in numbers.
        hardware: The machine.
        profiler: Measures configurations of that graph on that machine.
        corpus: Measurements of other graphs and machines that the surrogate starts from.
        policy: Where the engine ppo starts, or None.
        budget: What may still be measured.
        journal: Where probes are kept; those that it holds are taken up.
        notify: Takes each line for people.
    """

    def __init__(
        self,
        request: TuneRequest,
        graph: GraphCharacteristics,
        hardware: Hardware,
        profiler: Profiler,
        corpus: Sequence[Measurement],
        policy: Policy | None,
        budget: Budget,
        journal: Journal,
        notify: Callable[[str], None],
    ) -> None:
        self.request, self.graph, self.hardware = request, graph, hardware
        self.budget, self.notify = budget, notify
        self.findings = Findings(request, hardware, request.space(graph, hardware), journal.read())
        self.searches: list[SearchResult] = []
        self._journal, self._profiler, self._corpus, self._policy = journal, profiler, list(corpus), policy
        self._surrogate = Surrogate(seed=request.seed)
        self._leave_out_partitions()
        self.learn()

    @property
    def space(self) -> SearchSpace:
        """What may be chosen."""
        return self.findings.space

    def learn(self) -> None:
        """Fits the surrogate to the corpus and to what this tune measured."""
        rows = [*self._corpus, *(probe.measurement for probe in self.findings.probes)]
        self._surrogate.fit(rows, target=self.graph.fingerprint)

    def predict(self, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]) -> Prediction:
        """Returns the surrogate's prediction of configurations, or of the columns that a space gives."""
        reference = self.findings.reference_accuracy
        return self._surrogate.predict(configs, self.request.task, self.graph, self.hardware, reference)

    def predict_rows(self, rows: Rows) -> Prediction:
        """Returns the surrogate's prediction of encoded `rows`."""
        return self.predict(self.space.columns(rows))

    def propose(self) -> list[tuple[str, Rows]]:
        """Searches, and returns what to measure next with the reason; nothing when all of interest is measured."""
        result, seen = self._search(), self.findings.seen()
        fresh = np.flatnonzero([row.tobytes() not in seen for row in result.rows])
        has_device, priority = self.hardware.has_device, self.request.priority
        chosen = choose_probes(result.rows[fresh], result.prediction.take(fresh), priority, has_device, ROUND_PROBES)
        best = self.findings.best()
        if len(chosen) < ROUND_PROBES and best is not None:
            row = self.findings.row(best[0].measurement.config)
            assert row is not None, "the best is inside the space"
            seen |= {other.tobytes() for _, other in chosen}
            around = best_neighbours(self.space, row, self.predict_rows, priority, has_device, seen)
            chosen += [("neighbour", other) for other in around[: ROUND_PROBES - len(chosen)]]
        return chosen

    def measure(self, config: TrainConfig, reason: str) -> None:
        """Measures `config`, keeps the probe on disk, and says what came out."""
        self._keep(reason, config, lambda: self._profiler.measure(config))

    def measure_unlimited(self, config: TrainConfig, reason: str) -> None:
        """Measures `config` with no limit but the machine's memory: to know what it takes where nothing fits."""
        plan = dataclasses.replace(
            self._profiler.plan,
            host_limit_bytes=round(_MACHINE_SHARE * self.hardware.host_memory_bytes),
            device_limit_bytes=None,
        )
        self._keep(reason, config, lambda: self._profiler.repeat(config, plan))

    def verify(self, probe: Probe) -> Metrics | Failure:
        """Returns what a second trial of `probe`'s configuration finds, one that trains for its accuracy.

        A trial that takes its accuracy over trains less, and its allocator's peak is a few per cent lower.
        """
        self.notify(f"verify   {describe_config(probe.measurement.config)}")
        return self._profiler.repeat(probe.measurement.config).outcome

    def predicted_trial_s(self, config: TrainConfig) -> float:
        """Returns the seconds that a trial of `config` is expected to take: its epochs of training, and timing."""
        throughput = self.predict([config]).column("throughput_epochs_per_s")[0]
        plan = self._profiler.plan
        return float(plan.accuracy_epochs / throughput) + plan.timed_seconds

    def smallest_memory(self) -> TrainConfig:
        """Returns the unmeasured configuration with the least predicted memory; among equals the fastest."""
        everything = self.space.enumerate() if self.space.size <= ENUMERABLE else self.space.sample(20_000, 0)
        rows = unmeasured(everything, self.findings.seen())
        prediction = self.predict_rows(rows)
        throughput, memory = prediction.column("throughput_epochs_per_s"), prediction.column(self.findings.memory)
        return self.space.decode(rows[np.lexsort((-throughput, memory))[0]])

    def _search(self) -> SearchResult:
        """Searches the predicted front under the limits."""
        problem = Problem(
            space=self.space,
            predict=self.predict_rows,
            limits=self.findings.limits,
            priority=self.request.priority,
            has_device=self.hardware.has_device,
            context=context_features(self.graph, self.hardware),
        )
        seed = derive(self.request.seed, "search", len(self.findings.probes))
        result = run_search(self.request.engine, problem, SEARCH_EVALUATIONS, seed, self._policy)
        self.searches.append(result)
        return result

    def _keep(self, reason: str, config: TrainConfig, measure: Callable[[], Measurement]) -> None:
        predicted = predicted_row(self.predict([config.canonical()]), 0)
        probe = Probe(reason, predicted, measure())
        self._journal.append(probe)
        self.findings.probes.append(probe)
        self._leave_out_partitions()
        (self.budget.learn if reason == "default" else self.budget.record)(probe.measurement.seconds)
        self.notify(self._line(probe))

    def _leave_out_partitions(self) -> None:
        """Leaves partitions out of the space once making them has failed: what fails for two parts fails for eight."""
        failed = any(failure.detail.startswith(PARTITIONING) for failure in self.findings.failures())
        values = self.space.knob("num_partitions").values
        if failed and 1 in values and len(values) > 1:
            self.findings.space = self.space.fix("num_partitions", 1)
            self.notify("partitioning this graph failed under the limits: configurations with partitions are left out")

    def _line(self, probe: Probe) -> str:
        outcome = probe.measurement.outcome
        if isinstance(outcome, Failure):
            found = f"{outcome.kind.replace('_', ' ')}: {outcome.detail.strip().splitlines()[-1]}"
        else:
            over = "" if not self.findings.limits.broken_by(outcome) else "  (breaks a limit)"
            found = describe_metrics(outcome, self.findings.memory) + over
        best = self.findings.best()
        if best is None:
            so_far = "nothing fits yet"
        elif best[0] is probe:
            so_far = "the best so far"
        else:
            so_far = f"best so far {describe_metrics(best[1], self.findings.memory)}"
        head = "default " if probe.reason == "default" else f"probe {self.budget.probes} ({probe.reason})"
        what = describe_config(probe.measurement.config)
        return f"{head} {what}\n    -> {found}\n    [{so_far}, {self.budget.describe()}]"

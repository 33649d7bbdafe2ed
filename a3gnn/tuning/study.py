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
from a3gnn.profiling.profiler import Profiler
from a3gnn.report.text import describe_config
from a3gnn.search.problem import ENUMERABLE, Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.seeding import derive
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import Rows, best_neighbours, choose_trials, unmeasured
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.context import context_features
from a3gnn.tuning.history import History
from a3gnn.tuning.journal import Journal, Probe, predicted_row
from a3gnn.tuning.lines import describe_trial
from a3gnn.tuning.request import TuneRequest
from a3gnn.tuning.state import TuneState
from a3gnn_envs.policy import Policy
from a3gnn_surrogate.surrogate import Surrogate

#: Surrogate evaluations of one search, and trials between two of them.
SEARCH_EVALUATIONS = 3_000
ROUND_TRIALS = 4
#: Seconds that a trial takes beside its training and timing (guess): its process, the graph, the first mini-batches.
_START_S = 2.0
#: A trial without a limit of its own may take this share of the machine's memory.
_MACHINE_SHARE = 0.9


class Study:
    """One tune: its space, its history, and the surrogate that learns from them.

    Args:
        request: What was asked for.
        graph: The graph in numbers.
        hardware: The machine.
        profiler: Measures configurations of that graph on that machine.
        corpus: Measurements of other graphs and machines that the surrogate starts from.
        policy: Where the engine ppo starts, or None.
        budget: What may still be measured.
        journal: Where trials are kept; those that it holds are taken up.
        notify: Takes each line for people.

    Attributes:
        history: What was measured.
        searches: What the searches found.
        finished: Whether the tune has chosen.
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
        before = journal.read()
        # What failed by chance in an earlier run is tried again, not believed.
        believed = [probe for probe in before if not probe.measurement.failed_by_chance]
        self.history = History(request, hardware, request.space(graph, hardware), believed)
        self.searches: list[SearchResult] = []
        self.finished = False
        self._journal, self._profiler, self._corpus, self._policy = journal, profiler, list(corpus), policy
        self._surrogate = Surrogate(seed=request.seed)
        for probe in before:
            budget.record(probe.measurement.seconds, counts=probe.counts)
        self._leave_out_partitions()
        self.learn()

    @property
    def space(self) -> SearchSpace:
        """What may be chosen."""
        return self.history.space

    def learn(self) -> None:
        """Fits the surrogate to the corpus and to what this tune measured."""
        rows = [*self._corpus, *(probe.measurement for probe in self.history.probes)]
        self._surrogate.fit(rows, target=self.graph.fingerprint)

    def predict(self, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]) -> Prediction:
        """Returns the surrogate's prediction of configurations, or of the columns that a space gives."""
        reference = self.history.reference_accuracy
        return self._surrogate.predict(configs, self.request.task, self.graph, self.hardware, reference)

    def predict_rows(self, rows: Rows) -> Prediction:
        """Returns the surrogate's prediction of encoded `rows`."""
        return self.predict(self.space.columns(rows))

    def propose(self) -> list[tuple[str, Rows]]:
        """Searches, and returns what to measure next with the reason; nothing when all of interest is measured."""
        problem, seen = self._problem(), self.history.seen()
        result = self._search(problem)
        fresh = np.flatnonzero([row.tobytes() not in seen for row in result.rows])
        chosen = choose_trials(problem, result.rows[fresh], result.prediction.take(fresh), ROUND_TRIALS)
        best = self.history.best()
        if len(chosen) < ROUND_TRIALS and best is not None:
            row = self.history.row(best[0].measurement.config)
            assert row is not None, "the best is inside the space"
            seen |= {other.tobytes() for _, other in chosen}
            around = best_neighbours(problem, row, seen)
            chosen += [("neighbour", other) for other in around[: ROUND_TRIALS - len(chosen)]]
        return chosen

    def measure(self, config: TrainConfig, reason: str) -> None:
        """Measures `config`, keeps the trial on disk, and says what came out."""
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

    def smallest_memory(self) -> TrainConfig | None:
        """Returns the configuration with the least predicted memory of those whose memory may yet be found out.

        These are the unmeasured ones and those that ran out of memory; of equals, the fastest. None where none is left.
        """
        everything = self.space.enumerate() if self.space.size <= ENUMERABLE else self.space.sample(20_000, 0)
        rows = unmeasured(everything, self.history.settled())
        prediction = self.predict_rows(rows)
        throughput, memory = prediction.column("throughput_epochs_per_s"), prediction.column(self.history.memory)
        configs = (self.space.decode(row) for row in rows[np.lexsort((-throughput, memory))])
        return next(filter(self.space.can_make, configs), None)

    def least_s(self) -> float:
        """Returns the seconds that the least of a tune is expected to take: the default's trial, and the verification.

        What is measured already is left out.
        """
        whole = self.predicted_trial_s(TrainConfig()) + _START_S
        return whole if self.history.default else 2 * whole

    def keep_time(self) -> None:
        """Writes into the folder how long the tune has taken, and whether it has finished."""
        budget = self.request.budget if self.finished else None
        TuneState(self.budget.elapsed_s, budget).write(self._journal.folder)

    def _problem(self) -> Problem:
        return Problem(
            space=self.space,
            predict=self.predict_rows,
            limits=self.history.limits,
            priority=self.request.priority,
            has_device=self.hardware.has_device,
            context=context_features(self.graph, self.hardware),
        )

    def _search(self, problem: Problem) -> SearchResult:
        """Searches the predicted front under the limits."""
        seed = derive(self.request.seed, "search", len(self.history.probes))
        result = run_search(self.request.engine, problem, SEARCH_EVALUATIONS, seed, self._policy)
        self.searches.append(result)
        return result

    def _keep(self, reason: str, config: TrainConfig, measure: Callable[[], Measurement]) -> None:
        predicted = predicted_row(self.predict([config.canonical()]), 0)
        probe = Probe(reason, predicted, measure())
        self._journal.append(probe)
        self.history.probes.append(probe)
        self.budget.record(probe.measurement.seconds, counts=probe.counts)
        self.keep_time()
        self.notify(describe_trial(probe, self.history, self.budget))
        self._leave_out_partitions()

    def _leave_out_partitions(self) -> None:
        """Leaves out of the space what a partitioner failed to make: as many parts, and more, by that one alone."""
        for config in self.history.partitioning_failures():
            if self.space.can_make(config):
                self.history.space = self.space.without_parts(config.partitioner, config.num_partitions)
                self.notify(
                    f"{config.partitioner} failed to make {config.num_partitions} parts of this graph: "
                    f"configurations with as many or more by {config.partitioner} are left out"
                )

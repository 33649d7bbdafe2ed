"""Measures variants on one graph, each beside the default, through the product's own profiling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Failure, Metrics
from a3gnn.objectives import memory_metric
from a3gnn.profiling.equal_time import equal_time
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.levers.cells import Cell, Side
from benchmarks.levers.variants import Variant
from benchmarks.result_lines import ResultLines

#: What may be lost of the default's validation accuracy: a point, as by default in a tune.
MAX_DROP = 0.01


class Unmeasurable(Exception):  # noqa: N818 - it is an answer, not a mistake
    """The default itself could not be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Default:
    """The default with one seed: what measures the others, and what it was measured to be.

    Attributes:
        profiler: Of the task with this seed.
        plan: How others are measured: for as long as it trained.
        metrics: Its own.
        reference: What others are held to.
    """

    profiler: Profiler
    plan: TrialPlan
    metrics: Metrics
    reference: Reference

    @classmethod
    def of(cls, profiler: Profiler) -> Self:
        """Returns the default as `profiler` measures it by its own plan, or has it stored.

        Raises:
            Unmeasurable: It failed, or its budget ended before any point of its curve.
        """
        found = profiler.measure(TrainConfig())
        if found.metrics is None or profiler.plan.curve is None:
            why = found.outcome.detail if isinstance(found.outcome, Failure) else "its plan has no learning curve"
            raise Unmeasurable(f"the default configuration failed: {why.strip().rpartition(chr(10))[2]}")
        curve = profiler.curves.cut(found.config, found.metrics, profiler.plan.curve) or NO_CURVE
        reference = Reference.of(found.metrics, curve, MAX_DROP)
        if reference is None:
            raise Unmeasurable("the default configuration was not evaluated within its budget")
        return cls(profiler, equal_time(profiler, found)[0], found.metrics, reference)

    def timed_again(self) -> Metrics:
        """Returns its metrics with the throughput of a trial of now; those of its own trial where that fails."""
        outcome = self.profiler.repeat(TrainConfig(), dataclasses.replace(self.plan, curve=None)).outcome
        if isinstance(outcome, Failure):
            return self.metrics
        names = ("throughput_epochs_per_s", "throughput_replicates", "setup_seconds")
        return dataclasses.replace(self.metrics, **{name: getattr(outcome, name) for name in names})


class LeverBench:
    """Measures variants of one graph's tasks, one seed after the other.

    Args:
        graph: The graph.
        task: What is trained; its seed counts up.
        seeds: How many.
        hardware: The machine.
        plan: How the default is measured.
        store: Where measurements are kept.
        executor: Where trials run.
        cells: Where what is compared is kept.
        notify: Takes each line for people.

    Raises:
        Unmeasurable: The default itself can't be measured.
    """

    def __init__(
        self,
        graph: Graph,
        task: Task,
        seeds: int,
        hardware: Hardware,
        plan: TrialPlan,
        store: ProfileStore,
        executor: TrialExecutor,
        cells: ResultLines,
        notify: Callable[[str], None],
    ) -> None:
        self._cells, self._notify = cells, notify
        self._memory = memory_metric(hardware.has_device)
        self.setting = Setting(task, graph.characteristics(), hardware)
        self.space = SearchSpace.of(self.setting)
        self.seeds = range(task.seed, task.seed + seeds)
        self._defaults = []
        for seed in self.seeds:
            setting = dataclasses.replace(self.setting, task=dataclasses.replace(task, seed=seed))
            self._defaults.append(Default.of(Profiler(store, graph, setting, plan, executor, notify)))

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.setting.graph.name

    def measure(self, variants: Sequence[Variant]) -> list[list[Cell]]:
        """Returns the cells of each variant, one per seed; the variant that comes first changes with the seed."""
        for number, seed in enumerate(self.seeds):
            first = number * len(variants) // len(self.seeds)
            for variant in (*variants[first:], *variants[:first]):
                self._cell(variant, seed)
        return [[self._cell(variant, seed) for seed in self.seeds] for variant in variants]

    def _cell(self, variant: Variant, seed: int) -> Cell:
        key = (self.name, *self.setting.key(), seed, variant.config.key())
        known = self._cells.get(*key)
        if known is not None:
            return Cell.from_dict(known)
        default = self._defaults[self.seeds.index(seed)]
        found = default.profiler.measure(variant.config, default.plan)
        beside = self._side(TrainConfig(), default.timed_again(), default)
        own = None if found.metrics is None else self._side(found.config, found.metrics, default)
        failure = f"{found.outcome.kind}: {found.outcome.detail}" if isinstance(found.outcome, Failure) else ""
        cell = Cell(self.name, seed, found.config, own, beside, failure)
        self._cells.put(*key, value=cell.to_dict())
        said = "failed" if cell.throughput is None else f"{cell.throughput:.2f} x"
        self._notify(f"{self.name}, seed {seed}: {variant.knob} {variant.value}: {said}")
        return cell

    def _side(self, config: TrainConfig, metrics: Metrics, default: Default) -> Side:
        figures = Figures.of(metrics, default.profiler.curves.of(config), default.reference)
        peak = getattr(figures, self._memory)
        return Side(figures.throughput_epochs_per_s, peak, figures.val_accuracy, figures.seconds_to_accuracy)

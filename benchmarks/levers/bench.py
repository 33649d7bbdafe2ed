"""Measures what each knob gains alone, and the best of them together, each value beside the default.

A variant is one knob's value, a cell its trial with one seed beside the default's, and gains are what its cells tell.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference, Spread
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.knobs import Knob
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Failure, Metrics
from a3gnn.objectives import memory_metric
from a3gnn.profiling.design import equal_time
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.report import ResultLines


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of one knob, everything else as in the default; or several knobs together.

    Attributes:
        knob: Its name, or what the combination is of.
        value: What it is set to, for people.
        config: The configuration. Where the knob is idle in the default, another one is changed too, to wake it.
        base: What the knob's own effect is told against: the default, or the default with that other change.
    """

    knob: str
    value: str
    config: TrainConfig
    base: TrainConfig = dataclasses.field(default_factory=TrainConfig)

    def changes(self) -> dict[str, Any]:
        """Returns what differs from the default."""
        fields, default = self.config.to_dict(), TrainConfig().to_dict()
        return {name: value for name, value in fields.items() if value != default[name]}


def single_knobs(space: SearchSpace, only: tuple[str, ...] = (), *, farthest: bool = False) -> list[Variant]:
    """Returns a variant per value of each knob of `space` that runs differently from the default.

    Args:
        space: Says which values there are.
        only: Names of the knobs that are varied; all by default.
        farthest: Whether of each knob only the value that lies farthest from the default's in the list is taken.
    """
    found: dict[str, Variant] = {TrainConfig().key(): Variant("", "", TrainConfig())}
    for knob in space.knobs:
        if not only or knob.name in only:
            own = list(_of_one(knob, space))
            for variant in own[-1:] if farthest else own:
                found.setdefault(variant.config.key(), variant)
    return list(found.values())[1:]


def _of_one(knob: Knob, space: SearchSpace) -> Iterator[Variant]:
    """Yields a variant per value of `knob` other than the default's, in order of their distance from it."""
    base = _awake(knob, space)
    if base is None:
        return
    position = {value: i for i, value in enumerate(knob.values)}
    middle = position.get(knob.default, 0)
    for value in sorted(knob.values, key=lambda one: abs(position[one] - middle)):
        config = base.replace(**{knob.name: value})
        if config.key() != base.key():
            yield Variant(knob.name, str(value), config, base)


def _awake(knob: Knob, space: SearchSpace) -> TrainConfig | None:
    """Returns the default, or where `knob` is idle in it the middle one of the single changes that wake it, if any."""
    default = TrainConfig()
    if not knob.idle.holds(default.knobs()):
        return default
    for name in sorted(knob.idle.names):
        changed = [default.replace(**{name: value}) for value in space.knob(name).values]
        awake = [config for config in changed if not knob.idle.holds(config.knobs())]
        if awake:
            return awake[len(awake) // 2]
    return None


@dataclass(frozen=True, slots=True)
class Side:
    """What one configuration came to with one seed.

    Attributes:
        throughput: Epochs per second.
        peak_bytes: Peak memory, of the device where there is one.
        val_accuracy: Best validation accuracy within the default's training time, in [0, 1]; None where no point of its
            curve lies in it.
        seconds_to_accuracy: Seconds of training to the default's accuracy less a point; None where it is not reached.
    """

    throughput: float
    peak_bytes: int
    val_accuracy: float | None
    seconds_to_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A variant and the default, timed one right after the other.

    Attributes:
        graph: Its name.
        seed: The task's.
        config: The variant's configuration.
        own: What it came to; None where it failed.
        default: What the default came to.
        failure: Why it failed, or "".
    """

    graph: str
    seed: int
    config: TrainConfig
    own: Side | None
    default: Side
    failure: str = ""

    @property
    def throughput(self) -> float | None:
        """The variant's throughput over the default's."""
        return None if self.own is None else self.own.throughput / self.default.throughput

    @property
    def memory(self) -> float | None:
        """The default's peak memory over the variant's."""
        return None if self.own is None else self.default.peak_bytes / self.own.peak_bytes

    @property
    def time(self) -> float | None:
        """The default's seconds to accuracy over the variant's; None where either does not reach it."""
        seconds = None if self.own is None else self.own.seconds_to_accuracy
        default = self.default.seconds_to_accuracy
        return None if seconds is None or default is None else default / seconds

    @property
    def points(self) -> float | None:
        """The variant's validation accuracy at equal training time less the default's, in points."""
        own = None if self.own is None else self.own.val_accuracy
        default = self.default.val_accuracy
        return None if own is None or default is None else 100 * (own - default)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Cell:
        """Returns the cell of `to_dict`."""
        sides = {name: None if fields[name] is None else Side(**fields[name]) for name in ("own", "default")}
        return cls(**{**fields, **sides, "config": TrainConfig.from_dict(fields["config"])})


#: What may be lost of the default's validation accuracy, in the documented results; a tune allows half of it.
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


#: What is compared, in the order of the tables' columns.
MEASURES = ("throughput", "time", "memory")


class Gains(NamedTuple):
    """Ratios of the default's figures, or another configuration's, and a variant's, over the seeds; more is better.

    Attributes:
        throughput: Of epochs per second; None where a trial failed.
        time: Of seconds to accuracy; None where either side did not reach it with some seed.
        memory: Of peak memory; None where a trial failed.
        points: Mean validation accuracy at equal training time less the default's, in points; None if not known.
        failure: Why a trial failed, or "".
    """

    throughput: Spread | None
    time: Spread | None
    memory: Spread | None
    points: float | None
    failure: str

    @classmethod
    def of(cls, cells: Sequence[Cell], base: Sequence[Cell] = ()) -> Self:
        """Returns the gains of one variant from its cells, one per seed.

        Args:
            cells: The variant's.
            base: Those of what its ratios are told against, each beside a default of its own; the default if empty.
        """
        points = [cell.points for cell in cells]
        known = [point for point in points if point is not None]
        return cls(
            *(_spread(_ratios(name, cells, base)) for name in MEASURES),
            statistics.fmean(known) if len(known) == len(points) else None,
            next((cell.failure for cell in cells if cell.failure), ""),
        )

    def counting(self, measure: str) -> float:
        """Returns the median ratio of `measure`; 0 where there is none, or where too much accuracy is lost for it.

        At the default's accuracy there is nothing that the time to it could lose.
        """
        found: Spread | None = getattr(self, measure)
        if found is None:
            return 0.0
        kept = measure == "time" or (self.points is not None and self.points >= -100 * MAX_DROP)
        return found.median if kept else 0.0


def _spread(ratios: list[float | None]) -> Spread | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return Spread.of(known) if len(known) == len(ratios) else None


def _ratios(measure: str, cells: Sequence[Cell], base: Sequence[Cell]) -> list[float | None]:
    own: list[float | None] = [getattr(cell, measure) for cell in cells]
    other: list[float | None] = [getattr(cell, measure) for cell in base] or [1.0] * len(own)
    return [one / two if one and two else None for one, two in zip(own, other, strict=True)]


#: What a combination is called where a single knob has its name.
COMBINED = "best of all"


class Measured(NamedTuple):
    """A variant and what it gains.

    Attributes:
        variant: The variant.
        gains: Over the default.
        alone: Over its base: what is the knob's own where another change had to wake it.
    """

    variant: Variant
    gains: Gains
    alone: Gains


def combine(bench: LeverBench, singles: Sequence[Measured], measure: str) -> Measured | None:
    """Returns the combination that gains most in `measure`, found greedily; None where no knob gains alone.

    Knobs are added one by one at the value that gains most alone, the largest gain first; one that does not add to the
    gain of those before it is left out again.

    Args:
        bench: Measures what is tried.
        singles: Each value of each knob alone.
        measure: throughput, time or memory.
    """
    best: dict[str, Measured] = {}
    for one in sorted(singles, key=lambda one: one.gains.counting(measure), reverse=True):
        if one.gains.counting(measure) > 1:
            best.setdefault(one.variant.knob, one)
    together: Measured | None = None
    for one in best.values():
        config = (together.variant.config if together else TrainConfig()).replace(**one.variant.changes())
        tried = Variant(f"{COMBINED} ({measure})", describe_config(config), config)
        gains = Gains.of(bench.measure([tried])[0])
        found = Measured(tried, gains, gains)
        if together is None or found.gains.counting(measure) > together.gains.counting(measure):
            together = found
    return together

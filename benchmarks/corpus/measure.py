"""Measures the profiles that ship: which configurations of a subject, by which trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Self

from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement
from a3gnn.profiling.design import equal_time, space_filling
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.threads import affinity
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from benchmarks.corpus.subjects import Subject
from benchmarks.engine.graphs import spec_of
from benchmarks.report import ResultLines

#: Seconds that the default trains, at most. Guess: most curves have stopped rising by then.
SECONDS = 8.0
#: The default configuration, which comes first.
DEFAULT = TrainConfig().canonical()


def default_plan(seconds: float) -> TrialPlan:
    """Returns how the default is measured, which trains for so many seconds at most."""
    return TrialPlan(curve=CurvePlan(seconds, until_plateau=True), timed_seconds=1.5, timeout_s=120.0)


@contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Lets this process, and what it starts, run on `count` cores alone; None leaves it where it is."""
    before = affinity.cores()
    affinity.pin(frozenset(sorted(before)[:count]))
    try:
        yield
    finally:
        affinity.pin(before)


class SubjectTrials:
    """Trials of one subject; `opened` makes it and measures the default, the trial of number 0.

    Attributes:
        setting: What is trained, on which graph and machine.
        default: The default's first measurement.
        others: How others are measured: each is given the default's training time.
    """

    def __init__(self, subject: Subject, profiler: Profiler, lines: ResultLines, console: Console) -> None:
        self._name, self._profiler, self._lines, self._console = subject.name, profiler, lines, console
        self.setting = profiler.setting
        self.default = self.measure(0, DEFAULT, profiler.plan)
        self.others, line = equal_time(profiler, self.default)
        console.log(f"{subject.name}: {line}")

    @classmethod
    @contextmanager
    def opened(
        cls,
        subject: Subject,
        lines: ResultLines,
        console: Console,
        hardware: Hardware,
        executor: TrialExecutor,
        folder: Path,
        seconds: float = SECONDS,
    ) -> Iterator[Self]:
        """Yields the trials of `subject`.

        Args:
            subject: What is measured.
            lines: Where measurements are kept.
            console: Takes lines of progress.
            hardware: The machine.
            executor: Where trials run.
            folder: Of the store in which learning curves are looked up.
            seconds: That the default trains, at most.
        """
        graph = Graph.load(spec_of(subject.spec)).on_disk()
        task = subject.task(graph)
        compile_ahead(KernelSet.of(graph, task), console.log)
        setting = Setting(task, graph.characteristics(), hardware)
        with (
            ProfileStore.open(folder / "profiles.sqlite") as store,
            Profiler(store, graph, setting, default_plan(seconds), executor, console.log) as profiler,
        ):
            yield cls(subject, profiler, lines, console)

    def measure(self, number: int, config: TrainConfig, plan: TrialPlan | None = None) -> Measurement:
        """Returns what the trial of this `number` found: as it is kept, or by running it now.

        Args:
            number: Its place in the design, which tells repetitions of a configuration apart.
            config: Its configuration.
            plan: How it is measured, if not as `others` are.
        """
        kept = self._lines.get(self._name, number, config.key())
        if kept is not None:
            found = Measurement.from_dict(kept)
            self._profiler.curves.learn(found)
            return found
        found = self._profiler.repeat(config, self.others if plan is None else plan)
        self._lines.put(self._name, number, config.key(), value=found.to_dict())
        self._console.log(f"{self._name} {number}: {describe_config(config)}: {found.seconds:.1f} s")
        return found

    def curve(self, config: TrainConfig) -> LearningCurve:
        """Returns the longest curve of what `config` learns; one without points where nothing is known."""
        return self._profiler.curves.of(config)

    def within(self, limit: int | None) -> TrialPlan:
        """Returns `others` under a limit on host memory in bytes, if there is one."""
        return dataclasses.replace(self.others, host_limit_bytes=limit)


#: The knobs that change what a step computes, not only how it is fed.
WORK_KNOBS = (
    "batch_size",
    "seed_fanout",
    "deep_fanout",
    "compute_dtype",
    "input_aggregation",
    "feature_dtype",
    "learning_rate_scale",
)
#: The default is measured after every so many others. Guess.
DEFAULT_EVERY = 6


def design(space: SearchSpace, rows: int, seed: int) -> list[TrainConfig]:
    """Returns up to `rows` configurations of `space`, alternately of the work's knobs alone and of all."""
    work = space
    for knob in space.knobs:
        if knob.name not in WORK_KNOBS:
            work = work.fix(knob.name, knob.default)
    pairs = zip_longest(space_filling(work, (rows + 1) // 2, seed), space_filling(space, rows, seed))
    return list(dict.fromkeys(config for pair in pairs for config in pair if config is not None))[:rows]


class Corpus:
    """Measures rows and keeps each in a file.

    Args:
        lines: Where they are kept.
        console: Takes lines of progress.
    """

    def __init__(self, lines: ResultLines, console: Console) -> None:
        self._lines, self._console = lines, console

    def measure(
        self, subject: Subject, rows: int, hardware: Hardware, executor: TrialExecutor, folder: Path
    ) -> list[Measurement]:
        """Returns what the default and `rows` others reach on `subject`, each measured once and kept."""
        with SubjectTrials.opened(subject, self._lines, self._console, hardware, executor, folder) as trials:
            limited = trials.within(_limit(subject, trials.default))
            configs = design(SearchSpace.of(trials.setting), rows, subject.seed)
            for place in range(len(configs), 0, -DEFAULT_EVERY):
                configs.insert(place, DEFAULT)
            plans = (trials.others if config == DEFAULT else limited for config in configs)
            numbered = enumerate(zip(configs, plans, strict=True), start=1)
            found = [trials.measure(number, *one) for number, one in numbered]
            return [trials.default, *found]


def _limit(subject: Subject, default: Measurement) -> int | None:
    """Returns the bytes of host memory that trials of `subject` may take, by its default's; None where all may."""
    if subject.memory_share is None or default.metrics is None:
        return None
    return int(subject.memory_share * default.metrics.peak_host_bytes)

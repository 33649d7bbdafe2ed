"""Measures the rows of a subject: its default, and configurations drawn around and far from it."""

from __future__ import annotations

import dataclasses
from itertools import zip_longest
from pathlib import Path

from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement
from a3gnn.profiling.design import space_filling
from a3gnn.profiling.equal_time import equal_time
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import CurvePlan, TrialPlan
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.training.compile_ahead import compile_ahead
from a3gnn.training.kernel_set import KernelSet
from benchmarks.corpus.subjects import Subject
from benchmarks.engine.graphs import spec_of
from benchmarks.result_lines import ResultLines

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
#: Seconds that the default trains, at most. Guess: most curves have stopped rising by then.
SECONDS = 8.0


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
        spec = subject.spec
        graph = Graph.load(spec_of(spec)).on_disk()
        compile_ahead(KernelSet.of(graph, subject.task), self._console.log)
        setting = Setting(subject.task, graph.characteristics(), hardware)
        plan = TrialPlan(curve=CurvePlan(SECONDS, until_plateau=True), timed_seconds=1.5, timeout_s=120.0)
        with (
            ProfileStore.open(folder / "profiles.sqlite") as store,
            Profiler(store, graph, setting, plan, executor, self._console.log) as profiler,
        ):
            default = self._row(spec, 0, profiler, plan, TrainConfig().canonical())
            others, line = equal_time(profiler, default)
            self._console.log(f"{spec}: {line}")
            limited = dataclasses.replace(others, host_limit_bytes=_limit(subject, default))
            seed = sum(spec.encode())  # each graph has a design of its own
            configs = design(SearchSpace.of(setting), rows, seed)
            for place in range(len(configs), 0, -DEFAULT_EVERY):
                configs.insert(place, TrainConfig().canonical())
            plans = (others if config == TrainConfig().canonical() else limited for config in configs)
            numbered = enumerate(zip(plans, configs, strict=True), start=1)
            found = [self._row(spec, number, profiler, *one) for number, one in numbered]
        return [default, *found]

    def _row(self, spec: str, number: int, profiler: Profiler, plan: TrialPlan, config: TrainConfig) -> Measurement:
        kept = self._lines.get(spec, number, config.key())
        if kept is not None:
            found = Measurement.from_dict(kept)
            profiler.curves.learn(found)
            return found
        found = profiler.repeat(config, plan)
        self._lines.put(spec, number, config.key(), value=found.to_dict())
        self._console.log(f"{spec} {number}: {describe_config(config)}: {found.seconds:.1f} s")
        return found


def _limit(subject: Subject, default: Measurement) -> int | None:
    """Returns the bytes of host memory that trials of `subject` may take, by its default's; None where all may."""
    if subject.memory_share is None or default.metrics is None:
        return None
    return int(subject.memory_share * default.metrics.peak_host_bytes)

"""Measures the rows of a subject: its default, and configurations drawn around and far from it."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement
from a3gnn.profiling.design import space_filling
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.space import SearchSpace
from benchmarks.corpus.subject_trials import DEFAULT, SubjectTrials
from benchmarks.corpus.subjects import Subject
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

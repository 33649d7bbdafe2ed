"""What a tune has measured by formulas, without a search or a surrogate, for tests of what it does with that."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.objectives import Priority
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.run.plans import trial_plan
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import Proposal, Trial
from tests.lines import everything
from tests.tuning.formulas import Formulas

#: Faster than the default, by 1.2 and 1.4 times, and less accurate, by two and four points.
TWO_PARTS = TrainConfig(num_partitions=2, partitioner="blocks").canonical()
FOUR_PARTS = TrainConfig(num_partitions=4, partitioner="blocks").canonical()
#: 1.3 times as fast as the default, and learns the same.
MODE1 = TrainConfig(parallel_mode="mode1", num_workers=2).canonical()
DEFAULT = TrainConfig().canonical()


class Measured(NamedTuple):
    """The trials of a tune, what runs further ones, the machine that answers them, and what was said."""

    history: History
    runner: Runner
    executor: Formulas
    lines: list[str]


def measure(
    configs: Iterable[TrainConfig],
    graph: Graph,
    hardware: Hardware,
    executor: Formulas,
    folder: Path,
    stack: ExitStack,
    *,
    trial_s: float | None = None,
    spent_s: float = 0.0,
    **options: Any,
) -> Measured:
    """Returns a tune that has measured the default and `configs`, each "best" when it was proposed.

    Args:
        configs: What is measured after the default.
        graph: The graph.
        hardware: The machine.
        executor: Answers the trials.
        folder: Where the tune's files lie.
        stack: Closes what is opened.
        trial_s: Seconds that each trial is recorded to have taken; what it did by default.
        spent_s: Seconds of the budget that are over.
        options: Of the request, in place of throughput's priority, a drop of 2.5 points and five trials.
    """
    setting = Setting(Task(hidden_channels=16, fanouts=(3, 3)), graph.characteristics(), hardware)
    fields = {
        "spec": "tiny",
        "task": setting.task,
        "priority": Priority.parse("throughput"),
        "memory_limit": None,
        "host_memory_limit": None,
        "max_accuracy_drop": 2.5,
        "budget": 5,
        "engine": "random",
    }
    request = TuneRequest(**(fields | options))
    history, lines = History(Study.of(request, setting)), []
    store = stack.enter_context(ProfileStore.open(folder / "profiles.sqlite"))
    profiler = stack.enter_context(Profiler(store, graph, setting, history.study.plan, executor))
    for config in (DEFAULT, *configs):
        proposal = Proposal("default" if config == DEFAULT else "best", config)
        found = profiler.measure(config, trial_plan(proposal, history))
        if trial_s is not None:
            found = dataclasses.replace(found, seconds=trial_s)
        history = history.with_trial(Trial(proposal.reason, {}, found))
    budget = Budget(request.budget, spent_s=spent_s)
    return Measured(history, Runner(profiler, Journal.start(folder), budget, everything(lines)), executor, lines)

"""Measures the cells of one graph, each once: what is on disk already is not measured again."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.figures import Spread
from a3gnn.graphs.graph import Graph
from a3gnn.report.text import describe_config
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from benchmarks.engine.client import Resident
from benchmarks.engine.workers.work import Unavailable, Work
from benchmarks.report import ResultLines
from benchmarks.table2 import ours, pyg
from benchmarks.table2.ours import Failed, Trained
from benchmarks.table2.report import NAMES, Row

#: Seeds of PyG's accuracy.
_PYG_SEEDS = 5


class Table2:
    """The table of one graph.

    Args:
        name: The graph's, for people.
        folder: Where it lies converted.
        options: Of the command line.
        lines: What was measured.
        python: The interpreter of PyG's environment, or why there is none.
        notify: Takes each line for people.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        options: argparse.Namespace,
        lines: ResultLines,
        python: Path | str,
        notify: Callable[[str], None],
    ) -> None:
        self._name, self._folder, self._options, self._lines = name, folder, options, lines
        self._python, self._notify = python, notify
        self._tuned: dict[str, TunedConfig | str] = {}
        self._failed: dict[tuple[str | int, ...], str] = {}

    def rows(self) -> list[Row]:
        """Returns a row per side; rounds of all sides alternate, so that none has the better hour."""
        for priority in self._options.priorities:
            self._tuned[priority] = self._tune(priority)
        for number in range(self._options.seeds):
            if isinstance(self._python, Path):
                self._step(number)
            for side in self._configs:
                self._training(side, number)
        return [self._pyg_row(), *(self._our_row(side) for side in self._sides)]

    @property
    def _sides(self) -> list[str]:
        return ["default", *self._options.priorities]

    @cached_property
    def _configs(self) -> dict[str, TrainConfig]:
        """The configurations that are trained, by side; the default where any tune names the graph."""
        chosen = {priority: one.config for priority, one in self._tuned.items() if isinstance(one, TunedConfig)}
        return {"default": TrainConfig(), **chosen} if chosen else {}

    @property
    def _work(self) -> Work:
        task, seeds = self._task, self._num_train
        return Work("train", task.fanouts, min(TrainConfig().batch_size, seeds), task.model, task.hidden_channels)

    @cached_property
    def _task(self) -> Task:
        return Task()

    @cached_property
    def _num_train(self) -> int:
        return Graph.load(str(self._folder)).characteristics().num_train

    def _tune(self, priority: str) -> TunedConfig | str:
        """Returns what a tune chooses, or why it chose nothing; the tool keeps and resumes its own folder."""
        folder = self._options.folder / "tunes" / self._folder.name / priority
        self._notify(f"{self._name}: tune by {priority}")
        try:
            asked = self._options.budget, self._options.memory_limit, self._options.max_accuracy_drop
            return ours.tuned(self._folder, priority, folder, *asked)
        except Failed as reason:
            return str(reason)

    def _training(self, side: str, seed: int) -> Trained | str:
        """Returns the training of a side with one seed, or why there is none."""
        of = next(one for one in self._tuned.values() if isinstance(one, TunedConfig))
        config = self._configs[side]
        epochs = self._options.epochs
        found = self._once(
            ("train", config.key(), seed, epochs or "end"), lambda: ours.trained(of, config, seed, epochs).to_dict()
        )
        return found if isinstance(found, str) else Trained.from_dict(found)

    def _step(self, number: int) -> float | str:
        assert isinstance(self._python, Path)
        python = self._python
        found: float | str = self._once(("pyg step", number), lambda: pyg.step_ms(python, self._folder, self._work))
        return found

    def _once(self, key: tuple[str | int, ...], measure: Callable[[], Any]) -> Any:
        """Returns the stored result of `key` or a new one, which is stored; or why there is none in this run."""
        stored = self._lines.get(self._name, *key)
        if stored is not None or key in self._failed:
            return self._failed[key] if stored is None else stored
        self._notify(f"{self._name}: {', '.join(map(str, key))}")
        try:
            found = measure()
        except (Failed, Unavailable) as reason:
            self._notify(f"{self._name}: {reason}")
            return self._failed.setdefault(key, str(reason))
        self._lines.put(self._name, *key, value=found)
        return found

    def _our_row(self, side: str) -> Row:
        if side not in self._configs:
            return Row(self._name, side, str(self._tuned.get(side, "no tune names the graph")))
        found = [self._training(side, number) for number in range(self._options.seeds)]
        trained = [one for one in found if isinstance(one, Trained)]
        if len(trained) < len(found):
            return Row(self._name, side, next(one for one in found if isinstance(one, str)))
        idle = Resident(*self._once(("idle",), ours.idle))
        return Row.of_trainings(self._name, side, describe_config(self._configs[side]), trained, idle)

    def _pyg_row(self) -> Row:
        if isinstance(self._python, str):
            return Row(self._name, "pyg", self._python)
        python = self._python
        steps = [self._step(number) for number in range(self._options.seeds)]
        memory = self._once(("pyg memory",), lambda: pyg.memory(python, self._folder, self._work).to_dict())
        missing = next((one for one in (*steps, memory) if isinstance(one, str)), None)
        if missing is not None:
            return Row(self._name, "pyg", missing)
        found, batches = pyg.Memory.from_dict(memory), -(-self._num_train // self._work.batch_size)
        return Row(
            graph=self._name,
            side="pyg",
            what=f"NeighborLoader, {pyg.VARIANT}, as its examples write it",
            epochs_per_s=Spread.of(1000 / (float(ms) * batches) for ms in steps),
            anonymous=found.anonymous - found.idle.anonymous,
            total=found.total - found.idle.total,
            test=self._pyg_accuracies(python),
        )

    def _pyg_accuracies(self, python: Path) -> tuple[float, ...]:
        """Returns PyG's test accuracies after as many epochs as the default took to its best, on the graph for it."""
        best = [one.best_epoch for n in range(self._options.seeds) if isinstance(one := self._default(n), Trained)]
        if self._name not in self._options.accuracy_graphs or not best:
            return ()
        epochs, batch = round(statistics.median(best)), self._work.batch_size
        found = self._once(
            ("pyg accuracy", epochs),
            lambda: pyg.accuracies(python, self._folder, batch, self._task, epochs, range(_PYG_SEEDS)),
        )
        return tuple(found)

    def _default(self, number: int) -> Trained | str:
        return self._training("default", number) if self._configs else "no tune names the graph"


PRIORITIES = tuple(side for side in NAMES if side not in ("pyg", "default"))

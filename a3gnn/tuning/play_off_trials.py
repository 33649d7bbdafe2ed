"""`PlayOffTrials`: runs the trials of a play-off, and keeps who was refused by them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median

from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import Failure, Metrics
from a3gnn.report.front_row import REJECTED
from a3gnn.report.text import describe_breaches
from a3gnn.tuning.history import History
from a3gnn.tuning.memory_limits import memory_limits
from a3gnn.tuning.play_off_plan import PlayOffCost
from a3gnn.tuning.runner import Runner


class PlayOffTrials:
    """The trials of one play-off.

    Args:
        history: What was measured before it.
        runner: Runs them, and knows what is left of the budget.

    Attributes:
        refused: By the key of a configuration, why: its failure, or the limits that it broke.
        notes: By the key of a configuration, why it is not chosen.
        cost: What they are expected to take, by those so far.
        reference: What is judged by, at the speed of the machine when it began; None without one.
    """

    def __init__(self, history: History, runner: Runner) -> None:
        self._history, self._runner = history, runner
        self.refused: dict[str, Failure | tuple[Breach, ...]] = {}
        self.notes: dict[str, str] = {}
        self.cost = PlayOffCost.expected(history, history.drift)
        self.reference = None if history.reference is None else history.reference.at(history.drift)
        self._wholes: dict[tuple[str, int], Metrics] = {}

    @property
    def in_seconds(self) -> bool:
        """Whether there are seconds that may be left over; a budget in trials has none."""
        return math.isfinite(self._runner.budget.left_s)

    def affords(self, timed: int, whole: int = 0, seeds: int = 0, margin: float = 1.0) -> bool:
        """Whether so many timed trials, whole trainings and further seeds fit, at `margin` times what is expected."""
        cost = self.cost
        needed_s = timed * cost.timing_s + whole * cost.whole_s + seeds * cost.seed_s
        return self._runner.budget.left_s >= margin * needed_s

    def timed(self, configs: Sequence[TrainConfig], rounds: int) -> dict[str, list[Metrics]]:
        """Returns what timing `configs` in an order that rotates finds, by their keys.

        One that fails, or breaks a limit on memory, is refused.
        """
        found: dict[str, list[Metrics]] = {config.key(): [] for config in configs}
        seconds: list[float] = []
        for first in range(rounds):
            for offset in range(len(configs)):
                config = configs[(first + offset) % len(configs)]
                begin = time.monotonic()
                outcome = self._runner.time(config, self._history)
                seconds.append(time.monotonic() - begin)
                if isinstance(outcome, Metrics):
                    found[config.key()].append(outcome)
                self._check(config, outcome)
        self.cost = self.cost._replace(timing_s=median(seconds))
        return found

    def whole(self, config: TrainConfig, seed: int) -> Metrics | None:
        """Returns what training `config` finds, or None where that breaks a limit on memory, or fails.

        Its whole curve with the task's seed; with others, as far as `seed_plan` says. It is trained once with each
        seed: every finalist is compared with the same trainings of the default.
        """
        if config.key() not in self.refused and (known := self._wholes.get((config.key(), seed))):
            return known
        task_seed, begin = self._history.study.setting.task.seed, time.monotonic()
        outcome = self._runner.train_whole(config, self._history, None if seed == task_seed else seed).outcome
        self._check(config, outcome)
        if isinstance(outcome, Failure) or config.key() in self.refused:
            return None
        took_s = time.monotonic() - begin
        if self.cost.default_whole:  # with every seed as long
            self.cost = self.cost._replace(whole_s=took_s, seed_s=2 * took_s)
        elif seed == task_seed:
            self.cost = self.cost._replace(whole_s=took_s)
        self._wholes[config.key(), seed] = outcome
        return outcome

    def refuse(self, config: TrainConfig, why: Failure | tuple[Breach, ...], where: str = "") -> None:
        """Takes note that `config` may not be chosen, and says so the first time."""
        text = (why.describe() if isinstance(why, Failure) else describe_breaches(why)) + where
        if config.key() not in self.refused:
            self.say(f"    rejected: {text}")
        self.notes[config.key()] = f"{REJECTED}: {text}"
        self.refused[config.key()] = why

    def say(self, line: str) -> None:
        """Writes a line of output."""
        self._runner.notify(line)

    def _check(self, config: TrainConfig, outcome: Metrics | Failure) -> None:
        """Refuses `config` where a trial of it failed, or took more memory than is allowed."""
        if isinstance(outcome, Failure):
            self.refuse(config, outcome)
            return
        # Accuracy is judged over all seeds, once they are trained.
        if breaches := memory_limits(self._history, config).broken_by(Figures.of(outcome, None, None)):
            self.refuse(config, breaches)

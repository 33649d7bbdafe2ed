"""Compares schedules made by hand with constant configurations, trained until the baseline stops improving.

    python -m benchmarks.schedules GRAPH [...] [--plans NAME ...] [--seeds 1] [--most 60] [--out runs/schedules.jsonl]
    python -m benchmarks.schedules --table [--out runs/schedules.jsonl]

A stage trains one configuration, with a factor on its learning rate. The next stage continues with the weights and
Adam's moments. It begins after a share of the baseline's seconds, or when none of the last five evaluations is the best
so far. Stage and plan are this script's: the product trains constant configurations.

The baseline trains until it has stopped improving (`LearningCurve.has_stopped_improving`, in milliseconds in place of
mini-batches), or for `--most` seconds. Every other plan gets the same seconds. Seconds are processor time over the
number of cores, without evaluations: other work on the machine disturbs them less than the clock's. Evaluations are a
tenth of the seconds so far apart. Results already in `--out` are kept.

Plans aggregate all neighbors in the first layer (`input_aggregation`) where the table of these is small enough, and
else sampled ones.

The table shows per plan the seconds to the baseline's best validation accuracy less half a point, over those of the
fastest constant plan (`best constant`, chosen per graph in hindsight), the stage that reaches it, and the best
validation accuracy with the test accuracy at that point. A schedule that reaches it in its first stage trains as the
constant plan of that stage until then: their ratio shows the noise of the seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.metric import AUTO
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.trainer import Trainer
from benchmarks.engine.graphs import spec_of
from benchmarks.report import ResultLines

#: Evaluations without a better one after which a stage ends; between evaluations, a share of the seconds so far.
_PATIENCE, _APART = 5, 0.1
#: Points of validation accuracy below the baseline's best that a plan must reach, as `a3gnn tune` asks by default.
_DROP = 0.005


class Stage(NamedTuple):
    """A part of a training.

    Attributes:
        config: What it trains with.
        rate: Factor on the task's learning rate.
        until: Share of the baseline's seconds at which it ends; None to end when it stops improving.
    """

    config: TrainConfig
    rate: float = 1.0
    until: float | None = None


_BASE = TrainConfig()
_FULL = TrainConfig(compute_dtype="bfloat16", input_aggregation="full")
_TIME = _FULL.replace(seed_fanout=10, learning_rate_scale=4.0)
_MIDDLE = _FULL.replace(batch_size=2048, seed_fanout=10, learning_rate_scale=2.0)
_FAST = _FULL.replace(batch_size=4096, seed_fanout=3, deep_fanout=2, learning_rate_scale=2.0)

#: Constant plans: the baseline, what a tune for `time` and one for `throughput` choose, and between them.
CONSTANT: Mapping[str, Sequence[Stage]] = {
    "baseline": [Stage(_BASE, until=1.0)],
    "full": [Stage(_FULL, until=1.0)],
    "time": [Stage(_TIME, until=1.0)],
    "middle": [Stage(_MIDDLE, until=1.0)],
    "fast": [Stage(_FAST, until=1.0)],
}
#: The baseline with a falling rate, then schedules: fast first, then wider and smaller batches at a lower rate.
PLANS: Mapping[str, Sequence[Stage]] = {
    **CONSTANT,
    "falling rate": [Stage(_BASE, until=0.6), Stage(_BASE, 0.3, 0.85), Stage(_BASE, 0.1, 1.0)],
    "fast, full": [Stage(_FAST), Stage(_FULL), Stage(_FULL, 0.3, 1.0)],
    "time, full": [Stage(_TIME), Stage(_FULL), Stage(_FULL, 0.3, 1.0)],
    "fast, middle, full": [Stage(_FAST), Stage(_MIDDLE), Stage(_FULL), Stage(_FULL, 0.3, 1.0)],
}


class Clock:
    """Seconds of training: processor time over cores, while it runs."""

    def __init__(self) -> None:
        self.seconds, self._cores, self._begun = 0.0, available_cores(), 0.0

    def start(self) -> None:
        """Starts, or continues."""
        self._begun = time.process_time()

    def stop(self) -> float:
        """Pauses, and returns the seconds so far."""
        self.seconds += (time.process_time() - self._begun) / self._cores
        return self.seconds


def has_table(graph: Graph, task: Task) -> bool:
    """Returns whether the table of full aggregates is small enough to be made."""
    try:
        with Trainer(graph, _FULL, task):
            return True
    except ConfigError:
        return False


def sampled(stages: Sequence[Stage]) -> list[Stage]:
    """Returns `stages`, aggregating only sampled neighbors."""
    return [stage._replace(config=stage.config.replace(input_aggregation="sampled")) for stage in stages]


def train(graph: Graph, task: Task, stages: Sequence[Stage], most: float, *, settle: bool) -> list[dict[str, Any]]:
    """Returns the evaluations of `stages`, trained for `most` seconds in all; with `settle` it may end when stale."""
    clock, points, epoch = Clock(), list[dict[str, Any]](), 0
    state: tuple[Any, Any] | None = None
    clock.start()
    for number, stage in enumerate(stages):
        own = dataclasses.replace(task, learning_rate=task.learning_rate * stage.rate)
        end = most * (stage.until or 1.0)
        with Trainer(graph, stage.config, own) as trainer:
            if state is not None:
                trainer.model.load_state_dict(state[0])
                trainer.optimizer.load_state_dict(state[1])
            first, ended = len(points), False
            for _ in _steps(trainer, epoch):
                seconds = clock.stop()
                if seconds >= end or seconds >= (1 + _APART) * (points[-1]["seconds"] if points else most / 100):
                    points.append(
                        {"stage": number, "seconds": seconds, "val": trainer.validate(), "test": trainer.test()}
                    )
                    stale = stage.until is None and _is_stale([one["val"] for one in points], first)
                    ended = seconds >= end or stale or (settle and _curve(points).has_stopped_improving())
                clock.start()
                if ended:
                    break
            epoch += 1000  # other mini-batches than before, and no warm-up again
            state = trainer.model.state_dict(), trainer.optimizer.state_dict()
        if clock.seconds >= most:
            break
    return points


def _steps(trainer: Trainer, epoch: int) -> Iterator[Any]:
    while True:
        yield from trainer.steps(epoch)
        epoch += 1


def _is_stale(values: Sequence[float], first: int) -> bool:
    """Returns whether none of the last evaluations of a stage that began at `first` is the best so far."""
    return len(values) - first > _PATIENCE and max(values[-_PATIENCE:]) < max(values)


def _curve(points: Sequence[Mapping[str, Any]]) -> LearningCurve:
    """Returns the learning curve of evaluations, with milliseconds in place of mini-batches."""
    milliseconds, accuracies = (round(1000 * one["seconds"]) for one in points), (one["val"] for one in points)
    return LearningCurve(tuple(milliseconds), tuple(accuracies), CurveEnd.BUDGET)


def reached(points: Sequence[Mapping[str, Any]], target: float) -> float | None:
    """Returns the seconds at which validation first reaches `target` and keeps it (`LearningCurve.held`)."""
    index = next((place for place, kept in enumerate(_curve(points).held()) if kept >= target), None)
    if not index:
        return None if index is None else float(points[0]["seconds"])
    before, one = points[index - 1], points[index]
    share = min(max((target - before["val"]) / max(one["val"] - before["val"], 1e-9), 0.0), 1.0)
    return float(before["seconds"] + share * (one["seconds"] - before["seconds"]))


def table(found: Mapping[tuple[Any, ...], Any]) -> Iterator[str]:
    """Yields the lines of every graph and seed, then of the plans over all."""
    over: dict[str, list[float]] = {}
    for case in dict.fromkeys(key[:2] for key in found):
        own = {name: found[*case, name] for name in PLANS if (*case, name) in found}
        if "baseline" not in own:
            continue
        target = _curve(own["baseline"]).best_held() - _DROP
        seconds = {name: reached(points, target) for name, points in own.items()}
        constants = {name: took for name in CONSTANT if (took := seconds.get(name)) is not None}
        if not constants:
            yield f"{case[0]}, seed {case[1]}: no constant plan keeps {target:.2%}"
            continue
        fastest = min(constants, key=lambda name: constants[name])
        yield f"{case[0]}, seed {case[1]}: target {target:.2%}, best constant {fastest} {constants[fastest]:.1f} s"
        for name, points in own.items():
            best = max(points, key=lambda one: one["val"])
            taken = seconds[name]
            shown = "not reached" if taken is None else f"{taken:6.1f} s, {constants[fastest] / taken:5.2f} x"
            if taken is not None and len(PLANS[name]) > 1:
                shown += f" in stage {next(one['stage'] for one in points if one['seconds'] >= taken) + 1}"
            at = f"at {best['seconds']:.0f} of {points[-1]['seconds']:.0f} s"
            yield f"  {name:20} {shown:31} best {best['val']:.2%} {at}, test {best['test']:.2%}"
            if taken is not None:
                over.setdefault(name, []).append(constants[fastest] / taken)
    for name, ratios in over.items():
        yield f"{name:20} {statistics.geometric_mean(ratios):.2f} x the best constant over {len(ratios)} trainings"


def main() -> None:
    """Trains what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", help="names of real graphs, or what --dataset takes")
    parser.add_argument("--plans", nargs="+", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--most", type=float, default=60.0, help="seconds of the baseline's training at most")
    parser.add_argument("--out", type=Path, default=Path("runs/schedules.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table")
    options = parser.parse_args()
    lines = ResultLines(options.out)
    for given in options.graphs:
        graph = Graph.load(spec_of(given))
        task = with_metric(Task(), AUTO, graph, print)
        compile_ahead(KernelSet.of(graph, task).of_a_tune, print)
        full = has_table(graph, task)
        for seed in range(options.seeds):
            for plan in sorted(options.plans, key=list(PLANS).index):
                if lines.get(given, seed, plan) is not None:
                    continue
                base = lines.get(given, seed, "baseline")
                most = base[-1]["seconds"] if base else options.most
                own = dataclasses.replace(task, seed=seed)
                stages = PLANS[plan] if full else sampled(PLANS[plan])
                lines.put(given, seed, plan, value=train(graph, own, stages, most, settle=plan == "baseline"))
    if options.table:
        print("\n".join(table(lines.all())))


if __name__ == "__main__":
    main()

"""What `--adapt` of one trainer costs and gains: undisturbed, while a core is taken, after it, and in scarce memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.preparation import Preparation
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.memory import host_bytes
from a3gnn.training.trainer import Trainer
from a3gnn.units import format_size
from benchmarks.hybrid.adapt import PHASES, Phase, taken_core
from benchmarks.report import median_and_range

#: What stands for a tune: each is measured as it stays.
STATIC = (
    TrainConfig(batch_size=1024),
    *(
        TrainConfig(batch_size=1024, parallel_mode=mode, num_workers=workers)
        for mode in ("mode1", "mode2")
        for workers in (1, 2)
    ),
)
#: Narrow, so that preparing mini-batches takes about as long as training on them: else no mode or worker matters much.
TASK = Task(model="sage", hidden_channels=32, fanouts=(15, 10))
GRAPH = "synthetic:nodes=40000,degree=12,classes=16,features=64"
#: Epochs of each phase in which `--adapt` finds out, and which are not counted; those of the choice of a static one.
_FINDS, _CHOSEN_BY = 200, 20
#: Pairs of fresh trainers by which the cost is found, and epochs of each that fill the pipeline, and that count: what a
#: trainer takes depends on where its memory happens to lie, so that two equal ones differ by up to 3 %.
_PAIRS, _FILLS, _COUNTED = 12, 20, 100
#: A graph whose cache matters beside what the process takes, what the limit is above that, and the caches that stand
#: for a tune, as shares of the one that it begins with.
WIDE_GRAPH = "synthetic:nodes=150000,degree=10,classes=16,features=192"
_OVER, _SHARES = 160 << 20, (1.0, 0.75, 0.5, 0.25, 0.0)


class Found(NamedTuple):
    """What was measured of one phase, in seconds per mini-batch.

    Attributes:
        phase: Which.
        fixed_s: Without `--adapt`, the median over epochs; None where the run ended at its limit.
        adapted_s: With it.
        ratio: With over without, median over pairs of epochs and the ends of its 95 % interval; None likewise.
        twin: The same of another run without over it: what two equal runs differ by.
        best_s: Of the static one that was fastest in epochs before those that count.
        best: What it is.
        recovered: Share of what that gains over `fixed_s`; None where it gains under 2 %. Where there is none without
            `--adapt`, its speed over that of the best.
        end: How mini-batches were prepared in the end.
        changes: That were made in the phase.
        lines: What the log says of them.
    """

    phase: str
    fixed_s: float | None
    adapted_s: float
    ratio: tuple[float, float, float] | None
    twin: tuple[float, float, float] | None
    best_s: float | None
    best: str
    recovered: float | None
    end: str
    changes: int
    lines: list[str]


def adapt_one(epochs: int) -> list[Found]:
    """Returns what was measured in each phase, and as memory gets scarce; `epochs` of each count.

    All train in one process, an epoch each in turns, in an order that alternates. The run without `--adapt`, with which
    the other begins too, has the static configuration that is the fastest undisturbed.
    """
    graph = Graph.load(GRAPH).on_disk()
    found = []
    with ExitStack() as stack:
        static = [stack.enter_context(Trainer(graph, config, TASK)) for config in STATIC]
        fixed = _fastest(static, _CHOSEN_BY)
        adapted = stack.enter_context(AdaptingTrainer(graph, fixed.config, TASK))
        pair = fixed, stack.enter_context(Trainer(graph, fixed.config, TASK))
        for phase in PHASES:
            with taken_core(phase == "a core taken"):
                found.append(_measured(phase, pair, adapted, static if phase == "a core taken" else (), epochs))
    return [*found, scarce_memory(epochs)]


def cost_of_one() -> list[float]:
    """Returns what `--adapt` takes over a run without it, undisturbed, of each of some pairs of fresh trainers.

    Who is opened first, and who trains first, alternates. Where preparing overlaps with training is decided by each run
    for itself, so all are of the sequential mode.
    """
    graph, config, found = Graph.load(GRAPH).on_disk(), STATIC[0], []
    for number in range(_PAIRS):
        with ExitStack() as stack:
            kinds = (Trainer, AdaptingTrainer) if number % 2 else (AdaptingTrainer, Trainer)
            pair = {kind: stack.enter_context(kind(graph, config, TASK)) for kind in kinds}
            trainers = list(pair.values())
            _in_turns(trainers, _FILLS)
            seconds = _in_turns(trainers, _COUNTED)
            with_it, without = (statistics.median(seconds[pair[kind]]) for kind in (AdaptingTrainer, Trainer))
            found.append(with_it / without)
    return found


def _measured(
    phase: Phase, pair: tuple[Trainer, Trainer], adapted: AdaptingTrainer, static: Sequence[Trainer], epochs: int
) -> Found:
    fixed, twin = pair
    before, told = len(adapted.division.changes), len(adapted.division.lines)
    for number in range(_FINDS):
        _epoch(adapted, number)
    best = _fastest(static, _CHOSEN_BY) if static else None
    compared = dict.fromkeys(one for one in (fixed, adapted, twin, best) if one is not None)
    seconds = _in_turns(list(compared), epochs)
    mine, without = seconds[adapted], seconds[fixed]
    best_s = None if best is None else statistics.median(seconds[best])
    fixed_s, adapted_s = statistics.median(without), statistics.median(mine)
    gains = best_s is not None and best_s < 0.98 * fixed_s
    return Found(
        phase,
        fixed_s,
        adapted_s,
        _interval(mine, without),
        _interval(seconds[twin], without),
        best_s,
        "" if best is None else described(Preparation.of(best.config)),
        (fixed_s - adapted_s) / (fixed_s - best_s) if gains and best_s is not None else None,
        described(adapted.division.current),
        len(adapted.division.changes) - before,
        adapted.division.lines[told:],
    )


def scarce_memory(epochs: int) -> Found:
    """Returns what was measured after something else in the process has taken what its limit left, and more.

    A run without `--adapt` then ends: that is tried. What stands for a tune are caches that leave room for what was
    taken. All are measured with the limit gone; with `--adapt`, what that ended with.
    """
    graph = Graph.load(WIDE_GRAPH).on_disk()
    config = TrainConfig(batch_size=1024, feature_tier="disk", cache_bytes=graph.features.nbytes // 2)
    with AdaptingTrainer(graph, config, TASK, host_memory_limit=_limit(graph, config)) as adapted:
        missing = _until_it_is_scarce(adapted)
        division = adapted.division
    ended = False
    with Trainer(graph, config, TASK, host_memory_limit=_limit(graph, config)) as trainer:
        try:
            _until_it_is_scarce(trainer)
        except MemoryLimitError:
            ended = True
    volumes = (int(share * config.cache_bytes) for share in _SHARES)
    fitting = [config.replace(cache_bytes=volume) for volume in volumes if volume <= config.cache_bytes - missing]
    with ExitStack() as stack:
        own = stack.enter_context(Trainer(graph, config.replace(cache_bytes=division.current.cache_bytes), TASK))
        static = [stack.enter_context(Trainer(graph, one, TASK)) for one in fitting]
        best = _fastest(static, _CHOSEN_BY)
        seconds = {one: statistics.median(values) for one, values in _in_turns([own, best], epochs).items()}
    return Found(
        f"memory gets scarce: without, it {'ends at its limit' if ended else 'goes on'}",
        None,
        seconds[own],
        None,
        None,
        seconds[best],
        described(Preparation.of(best.config)),
        seconds[best] / seconds[own],
        described(division.current),
        len(division.changes),
        division.lines,
    )


def _limit(graph: Graph, config: TrainConfig) -> int:
    """Returns a limit that a run keeps while nothing else takes memory."""
    with Trainer(graph, config, TASK) as trainer:
        _epoch(trainer, 0)
        return host_bytes() + _OVER


def _until_it_is_scarce(trainer: Trainer) -> int:
    """Trains an epoch, and two each after more of the memory was taken; returns by how much all that passes the limit.

    Raises:
        MemoryLimitError: It was passed.
    """
    _epoch(trainer, 0)
    limit, taken = trainer.memory.limit, list[NDArray[np.uint8]]()
    assert limit is not None, "it was given one"
    left, passed = limit - host_bytes(), 0
    for share in (0.04, -0.01):  # of the limit, that is left if the cache stays
        more = left - int(share * limit) - sum(map(len, taken))
        taken.append(np.ones(more, dtype=np.uint8))
        passed = -int(share * limit)
        for number in (1, 2, 3, 4):
            _epoch(trainer, number)
    return passed


def _fastest(trainers: Sequence[Trainer], epochs: int) -> Trainer:
    seconds = _in_turns(trainers, epochs)
    return min(trainers, key=lambda one: statistics.median(seconds[one]))


def _in_turns(trainers: Sequence[Trainer], epochs: int) -> dict[Trainer, list[float]]:
    """Returns the seconds per mini-batch of epochs that each trained in turns, whose order alternates."""
    found: dict[Trainer, list[float]] = {one: [] for one in trainers}
    for number in range(epochs):
        for one in trainers if number % 2 else reversed(trainers):
            found[one].append(_epoch(one, number))
    return found


def _epoch(trainer: Trainer, number: int) -> float:
    """Returns the seconds per mini-batch of an epoch."""
    begin = perf_counter()
    batches = sum(1 for _ in trainer.steps(number))
    return (perf_counter() - begin) / batches


def _interval(found: Sequence[float], over: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median of ratios, and the ends of its 95 % interval, by bootstrap."""
    ratios = [one / other for one, other in zip(found, over, strict=True)]
    drawn = np.random.default_rng(0).choice(ratios, (2000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return statistics.median(ratios), float(low), float(high)


def described(preparation: Preparation) -> str:
    """Returns how mini-batches are prepared, for the table."""
    ahead = "" if preparation.mode == "sequential" else f" x{preparation.workers}, {preparation.depth} ahead"
    cached = f", cache {format_size(preparation.cache_bytes)}" if preparation.cache_bytes else ""
    return f"{preparation.mode}{ahead}{cached}"


def table_of_one(epochs: int) -> Group:
    """Returns what was measured, and what the log says."""
    table = Table(
        *("real", "without", "with --adapt", "with / without", "without / without"),
        *("best static", "recovered", "in the end", "changes"),
        title=f"one trainer: milliseconds per mini-batch on {available_cores()} cores, in turns",
    )
    lines: list[str] = []
    for one in adapt_one(epochs):
        ratios = ("" if values is None else "{:.3f} ({:.3f} to {:.3f})".format(*values) for values in one[3:5])
        table.add_row(
            one.phase,
            "" if one.fixed_s is None else f"{1e3 * one.fixed_s:.2f}",
            f"{1e3 * one.adapted_s:.2f}",
            *ratios,
            "" if one.best_s is None else f"{1e3 * one.best_s:.2f} by {one.best}",
            "" if one.recovered is None else f"{one.recovered:.0%}",
            one.end,
            str(one.changes),
        )
        lines += one.lines
    cost = median_and_range([100 * (ratio - 1) for ratio in cost_of_one()], 1)
    return Group(table, *lines, f"undisturbed, over {_PAIRS} pairs of fresh trainers, --adapt takes {cost} % longer")

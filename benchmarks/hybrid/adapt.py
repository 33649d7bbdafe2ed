"""What `--adapt` costs and gains on real trainers: undisturbed, while another process takes a core, and after it."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import cycle
from typing import Literal, NamedTuple, get_args

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores, home
from a3gnn.threads.hold import held
from a3gnn.training.hybrid.assignment import divide
from a3gnn.training.hybrid.devices.device import Device
from a3gnn.training.hybrid.devices.processor import ProcessorDevice
from a3gnn.training.hybrid.trainers.adapting import default_controller
from a3gnn.training.hybrid.trainers.choices import STALL_S
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.training.hybrid.trainers.request import Trainers

Phase = Literal["undisturbed", "a core taken", "undisturbed again"]
PHASES: tuple[Phase, ...] = get_args(Phase)
#: Shares of the first trainer that are tried as the best static division; the others have equal parts of the rest.
_TRIED = (0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9)
#: Epochs of each phase that are not counted: `--adapt` has them to find out, and the others train them, too.
_SKIPPED = 8


class _Pinned(ProcessorDevice):
    """A device whose trainer stays on one core, beside whatever else runs there."""

    def __init__(self, device: Device, core: int) -> None:
        super().__init__(f"{device.name} on core {core}", device.threads)
        self._core = core

    def running(self) -> AbstractContextManager[object]:
        return held(self.threads, frozenset({self._core}))


class PhaseFound(NamedTuple):
    """Medians over the counted epochs of one phase, of the seconds per mini-batch.

    Attributes:
        phase: Which.
        fixed_s: Without `--adapt`.
        adapted_s: With it, and it beside the former in turns.
        ratio: The median over rounds of the latter over the former, and its quartiles.
        best_s: Of the best static division that was tried, likewise in turns; measured while the core is taken.
        best: Its shares; none in other phases.
        shares: Of the adapted trainers in the end.
        changes: That were made in the phase.
        lines: What the log says of them.
    """

    phase: Phase
    fixed_s: float
    adapted_s: float
    ratio: tuple[float, float, float]
    best_s: float | None
    best: tuple[int, ...]
    shares: tuple[int, ...]
    changes: int
    lines: list[str]

    @property
    def recovered(self) -> float | None:
        """Share of what the best static division gains over the fixed one; None where that gains under 2 %."""
        if self.best_s is None or self.best_s > 0.98 * self.fixed_s:
            return None
        return (self.fixed_s - self.adapted_s) / (self.fixed_s - self.best_s)


def adapt(names: str, epochs: int, *, pinned: bool) -> list[PhaseFound]:
    """Returns what was measured in each phase; `epochs` of each count.

    All train the same graph in one process, an epoch each in turns, whose order alternates.

    Args:
        names: Of the trainers, on processors where they are pinned.
        epochs: That count.
        pinned: Whether each trainer stays on a core of its own, so that one core less makes one of them slower; else
            the system moves them, and makes all of them slower.
    """
    graph = Graph.load("synthetic:nodes=40000,degree=12,classes=16,features=64")
    config, task = TrainConfig(batch_size=1024), Task(model="sage", hidden_channels=128, fanouts=(10, 5))
    with ExitStack() as stack:

        def opened(shares: tuple[int, ...] | None, adapts: bool) -> HybridTrainer:
            several = Trainers(names, shares, adapt=adapts).on(graph, config, task)
            devices: Sequence[Device] = several.devices
            if pinned:
                devices = [_Pinned(device, core) for device, core in zip(devices, cycle(sorted(home())), strict=False)]
            controller = default_controller(config, devices) if adapts else None
            trainer = HybridTrainer(
                graph,
                config,
                task,
                devices=devices,
                assignment=several.assignment,
                stall_s=STALL_S,
                controller=controller,
            )
            return stack.enter_context(trainer)

        fixed, adapted = opened(None, False), opened(None, True)
        first, others = config.batch_size, len(fixed.devices) - 1
        tried = []
        for share in _TRIED:
            own = round(share * first)
            tried.append(opened((own, *divide(first - own, [1.0] * others)), False))
        found = []
        for phase in PHASES:
            with taken_core(phase == "a core taken"):
                found.append(_measured(phase, fixed, adapted, tried if phase == "a core taken" else [], epochs))
        return found


def _measured(
    phase: Phase, fixed: HybridTrainer, adapted: HybridTrainer, tried: Sequence[HybridTrainer], epochs: int
) -> PhaseFound:
    seconds: dict[HybridTrainer, list[float]] = {one: [] for one in (fixed, adapted, *tried)}
    division = adapted.division
    assert division is not None, "it adapts"
    before, told = len(division.changes), len(division.lines)
    for number in range(_SKIPPED + epochs):
        turn = [fixed, adapted, *tried] if number >= _SKIPPED else [fixed, adapted]
        for one in turn if number % 2 else reversed(turn):
            taken = _epoch(one, number)
            if number >= _SKIPPED:
                seconds[one].append(taken)
    medians = {one: statistics.median(values) for one, values in seconds.items()}
    ratios = [after / own for after, own in zip(seconds[adapted], seconds[fixed], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    best = min(tried, key=medians.__getitem__) if tried else None
    return PhaseFound(
        phase,
        medians[fixed],
        medians[adapted],
        (statistics.median(ratios), low, high),
        None if best is None else medians[best],
        () if best is None else best.assignment.shares,
        adapted.assignment.shares,
        len(division.changes) - before,
        division.lines[told:],
    )


def _epoch(trainer: HybridTrainer, number: int) -> float:
    """Returns the mean seconds from one mini-batch of an epoch to the next, the first and the smaller last left out."""
    found = []
    for step in trainer.steps(number):
        assert trainer.times is not None, "a mini-batch was trained"
        if step.index and step.seeds == trainer.config.batch_size:
            found.append(trainer.times.iteration or 0.0)
    return statistics.fmean(found)


@contextmanager
def taken_core(is_taken: bool) -> Iterator[None]:
    """Has another process compute on the first core meanwhile, if `is_taken`."""
    if not is_taken:
        yield
        return
    core = min(home())
    script = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", script])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def described(*, pinned: bool) -> str:
    """Returns on what it was measured, for the table's title."""
    where = "each trainer on a core of its own" if pinned else "wherever the system runs them"
    return f"seconds per mini-batch on {available_cores()} cores, {where}, in turns"

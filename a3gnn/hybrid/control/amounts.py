"""How much is moved: as many seeds or threads as would make two stages take equally long, by what was measured."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.algorithm1 import Action, BalancedStage

#: The field of `Threads` that a stage's threads are.
_THREADS: dict[BalancedStage, str] = {
    "sampling on processors": "sampling",
    "loading": "loading",
    "training on processors": "training",
}


class Bounds(NamedTuple):
    """What may be changed, and how far.

    Attributes:
        accelerators: The most seeds that all accelerators together may have: what fits into their memory.
        threads: Whether the host's threads may go from one stage to another.
    """

    accelerators: int
    threads: bool = True


def apply(action: Action, assignment: Assignment, slow_s: float, fast_s: float, bounds: Bounds) -> Assignment:
    """Returns `assignment` with as much moved as makes both stages equally long; itself where nothing is to be moved.

    Seconds are taken as proportional to seeds, and to one over threads. A stage keeps a seed and a thread at least, and
    the mini-batch its size.

    Args:
        action: What is moved.
        assignment: What was measured.
        slow_s: Measured seconds of `action.slow`.
        fast_s: Measured seconds of `action.fast`.
        bounds: Of shares.
    """
    if action.kind == "threads":
        return _move_threads(action, assignment, slow_s, fast_s) if bounds.threads else assignment
    slow, fast = seeds_of(action.slow, assignment), seeds_of(action.fast, assignment)
    moved = (slow_s - fast_s) / (slow_s / slow + fast_s / fast)
    return with_moved_seeds(action, assignment, round(moved), bounds)


def with_moved_seeds(action: Action, assignment: Assignment, moved: int, bounds: Bounds) -> Assignment:
    """Returns `assignment` with `moved` seeds of `action.slow` given to `action.fast`, as far as bounds allow."""
    left = max(seeds_of(action.slow, assignment) - max(moved, 0), 1)
    batch, own, there = assignment.batch_size, assignment.seeds_of("processor"), assignment.sampled_on_accelerators
    if action.slow == "sampling on processors":
        there = batch - left
    elif action.slow == "sampling on accelerators":
        there = left
    elif action.slow == "accelerators":
        own = batch - left
    else:
        own = max(left, batch - bounds.accelerators)
    return assignment.divided(own, there, assignment.threads)


def seeds_of(stage: BalancedStage, assignment: Assignment) -> int:
    """Returns the seeds of a stage that has a partner."""
    on_devices = assignment.sampled_on_accelerators
    if stage == "sampling on processors":
        return assignment.batch_size - on_devices
    if stage == "sampling on accelerators":
        return on_devices
    return assignment.seeds_of("processor" if stage == "training on processors" else "accelerator")


def threads_of(stage: BalancedStage, threads: Threads) -> int:
    """Returns the host's threads of `stage`, one of `PROCESSOR_STAGES`."""
    return int(getattr(threads, _THREADS[stage]))


def with_moved_threads(action: Action, assignment: Assignment, moved: int) -> Assignment:
    """Returns `assignment` with `moved` threads of `action.fast` given to `action.slow`, which leaves it one."""
    slow, fast = threads_of(action.slow, assignment.threads), threads_of(action.fast, assignment.threads)
    moved = min(moved, fast - 1)
    if moved < 1:
        return assignment
    numbers = {_THREADS[action.slow]: slow + moved, _THREADS[action.fast]: fast - moved}
    return dataclasses.replace(assignment, threads=dataclasses.replace(assignment.threads, **numbers))


def _move_threads(action: Action, assignment: Assignment, slow_s: float, fast_s: float) -> Assignment:
    """Moves what makes both equally long, rounded down; one thread where that still helps the slower of the two."""
    slow, fast = threads_of(action.slow, assignment.threads), threads_of(action.fast, assignment.threads)
    moved = math.floor(slow * fast * (slow_s - fast_s) / (slow_s * slow + fast_s * fast))
    if moved < 1 and fast > 1 and fast_s * fast / (fast - 1) < slow_s:
        moved = 1
    return with_moved_threads(action, assignment, moved)

"""`Controller`: who changes the division of work by what was measured; and the paper's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.training.adapting.stage_times import Adjusts, StageTimes

#: The stages that Algorithm 1 sorts, in the order of its line 2: sampling on processors (T_SC) and on accelerators
#: (T_SA), feature loading (T_Load), training on processors (T_TC), and on accelerators with the transfer (T_Accel).
BalancedStage = Literal[
    "sampling on processors", "sampling on accelerators", "loading", "training on processors", "accelerators"
]
BALANCED_STAGES: tuple[BalancedStage, ...] = get_args(BalancedStage)
#: Those on the host's threads, as in line 7.
PROCESSOR_STAGES: tuple[BalancedStage, ...] = ("sampling on processors", "loading", "training on processors")
#: The other half of the work: what one gives, the other has.
PARTNERS: Mapping[BalancedStage, BalancedStage] = {
    "sampling on processors": "sampling on accelerators",
    "sampling on accelerators": "sampling on processors",
    "training on processors": "accelerators",
    "accelerators": "training on processors",
}


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be balanced.

    Attributes:
        kind: Seeds, or the host's threads.
        slow: The stage that is to get faster: it gives seeds, or gets threads.
        fast: The stage that gets seeds, or gives threads.
    """

    kind: Literal["work", "threads"]
    slow: BalancedStage
    fast: BalancedStage


def balanced_seconds(assignment: Assignment, times: StageTimes) -> dict[BalancedStage, float]:
    """Returns the seconds of the stages that have work; one that has none would always be the fastest."""
    on_devices = assignment.sampled_on_accelerators
    present = {
        "sampling on processors": on_devices < assignment.batch_size,
        "sampling on accelerators": on_devices > 0,
        "loading": True,
        "training on processors": assignment.seeds_of("processor") > 0,
        "accelerators": assignment.seeds_of("accelerator") > 0,
    }
    seconds = (
        times.sampling_processor,
        times.sampling_accelerators,
        times.loading,
        times.training_processor,
        times.accelerators,
    )
    return {stage: value for stage, value in zip(BALANCED_STAGES, seconds, strict=True) if present[stage]}


def decide(seconds: Mapping[BalancedStage, float]) -> Action | None:
    """Returns what Algorithm 1 balances, or None where the stage that would help has no work.

    Lines 23 and 31 are printed as balance_thread(fastest, bottleneck); `fastest` may be T_Accel, which has no threads
    to give. The prose takes them from "the fastest CPU task", and so does this.

    Args:
        seconds: Of the stages that have work. Equal ones count in the order of `BALANCED_STAGES`.
    """
    present = [stage for stage in BALANCED_STAGES if stage in seconds]
    by_seconds = sorted(present, key=lambda stage: -seconds[stage])
    bottleneck, fastest = by_seconds[0], by_seconds[-1]
    second = by_seconds[-2] if len(by_seconds) > 1 else fastest
    partner = PARTNERS.get(bottleneck)
    if bottleneck in ("sampling on accelerators", "accelerators"):
        return _if_present(Action("work", bottleneck, PARTNERS[bottleneck]), seconds)
    if partner is not None:
        other = "accelerators" if bottleneck == "sampling on processors" else "sampling on accelerators"
        if fastest == partner or (fastest == other and second == partner):
            return Action("work", bottleneck, partner)
    on_processors = [stage for stage in by_seconds if stage in PROCESSOR_STAGES]
    return _if_present(Action("threads", bottleneck, on_processors[-1]), seconds)


def _if_present(action: Action, seconds: Mapping[BalancedStage, float]) -> Action | None:
    return action if action.fast in seconds and action.fast != action.slow else None


#: The field of `Threads` that a stage's threads are.
_THREADS: dict[BalancedStage, str] = {
    "sampling on processors": "sampling",
    "loading": "loading",
    "training on processors": "training",
}


class ShareBounds(NamedTuple):
    """What may be changed, and how far.

    Attributes:
        accelerators: The most seeds that all accelerators together may have: what fits into their memory.
        threads: Whether the host's threads may go from one stage to another.
    """

    accelerators: int
    threads: bool = True


def apply(action: Action, assignment: Assignment, slow_s: float, fast_s: float, bounds: ShareBounds) -> Assignment:
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


def with_moved_seeds(action: Action, assignment: Assignment, moved: int, bounds: ShareBounds) -> Assignment:
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


#: Share by which the bottleneck must take longer than the stage that is to help it. Guess, above the usual noise.
_HYSTERESIS = 0.05


class Controller(Adjusts[Assignment], Protocol):
    """Changes the division of work; simulated and real trainers have the same."""


class Algorithm1:
    """HyScale-GNN's dynamic resource management as printed, its misprint mended (`decide`).

    The paper does not say how much is moved: here as much as would make both stages equally long (`apply`).

    Args:
        bounds: Of shares.
        hysteresis: Share by which the bottleneck must take longer than the stage that is to help it.
    """

    def __init__(self, bounds: ShareBounds, hysteresis: float = _HYSTERESIS) -> None:
        self._bounds, self._hysteresis = bounds, hysteresis

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division after one action of Algorithm 1."""
        seconds = balanced_seconds(assignment, times)
        action = decide(seconds)
        if action is None or seconds[action.slow] <= (1 + self._hysteresis) * seconds[action.fast]:
            return assignment
        return apply(action, assignment, seconds[action.slow], seconds[action.fast], self._bounds)

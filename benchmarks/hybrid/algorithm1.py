"""`Algorithm1`: HyScale-GNN's dynamic resource management (section IV-A)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.controller import ShareBounds
from a3gnn.hybrid.stage_times import StageTimes

#: The stages that Algorithm 1 sorts, in the order of its line 2: sampling on processors (T_SC) and on accelerators
#: (T_SA), feature loading (T_Load), training on processors (T_TC), and on accelerators with the transfer (T_Accel).
BalancedStage = Literal[
    "sampling on processors", "sampling on accelerators", "loading", "training on processors", "accelerators"
]
BALANCED_STAGES: tuple[BalancedStage, ...] = get_args(BalancedStage)
#: The stages on the host's threads, as in line 7.
PROCESSOR_STAGES: tuple[BalancedStage, ...] = ("sampling on processors", "loading", "training on processors")
#: The stage that does the other half of the same work: one stage's seeds are taken from its partner's.
PARTNERS: Mapping[BalancedStage, BalancedStage] = {
    "sampling on processors": "sampling on accelerators",
    "sampling on accelerators": "sampling on processors",
    "training on processors": "accelerators",
    "accelerators": "training on processors",
}

#: The field of `Threads` for each stage on the host's threads.
_THREADS: dict[BalancedStage, str] = {
    "sampling on processors": "sampling",
    "loading": "loading",
    "training on processors": "training",
}

#: Least share by which the bottleneck must be slower than the stage that helps it. Guess, above the usual noise.
_HYSTERESIS = 0.05


@dataclass(frozen=True, slots=True)
class Action:
    """A move that balances two stages.

    Attributes:
        kind: Moves seeds, or the host's threads.
        slow: The stage to speed up: it gives seeds, or gets threads.
        fast: The stage that gets seeds, or gives threads.
    """

    kind: Literal["work", "threads"]
    slow: BalancedStage
    fast: BalancedStage


class Algorithm1:
    """HyScale-GNN's dynamic resource management as printed, except for a corrected misprint (`decide`).

    The paper does not state how much is moved. This class moves enough to make both stages equally long (`apply`).

    Args:
        bounds: Bounds of a change.
        hysteresis: Least share by which the bottleneck must be slower than the stage that helps it.
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


def balanced_seconds(assignment: Assignment, times: StageTimes) -> dict[BalancedStage, float]:
    """Returns the seconds of the stages that have work; a stage without work would always be the fastest."""
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
    """Returns the action of Algorithm 1, or None if the stage that would help has no work.

    Lines 23 and 31 are printed as balance_thread(fastest, bottleneck), but `fastest` may be T_Accel, which has no
    threads to give. The prose takes threads from "the fastest CPU task", and so does this function.

    Args:
        seconds: Seconds of the stages that have work. Ties are broken by the order of `BALANCED_STAGES`.
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


def apply(action: Action, assignment: Assignment, slow_s: float, fast_s: float, bounds: ShareBounds) -> Assignment:
    """Returns `assignment` after `action`, which makes both stages equally long; unchanged if nothing can move.

    Assumes that seconds are proportional to seeds, and to one over threads. A stage keeps at least a seed and a thread,
    and the mini-batch keeps its size.

    Args:
        action: The action.
        assignment: The measured assignment.
        slow_s: Measured seconds of `action.slow`.
        fast_s: Measured seconds of `action.fast`.
        bounds: Bounds of the change.
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
    """Returns `assignment` with up to `moved` threads of `action.fast` given to `action.slow`; one thread stays."""
    slow, fast = threads_of(action.slow, assignment.threads), threads_of(action.fast, assignment.threads)
    moved = min(moved, fast - 1)
    if moved < 1:
        return assignment
    numbers = {_THREADS[action.slow]: slow + moved, _THREADS[action.fast]: fast - moved}
    return dataclasses.replace(assignment, threads=dataclasses.replace(assignment.threads, **numbers))


def _move_threads(action: Action, assignment: Assignment, slow_s: float, fast_s: float) -> Assignment:
    """Moves the threads that make both equally long, rounded down; or one thread if that helps the slower stage."""
    slow, fast = threads_of(action.slow, assignment.threads), threads_of(action.fast, assignment.threads)
    moved = math.floor(slow * fast * (slow_s - fast_s) / (slow_s * slow + fast_s * fast))
    if moved < 1 and fast > 1 and fast_s * fast / (fast - 1) < slow_s:
        moved = 1
    return with_moved_threads(action, assignment, moved)

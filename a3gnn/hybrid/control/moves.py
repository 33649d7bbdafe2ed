"""`MOVES`: what a learned controller can do: what Algorithm 1 can, by several amounts, and go back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Literal, NamedTuple

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.algorithm1 import PARTNERS, PROCESSOR_STAGES, Action, BalancedStage
from a3gnn.hybrid.control.amounts import Bounds, apply, threads_of, with_moved_seeds, with_moved_threads

#: How much is moved: what makes both stages equally long; an eighth or a 32nd of the mini-batch's seeds; or a thread,
#: or half of those of the stage that gives.
Amount = Literal["balance", "eighth", "little", "one", "half"]


class Move(NamedTuple):
    """What is moved between which stages."""

    action: Action
    amount: Amount


#: What is done where nothing is moved: the division stays, or it is again the fastest that was measured.
STAY, BACK = 0, 1
MOVES: tuple[Move, ...] = (
    *(
        Move(Action("work", slow, fast), amount)
        for slow, fast in PARTNERS.items()
        for amount in ("balance", "eighth", "little")
    ),
    *(
        Move(Action("threads", slow, fast), amount)
        for slow, fast in permutations(PROCESSOR_STAGES, 2)
        for amount in ("balance", "one", "half")
    ),
)
#: Of a controller: `STAY`, `BACK`, and the moves after them.
NUM_ACTIONS = 2 + len(MOVES)


def moved(move: Move, assignment: Assignment, seconds: Mapping[BalancedStage, float], bounds: Bounds) -> Assignment:
    """Returns `assignment` after `move`; itself where a stage of it has no work, or none is to be moved.

    Args:
        move: What is moved.
        assignment: What was measured.
        seconds: Of the stages that have work (`balanced_seconds`).
        bounds: Of shares.
    """
    action, amount = move
    if action.slow not in seconds or action.fast not in seconds:
        return assignment
    if amount == "balance":
        if seconds[action.slow] <= seconds[action.fast]:
            return assignment
        return apply(action, assignment, seconds[action.slow], seconds[action.fast], bounds)
    if action.kind == "work":
        seeds = assignment.batch_size // (8 if amount == "eighth" else 32)
        return with_moved_seeds(action, assignment, max(seeds, 1), bounds)
    if not bounds.threads:
        return assignment
    threads = 1 if amount == "one" else threads_of(action.fast, assignment.threads) // 2
    return with_moved_threads(action, assignment, threads)

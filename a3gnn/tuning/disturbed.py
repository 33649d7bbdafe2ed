"""Which alternations of a play-off count, where other work disturbed some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from a3gnn.tuning.comparison import Pair
from a3gnn.tuning.play_off_plan import ALTERNATIONS


class Parted(NamedTuple):
    """Alternations by which speeds are compared, and those that are left out."""

    counted: list[Pair]
    left_out: list[Pair]


def parted(alternations: Sequence[Pair]) -> Parted:
    """Returns which of `alternations` count.

    Where at least `ALTERNATIONS` of them are undisturbed (`Pair.disturbed`), these alone do: other work slows a default
    whose products use every core more than a choice with small batches, so that it makes a ratio larger than it is on a
    quiet machine. Where fewer are, all count: no choice of a few decides what is promised.
    """
    if not enough_undisturbed(alternations):
        return Parted(list(alternations), [])
    return Parted(
        [pair for pair in alternations if not pair.disturbed], [pair for pair in alternations if pair.disturbed]
    )


def enough_undisturbed(alternations: Sequence[Pair]) -> bool:
    """Whether `ALTERNATIONS` of them are undisturbed."""
    return sum(not pair.disturbed for pair in alternations) >= ALTERNATIONS

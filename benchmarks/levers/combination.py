"""The best values of all knobs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config
from benchmarks.levers.bench import LeverBench
from benchmarks.levers.gains import Gains
from benchmarks.levers.variants import Variant

#: What a combination is called where a single knob has its name.
COMBINED = "best of all"


class Measured(NamedTuple):
    """A variant and what it gains.

    Attributes:
        variant: The variant.
        gains: Over the default.
        alone: Over its base: what is the knob's own where another change had to wake it.
    """

    variant: Variant
    gains: Gains
    alone: Gains


def combine(bench: LeverBench, singles: Sequence[Measured], measure: str) -> Measured | None:
    """Returns the combination that gains most in `measure`, found greedily; None where no knob gains alone.

    Knobs are added one by one at the value that gains most alone, the largest gain first; one that does not add to the
    gain of those before it is left out again.

    Args:
        bench: Measures what is tried.
        singles: Each value of each knob alone.
        measure: throughput, time or memory.
    """
    best: dict[str, Measured] = {}
    for one in sorted(singles, key=lambda one: one.gains.counting(measure), reverse=True):
        if one.gains.counting(measure) > 1:
            best.setdefault(one.variant.knob, one)
    together: Measured | None = None
    for one in best.values():
        config = (together.variant.config if together else TrainConfig()).replace(**one.variant.changes())
        tried = Variant(f"{COMBINED} ({measure})", describe_config(config), config)
        gains = Gains.of(bench.measure([tried])[0])
        found = Measured(tried, gains, gains)
        if together is None or found.gains.counting(measure) > together.gains.counting(measure):
            together = found
    return together

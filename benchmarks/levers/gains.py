"""What a variant gains over its seeds, and where that counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple, Self

from a3gnn.spread import Spread
from benchmarks.levers.bench import MAX_DROP
from benchmarks.levers.cells import Cell

#: What is compared, in the order of the tables' columns.
MEASURES = ("throughput", "time", "memory")


class Gains(NamedTuple):
    """Ratios of the default's figures, or another configuration's, and a variant's, over the seeds; more is better.

    Attributes:
        throughput: Of epochs per second; None where a trial failed.
        time: Of seconds to accuracy; None where either side did not reach it with some seed.
        memory: Of peak memory; None where a trial failed.
        points: Mean validation accuracy at equal training time less the default's, in points; None if not known.
        failure: Why a trial failed, or "".
    """

    throughput: Spread | None
    time: Spread | None
    memory: Spread | None
    points: float | None
    failure: str

    @classmethod
    def of(cls, cells: Sequence[Cell], base: Sequence[Cell] = ()) -> Self:
        """Returns the gains of one variant from its cells, one per seed.

        Args:
            cells: The variant's.
            base: Those of what its ratios are told against, each beside a default of its own; the default if empty.
        """
        points = [cell.points for cell in cells]
        known = [point for point in points if point is not None]
        return cls(
            *(_spread(_ratios(name, cells, base)) for name in MEASURES),
            statistics.fmean(known) if len(known) == len(points) else None,
            next((cell.failure for cell in cells if cell.failure), ""),
        )

    def counting(self, measure: str) -> float:
        """Returns the median ratio of `measure`; 0 where there is none, or where too much accuracy is lost for it.

        At the default's accuracy there is nothing that the time to it could lose.
        """
        found: Spread | None = getattr(self, measure)
        if found is None:
            return 0.0
        kept = measure == "time" or (self.points is not None and self.points >= -100 * MAX_DROP)
        return found.median if kept else 0.0


def _spread(ratios: list[float | None]) -> Spread | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return Spread.of(known) if len(known) == len(ratios) else None


def _ratios(measure: str, cells: Sequence[Cell], base: Sequence[Cell]) -> list[float | None]:
    own: list[float | None] = [getattr(cell, measure) for cell in cells]
    other: list[float | None] = [getattr(cell, measure) for cell in base] or [1.0] * len(own)
    return [one / two if one and two else None for one, two in zip(own, other, strict=True)]

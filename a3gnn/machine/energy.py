"""`EnergyMeter`: what processors, and the GPUs that train, take while something runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from a3gnn.errors import A3GNNError
from a3gnn.machine.nvml import NvmlCounter
from a3gnn.machine.rapl import POWERCAP, RaplCounter, open_rapl

#: Seconds between two readings at least, unless one is asked for: reading takes some microseconds per counter. Guess.
_INTERVAL_S = 0.1


class EnergyMeter:
    """Reads this machine's energy counters, which also count what others run on it.

    Args:
        gpus: Devices that train, by torch's numbers.
        host: Whether this process counts the processors and their memory: one of those on a machine does.
        powercap: The folder of RAPL's domains; by default Linux's.

    Attributes:
        told: What is counted, or why it can't be, for people.
        tells: Whether all of it can be read.
    """

    def __init__(self, gpus: Sequence[int] = (), host: bool = True, powercap: Path | None = None) -> None:
        self._counters: list[RaplCounter | NvmlCounter] = []
        self._last_s, self._last_joules = perf_counter(), 0.0
        try:
            self._counters += open_rapl(powercap or POWERCAP) if host else []
            self._counters += [NvmlCounter(index) for index in gpus]
        except A3GNNError as error:
            self.tells, self.told = False, f"not told: {error}"
        else:
            self.tells, self.told = True, ", ".join(counter.name for counter in self._counters)

    def taken(self, *, now: bool = False) -> float:
        """Returns the joules since the last reading; NaN where they can't be read.

        Between readings of which less than a tenth of a second has passed it returns 0: the next one has it all.

        Args:
            now: Whether to read in any case.
        """
        if not self.tells:
            return math.nan
        at = perf_counter()
        if not now and at - self._last_s < _INTERVAL_S:
            return 0.0
        try:
            joules = sum(counter.read() for counter in self._counters)
        except (OSError, ValueError, A3GNNError) as error:  # training goes on without
            self.tells, self.told = False, f"not told: {error}"
            return math.nan
        taken = joules - self._last_joules
        self._last_s, self._last_joules = at, joules
        return taken

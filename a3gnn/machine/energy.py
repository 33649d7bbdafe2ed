"""`EnergyMeter`: energy of processors (RAPL) and of the training GPUs (NVML) over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError

#: Linux's folder of RAPL domains, for Intel and AMD.
POWERCAP = Path("/sys/class/powercap")
#: Shortest time in seconds between two readings without `now`: RAPL's counters move about every millisecond (Intel SDM,
#: volume 3B), a hundredth of it, and reading one takes some microseconds.
_INTERVAL_S = 0.1


class EnergyMeter:
    """Reads this machine's energy counters, which also count other work on the machine.

    Args:
        gpus: torch's numbers of the training devices.
        host: Whether this process counts the processors and their memory; one process per machine does.
        powercap: The folder of RAPL's domains; by default Linux's.

    Attributes:
        told: The counters, or the reason why they can't be read, for messages.
        tells: Whether all of them can be read.
    """

    def __init__(self, gpus: Sequence[int] = (), host: bool = True, powercap: Path | None = None) -> None:
        self._counters: list[RaplCounter | NvmlCounter] = []
        self._last_s, self._last_joules = perf_counter(), 0.0
        try:
            self._counters += open_rapl(powercap or POWERCAP) if host else []
            self._counters += [NvmlCounter(index) for index in gpus]
        except A3GNNError as error:
            self.tells, self.told = False, f"unknown: {error}"
        else:
            self.tells, self.told = True, ", ".join(counter.name for counter in self._counters)

    def taken(self, *, now: bool = False) -> float:
        """Returns the joules since the last reading; NaN if the counters can't be read.

        It returns 0 if the last reading is less than a tenth of a second old; the next reading includes that energy.

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
        except (OSError, ValueError, A3GNNError) as error:  # training continues without energy
            self.tells, self.told = False, f"unknown: {error}"
            return math.nan
        taken = joules - self._last_joules
        self._last_s, self._last_joules = at, joules
        return taken


class RaplCounter:
    """The energy of one domain, such as package-0, since this object was made.

    The kernel's counter wraps around at `max_energy_range_uj`. Read it at least once in that time, which is about 20
    minutes for a processor at 200 W.

    Args:
        folder: The domain's folder, with `name`, `energy_uj` and `max_energy_range_uj`.
        within: Name of the enclosing domain; "" for none.

    Attributes:
        name: The domain's name, after the name of the enclosing domain if there is one.

    Raises:
        OSError: A file can't be read.
        ValueError: A file holds no number.
    """

    def __init__(self, folder: Path, within: str = "") -> None:
        self.name = f"{within} {_text(folder / 'name')}".strip()
        self._counter, self._range = folder / "energy_uj", int(_text(folder / "max_energy_range_uj"))
        self._last, self._total = int(_text(self._counter)), 0

    def read(self) -> float:
        """Returns the joules that the domain has taken since this object was made."""
        now = int(_text(self._counter))
        self._total += now - self._last if now >= self._last else now - self._last + self._range
        self._last = now
        return self._total / 1e6


def open_rapl(powercap: Path = POWERCAP) -> list[RaplCounter]:
    """Returns the counters of all packages, and of their memory, which a package's counter leaves out.

    Cores and graphics are part of a package's energy, and psys contains the packages, so these domains are left out.

    Args:
        powercap: The folder of RAPL's domains.

    Raises:
        A3GNNError: There are no counters, or they can't be read.
    """
    try:
        found = list(_counters(powercap))
    except (OSError, ValueError) as error:
        raise A3GNNError(
            f"RAPL's counters can't be read ({error}); if root owns them, train as root or chmod a+r them"
        ) from error
    if not found:
        raise A3GNNError(
            f"RAPL is not available: {powercap} has no intel-rapl:N of a package, as in most virtual machines"
        )
    return found


class NvmlCounter:
    """The energy of one GPU since this object was made; the counter holds mJ in 64 bits and does not wrap around.

    Args:
        index: torch's number of the device.

    Raises:
        MissingDependencyError: nvidia-ml-py is not installed.
        A3GNNError: The driver, or the GPU (before Volta), has no energy counter.
    """

    def __init__(self, index: int) -> None:
        import torch

        self._nvml: Any = optional("pynvml", "energy", "the energy of GPUs")
        try:
            self._nvml.nvmlInit()
            properties = torch.cuda.get_device_properties(index)
            self.name = f"cuda:{index} ({properties.name})"
            self._device = self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
            self._first = self._millijoules()
        except self._nvml.NVMLError as error:
            raise A3GNNError(f"NVML can't read the energy of cuda:{index}: {error}") from error

    def read(self) -> float:
        """Returns the joules that the GPU has taken since this object was made.

        Raises:
            A3GNNError: The driver no longer answers.
        """
        try:
            return (self._millijoules() - self._first) / 1e3
        except self._nvml.NVMLError as error:
            raise A3GNNError(f"NVML can no longer read the energy of {self.name}: {error}") from error

    def _millijoules(self) -> int:
        return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device))


def _counters(powercap: Path) -> Iterator[RaplCounter]:
    for folder in sorted(powercap.glob("intel-rapl:*")):
        parent, *inner = folder.name.removeprefix("intel-rapl:").split(":")
        if not inner and _text(folder / "name").startswith("package"):
            yield RaplCounter(folder)
        elif len(inner) == 1 and _text(folder / "name") == "dram":
            yield RaplCounter(folder, _text(powercap / f"intel-rapl:{parent}" / "name"))


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()

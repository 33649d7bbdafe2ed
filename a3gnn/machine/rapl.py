"""RAPL: the energy counters of processors, as Linux shows them under /sys/class/powercap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from a3gnn.errors import A3GNNError

#: Where Linux shows them, Intel's and AMD's.
POWERCAP = Path("/sys/class/powercap")


class RaplCounter:
    """The energy of one domain, such as package-0, since this was made.

    The kernel's counter wraps around at `max_energy_range_uj`: read it at least once in that time, which is about 20
    minutes of a processor at 200 W.

    Args:
        folder: The domain's, with `name`, `energy_uj` and `max_energy_range_uj`.
        within: The name of the domain that it is within; "" for none.

    Attributes:
        name: The domain's; of one within another, after that one's.

    Raises:
        OSError: A file can't be read.
        ValueError: A file holds no number.
    """

    def __init__(self, folder: Path, within: str = "") -> None:
        self.name = f"{within} {_text(folder / 'name')}".strip()
        self._counter, self._range = folder / "energy_uj", int(_text(folder / "max_energy_range_uj"))
        self._last, self._total = int(_text(self._counter)), 0

    def read(self) -> float:
        """Returns the joules that the domain has taken since this was made."""
        now = int(_text(self._counter))
        self._total += now - self._last if now >= self._last else now - self._last + self._range
        self._last = now
        return self._total / 1e6


def open_rapl(powercap: Path = POWERCAP) -> list[RaplCounter]:
    """Returns the counters of all packages, and of memory beside them, which a package's does not count.

    Cores and graphics are within a package's energy, and psys has packages in it, so that these are left out.

    Args:
        powercap: The folder of RAPL's domains.

    Raises:
        A3GNNError: There are none, or they can't be read.
    """
    try:
        found = list(_counters(powercap))
    except (OSError, ValueError) as error:
        raise A3GNNError(
            f"RAPL's counters can't be read ({error}); where root owns them, train as root, or chmod a+r them"
        ) from error
    if not found:
        raise A3GNNError(f"there is no RAPL: {powercap} has no intel-rapl:N of a package, as in most virtual machines")
    return found


def _counters(powercap: Path) -> Iterator[RaplCounter]:
    for folder in sorted(powercap.glob("intel-rapl:*")):
        parent, *inner = folder.name.removeprefix("intel-rapl:").split(":")
        if not inner and _text(folder / "name").startswith("package"):
            yield RaplCounter(folder)
        elif len(inner) == 1 and _text(folder / "name") == "dram":
            yield RaplCounter(folder, _text(powercap / f"intel-rapl:{parent}" / "name"))


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()

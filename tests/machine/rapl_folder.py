"""A folder in RAPL's layout, as `a3gnn.machine.energy` reads it: files, written as the kernel's would read."""

from __future__ import annotations

from pathlib import Path

#: Where counters wrap around, in microjoules: 262 kJ, as of many processors.
RANGE_UJ = 262_143_328_850


class RaplFolder:
    """Domains under `path`, all at `RANGE_UJ` less 1 J."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)

    def add(self, folder: str, name: str) -> None:
        domain = self.path / folder
        domain.mkdir()
        (domain / "name").write_text(f"{name}\n")
        (domain / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (domain / "energy_uj").write_text(f"{RANGE_UJ - 1_000_000}\n")

    def take(self, folder: str, joules: float) -> None:
        """Advances a counter, which wraps around."""
        counter = self.path / folder / "energy_uj"
        counter.write_text(f"{(int(counter.read_text()) + round(joules * 1e6)) % RANGE_UJ}\n")


def two_packages(path: Path) -> RaplFolder:
    """As of two sockets with memory counters, and of what must not be counted beside them."""
    made = RaplFolder(path)
    (path / "intel-rapl").mkdir()  # the control type
    for folder, name in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:1:0", "dram"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl-mmio:0", "package-0"),
    ):
        made.add(folder, name)
    return made

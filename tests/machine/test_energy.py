"""Energy counters, read from files in RAPL's layout."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.machine.energy import POWERCAP, EnergyMeter, NvmlCounter, RaplCounter, open_rapl
from tests.machine.rapl_folder import RANGE_UJ, RaplFolder, two_packages


@pytest.fixture
def rapl(tmp_path: Path) -> RaplFolder:
    return two_packages(tmp_path / "powercap")


def test_packages_and_memory_are_counted_and_nothing_twice(rapl: RaplFolder) -> None:
    counters = open_rapl(rapl.path)
    assert [counter.name for counter in counters] == ["package-0", "package-0 dram", "package-1", "package-1 dram"]
    for folder in ("intel-rapl:0", "intel-rapl:0:1"):
        rapl.take(folder, 0.25)
    for folder in ("intel-rapl:0:0", "intel-rapl:2", "intel-rapl-mmio:0"):
        rapl.take(folder, 17)
    assert [counter.read() for counter in counters] == [0.25, 0.25, 0.0, 0.0]


def test_a_counter_wraps_around_as_often_as_it_does(rapl: RaplFolder) -> None:
    counter = RaplCounter(rapl.path / "intel-rapl:0")
    rapl.take("intel-rapl:0", 2.5)  # it was 1 J below its range
    assert int((rapl.path / "intel-rapl:0" / "energy_uj").read_text()) == 1_500_000
    assert counter.read() == 2.5
    for _ in range(3):
        rapl.take("intel-rapl:0", RANGE_UJ / 1e6 - 10)
        counter.read()
    assert counter.read() == pytest.approx(2.5 + 3 * (RANGE_UJ / 1e6 - 10), rel=1e-12)


def test_a_meter_adds_them_up_and_tells_what_it_counts(rapl: RaplFolder) -> None:
    meter = EnergyMeter(powercap=rapl.path)
    assert meter.told == "package-0, package-0 dram, package-1, package-1 dram"
    rapl.take("intel-rapl:0", 3)
    rapl.take("intel-rapl:1:0", 0.5)
    assert meter.taken(now=True) == 3.5
    assert meter.taken(now=True) == 0.0
    assert meter.tells


def test_readings_that_follow_soon_are_left_to_the_next(rapl: RaplFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.04, 0.08, 0.12, 0.16, 0.25])
    monkeypatch.setattr("a3gnn.machine.energy.perf_counter", lambda: next(clock))
    meter, found = EnergyMeter(powercap=rapl.path), []
    for _ in range(5):
        rapl.take("intel-rapl:0", 1)
        found.append(meter.taken())
    assert found == [0.0, 0.0, 3.0, 0.0, 2.0]


def test_ranks_that_do_not_count_the_machine_count_nothing(rapl: RaplFolder) -> None:
    meter = EnergyMeter(host=False, powercap=rapl.path)
    rapl.take("intel-rapl:0", 1)
    assert meter.taken(now=True) == 0.0


def test_no_rapl_is_said_and_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(A3GNNError, match=r"RAPL is not available: .* has no intel-rapl:N of a package"):
        open_rapl(tmp_path)
    meter = EnergyMeter(powercap=tmp_path / "none")
    assert math.isnan(meter.taken(now=True))
    assert meter.told.startswith("unknown: RAPL is not available")


def test_counters_that_cannot_be_read_are_said(rapl: RaplFolder) -> None:
    (rapl.path / "intel-rapl:1" / "energy_uj").unlink()
    with pytest.raises(A3GNNError, match=r"can't be read \(.*energy_uj.*chmod a\+r"):
        open_rapl(rapl.path)


def test_a_counter_that_is_lost_meanwhile_ends_no_training(rapl: RaplFolder) -> None:
    meter = EnergyMeter(powercap=rapl.path)
    (rapl.path / "intel-rapl:0:1" / "energy_uj").write_text("no number")
    assert math.isnan(meter.taken(now=True))
    assert not meter.tells
    assert "no number" in meter.told


@pytest.mark.skipif(not list(POWERCAP.glob("intel-rapl:*")), reason=f"no RAPL: {POWERCAP} has none")
def test_this_machines_counters_advance_or_are_said_to_be_unreadable() -> None:
    meter = EnergyMeter()
    if meter.tells:
        time.sleep(0.05)
        assert meter.taken(now=True) > 0
    else:
        assert "chmod" in meter.told


def test_without_nvml_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(A3GNNError, match=r'pip install "a3gnn\[energy\]"'):
        NvmlCounter(0)


def test_without_a_driver_nvml_says_so(rapl: RaplFolder) -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        meter = EnergyMeter([0], powercap=rapl.path)
        assert meter.told.startswith("unknown: NVML can't read the energy of cuda:0")
    else:
        pytest.skip("there is a driver")

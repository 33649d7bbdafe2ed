"""The hardware probe, for real."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.machine import probe
from a3gnn.machine.host import cache_sizes, instruction_sets
from a3gnn.machine.probe import device_context_bytes, kept_at, kept_hardware, moved, newer, probe_hardware, within_peaks
from a3gnn.measurement import Measurement, Metrics
from a3gnn.process.worker import Ended, Worker
from a3gnn.threads.affinity import available_cores
from tests.lines import everything

MIB = 1 << 20


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was probed is checked here, as it is for users."""
    monkeypatch.setattr(probe, "QUICK", False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probed")


@pytest.fixture(scope="module")
def probed(worker: Worker, cache: Path) -> Hardware:
    return probe_hardware(cache=cache, worker=worker)


def test_constants_are_possible(probed: Hardware) -> None:
    limits = probed.profile
    assert (probed.num_cores, probed.instruction_sets) == (available_cores(), instruction_sets())
    assert probed.cache_bytes == cache_sizes()
    rates = ("random_reads_per_s", "copy_bytes_per_s", "disk_read_bytes_per_s", "gemm_flops_per_s")
    for name in (*rates, "bf16_gemm_flops_per_s"):
        assert 1e5 < getattr(limits, name) < 1e15
    assert limits.spmm_bytes_per_s > 0
    assert 0 < limits.thread_efficiency <= 1
    assert 0 < limits.batch_overhead_s < 60


def test_idle_memory_is_that_of_a_process_that_does_nothing(probed: Hardware, worker: Worker) -> None:
    ended = worker.run("chores:idle", {})
    assert ended.result is not None
    # Compiling a kernel, or a matrix product, would add as much as an idle process takes.
    assert abs(probed.profile.idle_host_bytes - ended.result["bytes"]) < ended.result["bytes"] / 2


def test_what_was_probed_is_kept_for_whoever_measures_nothing(
    probed: Hardware, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_hardware(cache) == probed
    assert kept_hardware(tmp_path) is None
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("A3GNN_CACHE", str(cache))
    assert device_context_bytes() == probed.profile.idle_device_bytes
    damaged = kept_at(probed, tmp_path)
    damaged.parent.mkdir()
    damaged.write_text("{}")
    assert kept_hardware(tmp_path) is None


def test_constants_are_kept_and_idle_memory_is_measured_again(
    probed: Hardware, worker: Worker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Ended] = []

    def noted(entry: str, *arguments: Any, **options: Any) -> Ended:
        ended = Worker.run(worker, entry, *arguments, **options)
        found.extend([ended] if entry == "a3gnn.machine.probe:idle_memory" else [])
        return ended

    monkeypatch.setattr(worker, "run", noted)
    path = kept_at(probed, cache)
    fields = json.loads(path.read_text())
    # Constants that no check can find too low, and an idle memory that was measured while kernels were compiled.
    fields["limits"] |= {"idle_host_bytes": probed.profile.idle_host_bytes + 150 * MIB, "spmm_bytes_per_s": 12.5}
    fields["limits"] |= dict.fromkeys(("random_reads_per_s", "copy_bytes_per_s", "gemm_flops_per_s"), 0.0)
    path.write_text(json.dumps(fields))
    again = probe_hardware(cache=cache, worker=worker)
    assert again.profile.spmm_bytes_per_s == 12.5
    assert [ended.result for ended in found] == [{"idle_host_bytes": again.profile.idle_host_bytes}]
    assert json.loads(path.read_text()) == json.loads(json.dumps(again.to_dict()))


def test_constants_that_have_moved_are_probed_again_and_said(
    probed: Hardware, worker: Worker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = probed.to_dict()
    # A thousandth: however much other work slows the check, it finds far more.
    kept = fields["limits"] | {"copy_bytes_per_s": probed.profile.copy_bytes_per_s / 1000, "thread_efficiency": 0.125}
    kept |= {"idle_host_bytes": 7 * MIB}
    kept_at(probed, cache).write_text(json.dumps(fields | {"limits": kept}))
    lines: list[str] = []
    with monkeypatch.context() as quick:
        quick.setattr(probe, "QUICK", True)
        unchecked = probe_hardware(cache=cache, worker=worker, notify=everything(lines)).profile
    assert unchecked == MachineProfile.from_dict(kept)
    assert not lines
    again = probe_hardware(cache=cache, worker=worker, notify=everything(lines))
    assert again.profile.copy_bytes_per_s > 2 * kept["copy_bytes_per_s"]
    assert again.profile.idle_host_bytes > 7 * MIB
    told = next(line for line in lines if "it has changed" in line)
    assert "copy_bytes_per_s changed by a factor of" in told


@pytest.mark.weekly  # a damaged file is none above
def test_a_file_that_can_not_be_read_is_probed_again(probed: Hardware, worker: Worker, tmp_path: Path) -> None:
    path = kept_at(probed, tmp_path)
    path.parent.mkdir()
    path.write_text('{"limits": {"copy_bytes_per_s": 1}}')
    assert probe_hardware(cache=tmp_path, worker=worker).profile.copy_bytes_per_s > 1e5


LIMITS = MachineProfile(1e8, 1e10, 1e9, 1e11, 1e10, 0.8, 1e-3, 200 * MIB)


@pytest.mark.parametrize(
    ("found", "faster", "slower"),
    [
        ({"random_reads_per_s": 1.4e8}, set(), set()),
        ({"random_reads_per_s": 0.7e8}, set(), set()),
        ({"random_reads_per_s": 1.6e8, "gemm_flops_per_s": 0.6e11}, {"random_reads_per_s"}, {"gemm_flops_per_s"}),
        ({"batch_overhead_s": 2e-3}, set(), {"batch_overhead_s"}),
        ({"batch_overhead_s": 0.5e-3}, {"batch_overhead_s"}, set()),
        ({"idle_host_bytes": 900 * MIB, "device_gemm_flops_per_s": 1e12}, set(), set()),
    ],
)
def test_what_has_moved_by_half(found: dict[str, float], faster: set[str], slower: set[str]) -> None:
    assert set(moved(LIMITS, found)) == faster | slower
    # Beside other work, that the machine is slower says nothing.
    assert set(moved(LIMITS, found, only_faster=True)) == faster


def test_only_what_has_moved_is_replaced() -> None:
    again = MachineProfile(2e8, 1.2e10, 2e9, 2e11, 2e10, 0.4, 2e-3, 300 * MIB)
    found = newer(LIMITS, again, moved(LIMITS, {"random_reads_per_s": 2e8, "copy_bytes_per_s": 1.2e10}))
    assert found == dataclasses.replace(LIMITS, random_reads_per_s=2e8)


def test_idle_memory_is_never_above_a_measured_peak(
    measurement: Callable[..., Measurement], metrics: Metrics, this_machine: Hardware, hardware: Hardware
) -> None:
    small = measurement(TrainConfig(), dataclasses.replace(metrics, peak_host_bytes=120 * MIB))
    smaller = measurement(TrainConfig(), dataclasses.replace(metrics, peak_host_bytes=90 * MIB))
    elsewhere = dataclasses.replace(smaller, setting=dataclasses.replace(smaller.setting, hardware=hardware))
    lines: list[str] = []
    assert this_machine.profile.idle_host_bytes == 150 * MIB
    found = within_peaks(this_machine, [measurement(TrainConfig()), elsewhere, small], lines.append)
    assert found.profile.idle_host_bytes == 120 * MIB
    assert len(lines) == 1
    assert "150 MiB for an idle trial" in lines[0]
    assert "peaked at 120 MiB" in lines[0]
    assert within_peaks(found, [small, elsewhere], lines.append) is found
    assert len(lines) == 1

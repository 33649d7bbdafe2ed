"""The hardware probe, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.hardware import available_cores
from a3gnn.profiling.probe import probe_hardware


@pytest.mark.slow
def test_the_probe_measures_once(tmp_path: Path) -> None:
    found = probe_hardware(cache=tmp_path)
    limits = found.limits
    assert found.num_cores == available_cores()
    for name in ("random_reads_per_s", "copy_bytes_per_s", "disk_read_bytes_per_s", "gemm_flops_per_s"):
        assert 1e5 < getattr(limits, name) < 1e15
    assert limits.spmm_bytes_per_s > 0
    assert 0 < limits.thread_efficiency <= 1
    assert 0 < limits.batch_overhead_s < 60
    assert 10 << 20 < limits.idle_host_bytes < 2 << 30
    assert probe_hardware(cache=tmp_path) == found

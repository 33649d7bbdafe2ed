"""A machine, for tests that only need one."""

import pytest

from a3gnn.hardware import Hardware, HardwareLimits


@pytest.fixture
def hardware() -> Hardware:
    limits = HardwareLimits(
        random_reads_per_s=6e7,
        copy_bytes_per_s=1e10,
        disk_read_bytes_per_s=5e9,
        gemm_flops_per_s=8e10,
        spmm_bytes_per_s=1e10,
        thread_efficiency=0.9,
        batch_overhead_s=2e-3,
        idle_host_bytes=250 * 2**20,
    )
    return Hardware("a processor", 2, 8 * 2**30, "", 0, 0, limits)

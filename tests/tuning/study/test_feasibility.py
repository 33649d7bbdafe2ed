"""Limits that nothing can keep: what is said names the smallest one that is worth a try."""

import dataclasses

import pytest

from a3gnn.hardware import Hardware
from a3gnn.limits import Limits
from a3gnn.option_names import as_flags
from a3gnn.tuning.study.limits import why_infeasible

MiB = 2**20


@pytest.mark.parametrize("idle", [219 * MiB, 219 * MiB - 1, 218 * MiB + 5])
def test_the_limit_that_is_named_is_the_smallest_whole_one_that_may_do(hardware: Hardware, idle: int) -> None:
    profile = dataclasses.replace(hardware.profile, idle_host_bytes=idle)
    machine = dataclasses.replace(hardware, profile=profile)
    smallest = next(mib for mib in range(1, 1000) if not why_infeasible(Limits(mib * MiB), machine))
    for limit in (2 * MiB, idle):
        said = why_infeasible(Limits(limit), machine)
        assert said.endswith(f"; give memory_limit='{smallest}MiB' or more")
    with as_flags():
        assert why_infeasible(Limits(MiB), machine).endswith(f"; give --memory-limit {smallest}MiB or more")

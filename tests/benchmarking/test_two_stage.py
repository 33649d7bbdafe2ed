"""The model of epochs along a schedule."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.platforms.files import read_platform
from a3gnn.platforms.metadata import Processor
from a3gnn.platforms.performance import Conditions, iteration_seconds, processor_rates
from a3gnn.platforms.workload import Workload
from a3gnn.runtime.two_stage_schedule import own_schedule, two_stage_schedule
from benchmarks.two_stage import epoch_seconds, skewed


@pytest.mark.parametrize("one", [True, False])
def test_partitions_are_as_skewed_as_asked(one: bool) -> None:
    counts = skewed(1000, 4, 1.2, one=one)
    assert sum(counts) == 1000
    assert max(counts) == 300
    assert counts.count(300) == (1 if one else 3)


def test_an_iteration_is_as_slow_as_its_slowest_mini_batch() -> None:
    """Of [6, 3, 6], two of five iterations have a mini-batch that was moved (Fig. 5)."""
    gpu = Processor("gpu", "", 1e12, 1e11)
    platform, rates = read_platform("a5000").with_devices(3), processor_rates(gpu)
    workload = Workload("w", "gcn", (1e5, 1e4, 1e3), (2e5, 1e4), (50, 16, 4), num_batches=15)
    given = Conditions(beta=0.8)
    near, far = (float(iteration_seconds(workload, rates, platform, given.replace(beta=b))[0]) for b in (0.8, 0.1))
    assert far > near
    balanced, plain = two_stage_schedule([6, 3, 6]), own_schedule([6, 3, 6])
    assert epoch_seconds(balanced, workload, rates, platform, given, 0.1) == pytest.approx(3 * near + 2 * far)
    assert epoch_seconds(plain, workload, rates, platform, given, 0.1) == pytest.approx(6 * near)
    assert np.isclose(epoch_seconds(balanced, workload, rates, platform, given, 0.8), 5 * near)

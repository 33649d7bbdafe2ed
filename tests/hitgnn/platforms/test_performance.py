"""The performance model against figures that are worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.hitgnn.platforms.metadata import Die, Fpga, Kernels, Platform, Processor
from a3gnn.hitgnn.platforms.performance import (
    Conditions,
    die_rates,
    iteration_seconds,
    layer_seconds,
    processor_rates,
    synchronization_seconds,
)
from a3gnn.hitgnn.platforms.workload import Workload

DIE = Die(dsps=1000, luts=100_000, memory_bytes_per_s=8e6)
FPGA = Fpga("fpga", "", 1e3, (DIE,), Kernels("", 16, 5, 112, ((1.0, 1.0, 0.0),)))
HOST = Processor("host", "", 1e12, 4e6)
PLATFORM = Platform("", HOST, FPGA, num_devices=1, link_bytes_per_s=1e6)
ONE = np.array([1], dtype=np.int64)


def test_a_layer_by_hand(tiny: Workload) -> None:
    """Layer 1: 4,000 rows of 20 values; 8,000 edges; 500 vertices of 20 x 10 multiplications."""
    rates = die_rates(FPGA, DIE, 2 * ONE, 5 * ONE)
    first = layer_seconds(tiny, 1, rates, PLATFORM, Conditions(beta=0.25))
    assert first.load[0] == pytest.approx(4000 * 80 * (0.25 / 8e6 + 0.75 / 1e6))
    assert first.aggregate[0] == pytest.approx(8000 * 20 / (2 * 16 * 1e3))
    assert first.update[0] == pytest.approx(500 * 20 * 10 / (5 * 1e3))
    assert first.whole[0] == first.update[0]  # 20 s, the longest of the three


def test_later_layers_read_the_devices_memory_alone(tiny: Workload) -> None:
    rates = die_rates(FPGA, DIE, ONE, ONE)
    second = layer_seconds(tiny, 2, rates, PLATFORM, Conditions(beta=0.0))
    assert second.load[0] == pytest.approx(500 * 40 / 8e6)


def test_an_iteration_by_hand(tiny: Workload) -> None:
    """Forward has both layers, backward the update of the first and the whole second."""
    rates = die_rates(FPGA, DIE, ONE, ONE)
    given = Conditions(beta=1.0, loss_seconds=3.0)
    first, second = (layer_seconds(tiny, layer, rates, PLATFORM, given) for layer in (1, 2))
    computing = first.whole + 2 * second.whole + first.update + 3
    weights = 20 * 10 + 10 * 5
    assert synchronization_seconds(tiny, PLATFORM) == pytest.approx(2 * 4 * weights / 1e6)
    expected = computing + synchronization_seconds(tiny, PLATFORM)
    assert iteration_seconds(tiny, rates, PLATFORM, given) == pytest.approx(expected)
    slow = dataclasses.replace(given, sampling_seconds=1e4)  # sampling overlaps, so it counts where it is slower
    assert iteration_seconds(tiny, rates, PLATFORM, slow) == pytest.approx(
        1e4 + synchronization_seconds(tiny, PLATFORM)
    )


def test_sage_has_two_linear_maps(tiny: Workload) -> None:
    sage = dataclasses.replace(tiny, model="sage")
    rates = die_rates(FPGA, DIE, ONE, ONE)
    once, twice = (layer_seconds(one, 1, rates, PLATFORM, Conditions(beta=1.0)) for one in (tiny, sage))
    assert twice.update == pytest.approx(2 * once.update)
    assert twice.aggregate == once.aggregate
    assert sage.num_weights == 2 * tiny.num_weights


def test_more_units_and_multipliers_are_faster_in_their_part(tiny: Workload) -> None:
    few, many = (die_rates(FPGA, DIE, k * ONE, k * ONE) for k in (1, 4))
    slow, fast = (layer_seconds(tiny, 1, rates, PLATFORM, Conditions(beta=1.0)) for rates in (few, many))
    assert slow.aggregate == pytest.approx(4 * fast.aggregate)
    assert slow.update == pytest.approx(4 * fast.update)
    assert slow.load == fast.load


def test_dies_share_a_mini_batch_by_their_dsps(tiny: Workload) -> None:
    small = dataclasses.replace(DIE, dsps=250)
    fpga = dataclasses.replace(FPGA, dies=(DIE, small, small, small, small))
    platform = dataclasses.replace(PLATFORM, device=fpga)
    rates = [die_rates(fpga, die, ONE, ONE) for die in (DIE, small)]
    assert [one.share for one in rates] == [0.5, 0.125]
    given = Conditions(beta=1.0)
    large, little = (layer_seconds(tiny, 1, one, platform, given) for one in rates)
    assert large.update == pytest.approx(4 * little.update)


def test_a_gpu_does_one_part_after_the_other(tiny: Workload) -> None:
    gpu = Processor("gpu", "", flops_per_s=2e3, memory_bytes_per_s=8e6)
    found = layer_seconds(tiny, 1, processor_rates(gpu), PLATFORM, Conditions(beta=1.0))
    assert found.aggregate[0] == pytest.approx(8000 * 80 / 8e6)  # a row is read per edge
    assert found.update[0] == pytest.approx(500 * 20 * 10 / 1e3)
    assert found.whole == pytest.approx(found.load + found.aggregate + found.update)


def test_rows_by_way_of_another_device_take_twice_as_long(tiny: Workload) -> None:
    rates = die_rates(FPGA, DIE, ONE, ONE)
    direct, indirect = (
        layer_seconds(tiny, 1, rates, PLATFORM, Conditions(beta=0.0, direct=how)) for how in (True, False)
    )
    assert indirect.load == pytest.approx(2 * direct.load)


def test_the_hosts_memory_is_shared() -> None:
    """4 MB/s of a host feed four links of 1 MB/s, and eight half as fast."""
    links = [PLATFORM.with_devices(count).device_link_bytes_per_s for count in (1, 4, 8)]
    assert links == [1e6, 1e6, 5e5]


@pytest.mark.parametrize(("field", "value"), [("beta", 1.1), ("beta", -0.1), ("beta", float("nan"))])
def test_beta_is_a_share(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=r"beta must be a share of the input rows in \[0, 1\]"):
        Conditions(**{field: value})


def test_seconds_are_not_negative() -> None:
    with pytest.raises(UsageError, match="sampling_seconds must be >= 0"):
        Conditions(beta=0.5, sampling_seconds=-1.0)

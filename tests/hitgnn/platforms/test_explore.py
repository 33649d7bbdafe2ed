"""Exploring platforms: the paper's choice, what it rests on, and how devices scale."""

from __future__ import annotations

import dataclasses
import json

import pytest

from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.hitgnn.platforms.explore import Exploration, explore
from a3gnn.hitgnn.platforms.lines import exploration_lines
from a3gnn.hitgnn.platforms.metadata import Fpga, Platform, read_platform
from a3gnn.hitgnn.platforms.performance import Conditions
from a3gnn.hitgnn.platforms.workload import Workload

GIVEN = Conditions(beta=0.25)


def nvtps_of(found: Exploration, n: int, m: int) -> float:
    """What a design of one die of the first kind is predicted to reach."""
    grid = found.grids[0]
    at = ((grid.units == n) & (grid.multipliers == m)).nonzero()[0]
    assert len(at) == 1
    return float(grid.nvtps[at[0]])


def test_the_papers_choice(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    """(8, 2048) before (16, 1024), whatever beta (Table V)."""
    found = explore(u250, workloads, GIVEN)
    assert found.design == (8, 2048)
    assert nvtps_of(found, 2, 512) > nvtps_of(found, 4, 256)
    assert found.nvtps == pytest.approx(nvtps_of(found, 2, 512))
    for one in found.betas:
        assert one.design == (8, 2048)
        assert one.traded_nvtps is not None
        assert one.traded_nvtps < one.kept_nvtps == one.nvtps


def test_a_front_is_among_what_fits_and_has_the_choice(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    grid = explore(u250, workloads, GIVEN).grids[0]
    assert not (grid.front & ~grid.fits).any()
    assert grid.front[grid.chosen]
    assert grid.front[grid.frugal]


def test_without_a_ceiling_twice_the_units_fit_and_gain_nothing(
    u250: Platform, workloads: tuple[Workload, ...]
) -> None:
    """(16, 2048) takes 97.9 % of the DSPs: a choice by throughput alone needs a ceiling, which the paper lacks."""
    found = explore(u250, workloads, Conditions(beta=0.9), ceiling=1.0)
    grid = found.grids[0]
    assert bool(grid.fits[(grid.units == 4) & (grid.multipliers == 512)][0])
    assert nvtps_of(found, 4, 512) == pytest.approx(nvtps_of(found, 2, 512), rel=1e-9)
    assert found.design == (8, 2048)


def test_every_design_holds_the_powers_of_two(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    some, every = (explore(u250, workloads, GIVEN, every=how) for how in (False, True))
    assert every.nvtps >= some.nvtps
    assert nvtps_of(every, 2, 512) == nvtps_of(some, 2, 512)


def test_a_long_front_is_shown_in_part(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    found = explore(u250, workloads, GIVEN, every=True)
    lines = list(exploration_lines(found))
    assert max(map(len, lines)) <= 80
    (heading,) = (i for i, line in enumerate(lines) if line.startswith("front of throughput and resources, per die, 2"))
    n, m = found.grids[0].design
    assert lines[heading + 2].split()[:2] == [str(n), str(m)]
    assert lines.index("", heading) - heading <= 27


def test_throughput_grows_with_beta_and_direct_access(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    betas = explore(u250, workloads, GIVEN).betas
    reached = [one.nvtps for one in betas]
    assert reached == sorted(reached)
    assert all(one.kept_nvtps > one.indirect_nvtps for one in betas[:-1])
    assert betas[-1].beta == 1
    assert betas[-1].kept_nvtps == betas[-1].indirect_nvtps


def test_what_is_bound_by_transfers_is_12_8_times_as_fast_on_16(u250: Platform) -> None:
    wide = Workload("wide", "gcn", (1e6, 1e3, 1e3), (1e6, 1e3), (5000, 16, 2), num_batches=64)
    found = explore(u250, [wide], Conditions(beta=0.0))
    for one in found.scaling:
        expected = min(one.devices, 205 / 16)
        assert one.transfer_bound == pytest.approx(expected)
        assert one.speed_up == pytest.approx(expected, rel=0.01)
        assert one.indirect_speed_up == pytest.approx(expected / 2, rel=0.01)


def test_the_table_calls_no_speed_up_a_bound_that_computing_exceeds(u250: Platform) -> None:
    narrow = Workload("narrow", "gcn", (1e4, 1e3, 1e3), (2e4, 1e3), (500, 256, 2), num_batches=64)
    found = explore(u250, [narrow], GIVEN)
    last = found.scaling[-1]
    assert 205 / 16 < last.speed_up < last.devices
    text = "\n".join(exploration_lines(found)).partition("speed-up over one device")[2]
    assert "links alone" in text
    assert "bound" not in text


def test_dies_that_differ_have_designs_that_differ(workloads: tuple[Workload, ...]) -> None:
    u200 = read_platform("u200")
    found = explore(u200, workloads, GIVEN)
    assert isinstance(u200.device, Fpga)
    assert [grid.die for grid in found.grids] == list(dict.fromkeys(u200.device.dies))
    assert len({grid.design for grid in found.grids}) > 1
    slowest = min(float(grid.nvtps[grid.chosen]) for grid in found.grids)
    assert found.nvtps <= slowest


def test_a_gpu_has_one_design(workloads: tuple[Workload, ...]) -> None:
    found = explore(read_platform("a5000"), workloads, GIVEN)
    assert found.grids == ()
    assert found.design is None
    assert {one.traded_nvtps for one in found.betas} == {None}


def test_estimates(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    found = explore(u250, workloads, GIVEN)
    for one in found.estimates:
        longest = max(one.load_seconds, one.aggregate_seconds, one.update_seconds)
        assert longest < one.iteration_seconds < one.load_seconds + one.aggregate_seconds + one.update_seconds
        assert one.nvtps == pytest.approx(4 * one.workload.num_vertices / one.iteration_seconds)
        assert one.epoch_seconds == pytest.approx(one.iteration_seconds * -(-one.workload.num_batches // 4))


@pytest.mark.parametrize("name", ["u250", "u200", "a5000"])
def test_json_and_text(name: str, workloads: tuple[Workload, ...]) -> None:
    found = explore(read_platform(name), workloads, GIVEN)
    said = json.loads(json.dumps(found.to_dict()))
    assert said["nvtps"] == found.nvtps
    assert [len(die["grid"]) for die in said["dies"]] == [len(grid.units) for grid in found.grids]
    lines = list(exploration_lines(found))
    assert max(map(len, lines)) <= 80
    assert any("fitted to Table V" in line for line in lines) == (name != "a5000")
    assert "predicted" not in " ".join(lines)


def test_a_platform_too_small_is_refused(u250: Platform, workloads: tuple[Workload, ...]) -> None:
    assert isinstance(u250.device, Fpga)
    die = dataclasses.replace(u250.device.dies[0], dsps=50)
    small = dataclasses.replace(u250, device=dataclasses.replace(u250.device, dies=(die,)))
    with pytest.raises(InfeasibleError, match="die with 50 DSPs"):
        explore(small, workloads, GIVEN)


def test_there_must_be_a_workload(u250: Platform) -> None:
    with pytest.raises(UsageError, match="workloads must have at least one entry"):
        explore(u250, [], GIVEN)

"""Gains of HitGNN's two-stage scheduler and of direct host access ("DC"), by the model, over skewed partitions.

    python -m benchmarks.two_stage [--platform u250] [--design 8 2048] [--skews 1.05 1.15 1.3] [--betas 0.25 0.75 0.85]

Nothing here is measured: an epoch's seconds are those of a3gnn.platforms.performance along the schedule of
a3gnn.runtime.two_stage_schedule, on the paper's four graphs. Skew is the mini-batches of the largest partition over the
mean; one partition is so large, or all but one are. Gains are over neither, one after the other, as in the paper's
Table VII (13.6 to 17.5 %, then 28 to 43 %).

The first gain takes mini-batches to be equal, as the paper does: it is that in iterations, and that in seconds where
each device stores the same hot rows (PaGraph). Where features are stored by partition (DistDGL, P3), a mini-batch that
an idle device takes finds fewer of its rows there, (1 - beta) / (p - 1), and every device waits for it.
"""

from __future__ import annotations

import argparse

import numpy as np

from a3gnn.platforms.files import read_platform
from a3gnn.platforms.metadata import Fpga, Platform
from a3gnn.platforms.performance import Conditions, Rates, die_rates, iteration_seconds
from a3gnn.platforms.workload import Workload, paper_workloads
from a3gnn.runtime.two_stage_schedule import Schedule, own_schedule, two_stage_schedule
from a3gnn.task import Task

_COLUMNS = ("balanced", "rows by partition", "then direct")


def skewed(total: int, devices: int, skew: float, *, one: bool) -> list[int]:
    """Returns mini-batches per partition, `total` in all, the largest of which have `skew` times the mean."""
    large = 1 if one else devices - 1
    most = round(skew * total / devices)
    rest, more = divmod(total - large * most, devices - large)
    return [most] * large + [rest + (i < more) for i in range(devices - large)]


def epoch_seconds(
    schedule: Schedule, workload: Workload, rates: Rates, platform: Platform, given: Conditions, moved_beta: float
) -> float:
    """Returns the seconds of an epoch: an iteration is as slow as its slowest mini-batch."""
    own, moved = (
        float(iteration_seconds(workload, rates, platform, given.replace(beta=beta))[0])
        for beta in (given.beta, moved_beta)
    )
    return float(np.where(schedule.moved.any(axis=1), max(own, moved), own).sum())


def line(
    platform: Platform, rates: Rates, workloads: tuple[Workload, ...], skew: float, beta: float, *, one: bool
) -> str:
    """Returns a line of gains, as ranges over `workloads`."""
    devices = platform.num_devices
    given = Conditions(beta, direct=False)
    gains: dict[str, list[float]] = {column: [] for column in _COLUMNS}
    for workload in workloads:
        counts = skewed(workload.num_batches, devices, skew, one=one)
        plain, balanced = own_schedule(counts), two_stage_schedule(counts)
        base, equal, apart, direct = (
            epoch_seconds(schedule, workload, rates, platform, how, moved)
            for schedule, how, moved in (
                (plain, given, beta),
                (balanced, given, beta),
                (balanced, given, (1 - beta) / (devices - 1)),
                (balanced, given.replace(direct=True), beta),
            )
        )
        for column, gain in zip(_COLUMNS, (base / equal, base / apart, equal / direct), strict=True):
            gains[column].append(gain)
    cells = [f"{min(found) - 1:+.1%} to {max(found) - 1:+.1%}" for found in gains.values()]
    return f"{skew:<6g}{'one' if one else 'all but 1':11}{beta:<6g}" + "".join(f"{cell:>19}" for cell in cells)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", default="u250", help="an FPGA platform whose dies are equal")
    parser.add_argument("--design", type=int, nargs=2, default=(8, 2048), metavar=("N", "M"), help="per FPGA")
    parser.add_argument("--skews", type=float, nargs="+", default=(1.05, 1.15, 1.3))
    parser.add_argument("--betas", type=float, nargs="+", default=(0.25, 0.75, 0.85))
    options = parser.parse_args()
    platform = read_platform(options.platform)
    if not isinstance(platform.device, Fpga) or len(set(platform.device.dies)) > 1:
        parser.error(f"--platform must be of FPGAs whose dies are equal, got {options.platform}; take u250")
    dies = platform.device.dies
    units, multipliers = (np.array([total // len(dies)], dtype=np.int64) for total in options.design)
    rates = die_rates(platform.device, dies[0], units, multipliers)
    for model in ("gcn", "sage"):
        workloads = paper_workloads(Task(model=model, hidden_channels=128), 1024)
        print(f"{model}, {platform.num_devices} x {platform.device.name}: gains, ranges over four graphs")
        print(f"{'skew':6}{'large':11}{'beta':6}{''.join(f'{name:>19}' for name in _COLUMNS)}")
        for beta in options.betas:
            for skew in options.skews:
                for one in (True, False):
                    print(line(platform, rates, workloads, skew, beta, one=one))
        print()


if __name__ == "__main__":
    main()

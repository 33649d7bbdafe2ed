"""A training step with OpenMP threads that spin at barriers and with threads that sleep, on an idle and a busy machine.

    python -m benchmarks.wait_policy [--rounds 3]

Prints the median milliseconds of a step under each policy and their ratio, rounds interleaved. The figures are why
a3gnn's own processes set OMP_WAIT_POLICY=PASSIVE unless the environment does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from itertools import islice
from time import perf_counter

from benchmarks.report import median_and_range

POLICIES = ("ACTIVE", "PASSIVE")
SPEC = "synthetic:nodes=20000"
WARM_UP, STEPS = 5, 40


def step_ms() -> float:
    """Returns the median milliseconds of a training step of the default configuration in this process."""
    from a3gnn.config import TrainConfig
    from a3gnn.graphs.graph import Graph
    from a3gnn.task import Task
    from a3gnn.training.trainer import Trainer

    with Trainer(Graph.load(SPEC), TrainConfig(batch_size=256), Task()) as trainer:
        steps = (step for epoch in range(100) for step in trainer.steps(epoch))
        list(islice(steps, WARM_UP))
        times = []
        for _ in range(STEPS):
            begin = perf_counter()
            next(steps)
            times.append(perf_counter() - begin)
        steps.close()
    return statistics.median(times) * 1e3


def measure(policy: str) -> float:
    """Returns `step_ms` of a fresh process under `policy`."""
    run = subprocess.run(
        [sys.executable, __file__, "--step"],
        env=os.environ | {"OMP_WAIT_POLICY": policy},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def compare(rounds: int, busy: int) -> None:
    """Prints both policies' medians over `rounds`, next to `busy` processes that only compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        found = [[measure(policy) for policy in POLICIES] for _ in range(rounds)]
    finally:
        for other in others:
            other.kill()
            other.wait()
    spin, sleep = (statistics.median(column) for column in zip(*found, strict=True))
    ratios = [row[0] / row[1] for row in found]
    print(f"{busy} busy processes: spinning {spin:.1f} ms, sleeping {sleep:.1f} ms, ratio {median_and_range(ratios)}")


def main() -> None:
    """Compares on an idle machine and next to one busy process, or times one process with --step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(step_ms())
        return
    for busy in (0, 1, 2):
        compare(options.rounds, busy)


if __name__ == "__main__":
    main()

"""Seconds per epoch and memory of two ranks with a thread each, beside one process with two threads and with one.

    python -m benchmarks.distributed_training [--rounds 3] [--model sage] [--json FILE]

Each run is of fresh processes, and the three variants alternate. A run trains an epoch to warm up and some that are
timed. Of ranks the figures are: the slowest one's epochs; the share of a step that sums of gradients take, waiting for
the slower rank included; the share that sampling takes, which every rank does of whole mini-batches; and each rank's
proportional set size (PSS: a page that two processes map counts half in each).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.engine.memory import mapped
from benchmarks.report import median_and_range

SPEC = "synthetic:nodes=40000,features=256"
#: Variants: processes, and threads of each.
VARIANTS = {"1 process, 2 threads": (1, 2), "1 process, 1 thread": (1, 1), "2 ranks, 1 thread each": (2, 1)}
EPOCHS = 3


def pss() -> dict[str, int]:
    """Returns this process's proportional set size, of anonymous memory and of files, in bytes."""
    sizes = mapped(os.getpid())
    return {"anonymous": sizes["Pss_Anon"], "files": sizes["Pss_File"]}


def work(folder: Path, model: str) -> None:
    """Trains as one of the processes of a variant, and writes what it measured to `folder`."""
    import torch

    from a3gnn.config import TrainConfig
    from a3gnn.graphs.graph import Graph
    from a3gnn.task import Task
    from a3gnn.training.ranks.processes import processes
    from a3gnn.training.trainer import Trainer

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    graph = Graph.load(SPEC).on_disk()
    with processes() as us:
        config = TrainConfig(feature_tier="disk")  # what several ranks of a machine read, whatever the tier
        with Trainer(graph, config, Task(model=model), member=us.member) as trainer:
            steps = list(trainer.steps(0))
            joined: Any = trainer._replica.joined
            waited = 0.0 if joined is None else joined.seconds
            seconds, sampled = [], 0.0
            for epoch in range(1, EPOCHS + 1):
                begin = perf_counter()
                steps = list(trainer.steps(epoch))
                seconds.append(perf_counter() - begin)
                sampled += sum(step.seconds.sample for step in steps)
            found = {
                "epoch_s": statistics.median(seconds),
                "summing": 0.0 if joined is None else (joined.seconds - waited) / sum(seconds),
                "sampling": sampled / sum(seconds),
                "input_nodes": sum(step.input_nodes for step in steps),
                "pss": pss(),
                "peak_anonymous_bytes": trainer.memory.peak_bytes,
            }
            us.total(0)  # a rank that has ended would give the others its share of pages
    (folder / f"{os.environ.get('RANK', 0)}.json").write_text(json.dumps(found), encoding="utf-8")


def measure(count: int, threads: int, model: str) -> list[dict[str, Any]]:
    """Returns what each of `count` fresh processes with `threads` threads measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable]
        if count > 1:
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        command += ["-m", "benchmarks.distributed_training", "--work", folder, "--model", model]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return [json.loads((Path(folder) / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(count)]


def lines(found: dict[str, list[list[dict[str, Any]]]]) -> list[str]:
    """Returns a Markdown table of the rounds of each variant, the first of which others are compared with."""
    out = [
        "| variant | seconds per epoch | over the first | summing | sampling | PSS, all ranks: anonymous, files |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    first = [max(rank["epoch_s"] for rank in run) for run in next(iter(found.values()))]
    for name, runs in found.items():
        epochs = [max(rank["epoch_s"] for rank in run) for run in runs]
        ratios = [own / before for own, before in zip(epochs, first, strict=True)]
        shares = [
            f"{statistics.median(statistics.mean(rank[kind] for rank in run) for run in runs):.1%}"
            for kind in ("summing", "sampling")
        ]
        memory = [
            f"{statistics.median(sum(rank['pss'][kind] for rank in run) for run in runs) / 2**20:.0f} MiB"
            for kind in ("anonymous", "files")
        ]
        out.append(
            f"| {name} | {median_and_range(epochs)} | {median_and_range(ratios)} | {' | '.join(shares)} | "
            f"{', '.join(memory)} |"
        )
    return out


def main() -> None:
    """Compares the variants, or works as one process of one with --work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="sage")
    parser.add_argument("--json", type=Path, help="Writes all that was measured.")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, options.model)
        return
    found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in VARIANTS}
    for _ in range(options.rounds):
        for name, (count, threads) in VARIANTS.items():
            found[name].append(measure(count, threads, options.model))
        if options.json is not None:  # a round at a time: an interrupted benchmark leaves what it has
            options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()

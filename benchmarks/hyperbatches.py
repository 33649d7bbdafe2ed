"""Bytes from the disk and seconds per mini-batch, features on a cold disk: row by row, and by the cache policy ahead.

python -m benchmarks.hyperbatches FOLDER --nodes 4000000 --batches 60 --cache 128MiB,256MiB --rounds 2

Generates a graph in FOLDER unless it has one: popularity by a power law, ids in no useful order, 128 float16 features.
Each variant trains in a process of its own, in turns, after the graph's files were dropped from the page cache; `ram`
is the step with all features in RAM. Bytes are exact: reads of the process from the disk, by /proc/self/io, less those
of opening the trainer. Run it in a control group with little memory to see what the page cache would hide.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import values_of
from a3gnn.storage.mapping import mapping_of, settle
from a3gnn.task import Task
from a3gnn.units import parse_size

#: Mini-batches before the clock starts; the first of them waits for the first sweep.
_WARM_UP = 2


def generated(folder: Path, num_nodes: int, degree: int = 10, features: int = 128) -> Graph:
    """Returns a graph whose hottest share f of the nodes has a share sqrt(f) of the edges; a tenth are seeds."""
    draw = np.random.default_rng(0)
    ids = draw.permutation(num_nodes).astype(np.int32)
    sources = ids[(num_nodes * draw.random((num_nodes, degree), dtype=np.float32) ** 2).astype(np.int32) % num_nodes]
    sources.sort(axis=1)
    kept = np.diff(sources, axis=1, prepend=-1) > 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
    x = np.empty((num_nodes, features), dtype=np.float16)
    for low in range(0, num_nodes, 1 << 16):
        x[low : low + (1 << 16)] = draw.standard_normal(x[low : low + (1 << 16)].shape, dtype=np.float32)
    labels = draw.integers(0, 16, num_nodes).astype(np.int64)
    train, val, test = (
        np.sort(part) for part in (*np.split(ids, [num_nodes // 10, num_nodes // 10 + 1000])[:2], ids[-9:])
    )
    graph = Graph("generated", indptr, sources[kept], DenseFeatures(x), labels, train, val, test, 16)
    return graph.save(folder)


def read_bytes() -> int:
    """Returns the bytes that this process has read from disks."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def drop_pages(graph: Graph) -> None:
    """Drops the files of `graph` from the page cache; pages that a process maps would stay."""
    for array in (graph.indptr, graph.indices, graph.labels, values_of(graph.features)):
        mapping = mapping_of(array)
        assert mapping is not None, "the graph is opened from a folder"
        mapping.madvise(mmap.MADV_DONTNEED)
    assert graph.folder is not None
    settle(graph.folder)


def measured(folder: Path, config: TrainConfig, fanouts: tuple[int, ...], batches: int) -> dict[str, float]:
    """Returns the bytes that mini-batches read, those that they use, and the seconds per mini-batch."""
    from a3gnn.training.trainer import Trainer

    graph, seconds, rows = Graph.load(folder), [], 0
    task = Task(hidden_channels=64, fanouts=fanouts)
    with Trainer(graph, config, task) as trainer:
        drop_pages(graph)
        before, begin = read_bytes(), perf_counter()
        for _, step in zip(range(batches + _WARM_UP), trainer.steps(0), strict=False):
            seconds.append(perf_counter() - begin)
            rows += step.input_nodes
            begin = perf_counter()
        whole, read = sum(seconds), read_bytes() - before  # with rows of later mini-batches, if they are read ahead
    used = rows * graph.num_features * 2
    return {
        "read_MB": read / 1e6,
        "used_MB": used / 1e6,
        "read_per_used": read / used,
        "seconds_per_batch": sum(seconds[_WARM_UP:]) / max(len(seconds) - _WARM_UP, 1),
        "seconds_per_batch_with_the_first": whole / len(seconds),
        "load": os.getloadavg()[0],
        "peak_MB": trainer.memory.peak_bytes / 1e6,
    }


def main() -> None:
    """Prints one JSON object per variant and round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--cache", default="128MiB,256MiB")
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--variants", default="ram,degree,ahead")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    fanouts = tuple(map(int, options.fanouts.split(",")))
    if options.one:
        config = TrainConfig(**json.loads(options.one))
        print(json.dumps(measured(options.folder, config, fanouts, options.batches)))
        return
    if not options.folder.exists():
        generated(options.folder, options.nodes)
    variants = [{"feature_tier": "ram"}] if "ram" in options.variants else []
    for size in options.cache.split(","):
        on_disk = {"feature_tier": "disk", "cache_bytes": parse_size(size)}
        variants += [on_disk | {"cache_policy": one} for one in ("degree", "ahead") if one in options.variants]
    for _ in range(options.rounds):
        for one in variants:
            command = [sys.executable, "-m", "benchmarks.hyperbatches", str(options.folder), "--one", json.dumps(one)]
            run = subprocess.run(
                [*command, "--batches", str(options.batches), "--fanouts", options.fanouts],
                capture_output=True,
                text=True,
                check=True,
            )
            found = {name: round(value, 3) for name, value in json.loads(run.stdout).items()}
            print(json.dumps(one | found), flush=True)


if __name__ == "__main__":
    main()

"""python -m tests.pipeline.ahead_stress FOLDER --seconds 300: epochs of the policy ahead, which end in every way.

Each round opens a pipeline with random knobs and a small buffer. Its epochs run to the end, or are left, closed,
forgotten in a cycle of references, ended by an error of the training or of the disk, or forked. Garbage is collected
often, on any thread. Mini-batches must equal those of a pipeline without the policy. A round that takes too long prints
the stacks of all threads, and the process exits with 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.features import ahead
from a3gnn.features.ahead import AheadCache
from a3gnn.features.stored_rows import DenseRows
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.storage.blocks import BlockReader
from tests.pipeline.batches import content

WAYS = ("whole", "left", "closed", "forgotten", "error", "disk", "beside", "fork")


class TrainingError(Exception):
    """Stands for an error of the user's loop."""


def check(batch: object, expected: list[tuple]) -> None:
    """Compares a mini-batch with the expected one, without its hits, which a cache decides."""
    found = content(batch)
    assert (*found[:2], *found[3:]) == expected[found[1]]


def opened(graph: Graph, draw: random.Random) -> tuple[Pipeline, list[tuple]]:
    """Returns a pipeline that reads ahead, and the mini-batches of its epoch 1."""
    fields = {"batch_size": draw.choice([17, 64, 150, 400]), "feature_tier": "disk"}
    fields |= {"parallel_mode": draw.choice(PARALLEL_MODES), "num_workers": draw.randint(1, 3)}
    fields |= draw.choice([{}, {}, {"resources": "auto"}, {"num_partitions": 2, "partitioner": "blocks"}])
    fanouts, options = draw.choice([(4, 3), (10, 5), (3,)]), PipelineOptions(seed=7)
    with Pipeline(graph, TrainConfig(**fields), fanouts, options) as plain:
        expected = [(*one[:2], *one[3:]) for one in map(content, plain.epoch(1))]
    ahead._CHUNK_NODES = draw.choice([700, 1500, 6000, 1 << 18])
    fixed = -AheadCache._free_bytes(DenseRows.of(graph.features), graph.num_nodes, 0)
    room = fixed + draw.choice([300, 20_000, 150_000, 1 << 20, 1 << 25])
    config = TrainConfig(**fields, cache_policy="ahead", cache_bytes=room)
    return Pipeline(graph, config, fanouts, options), expected


def run(way: str, pipeline: Pipeline, expected: list[tuple], draw: random.Random) -> None:
    """Runs an epoch that ends in this way."""
    epoch, last = pipeline.epoch(1), draw.randint(0, len(expected))
    for number, batch in enumerate(epoch):
        check(batch, expected)
        time.sleep(draw.choice([0, 0, 0.001, 0.01]))
        if number < last or way == "whole":
            continue
        end(way, pipeline, expected)
        if way == "forgotten":
            cycle: list[object] = [epoch]
            cycle.append(cycle)
        if way != "fork":
            return


def end(way: str, pipeline: Pipeline, expected: list[tuple]) -> None:
    """Does what ends an epoch, or runs beside it."""
    if way == "beside":
        for other in pipeline.epoch(1):
            check(other, expected)
    elif way == "fork":
        if not (child := os.fork()):
            os._exit(0)
        os.waitpid(child, 0)
    elif way == "error":
        raise TrainingError
    elif way == "closed":
        pipeline.close()


def main() -> None:
    """Runs rounds for so many seconds, and prints how many epochs ended in which way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120.0, help="most seconds of a round")
    given = parser.parse_args()
    if not given.folder.exists():
        Graph.load("synthetic:nodes=20000,degree=6,features=64,classes=4").save(given.folder)
    graph, begin, seed, ended = Graph.load(given.folder), time.monotonic(), given.seed, Counter[str]()
    gc.set_threshold(100, 2, 2)
    while time.monotonic() - begin < given.seconds:
        faulthandler.dump_traceback_later(given.limit, exit=True)
        draw = random.Random(seed)
        print(f"seed {seed}", flush=True)
        pipeline, expected = opened(graph, draw)
        for _ in range(draw.randint(1, 6)):
            way = draw.choice(WAYS)
            broken = patch.object(BlockReader, "read", side_effect=OSError) if way == "disk" else nullcontext()
            try:
                with broken:
                    run(way, pipeline, expected, draw)
            except (TrainingError, OSError) as error:
                kept = error  # with its traceback, and so the epoch
                kept.__context__ = kept
            ended[way] += 1
        seed += 1
    faulthandler.cancel_dump_traceback_later()
    print(dict(ended))


if __name__ == "__main__":
    main()

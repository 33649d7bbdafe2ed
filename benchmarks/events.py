"""Seconds and quality of links with times: an epoch, ranking all candidates, and scores without a model beside.

python -m benchmarks.events GRAPH.npz,SOURCE,RELATION,TARGET ... --epochs 3 --metric mrr

`generated` in place of a graph has as many events and nodes as tgbl-wiki: 157,474 between 8,227 users and 1,000 pages,
four of five of which repeat an earlier pair. The model is `rsage` with the last 10 neighbors, 64 columns and the
decoder mlp. The weights of the best validation epoch are tested. Seconds are those of the wall clock, beside the load.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from a3gnn import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.training.describe import described
from a3gnn.training.trainer import Trainer

EVENTS, USERS, PAGES = 157_474, 8_227, 1_000


def generated(folder: Path) -> str:
    """Writes a graph of tgbl-wiki's size, and returns its spec."""
    rng = np.random.default_rng(0)
    users = (USERS * rng.random(EVENTS) ** 2).astype(np.int64)
    pages = (PAGES * rng.random(EVENTS) ** 3).astype(np.int64)
    for event in np.flatnonzero(rng.random(EVENTS) < 0.8):  # repeats one of the last 1,000 events
        if event:
            earlier = int(rng.integers(max(event - 1000, 0), event))
            users[event], pages[event] = users[earlier], pages[earlier]
    path = folder / "generated.npz"
    np.savez(
        path,
        node_types=np.array(["user", "page"]),
        num_nodes=np.array([USERS, PAGES]),
        edge_types=np.array(["user__edits__page"]),
        edge_index__user__edits__page=np.stack([users, pages]),
        edge_time__user__edits__page=np.sort(rng.integers(2_678_373, size=EVENTS)),
    )
    return f"target:user,edits,page:{path}"


def measure(spec: str, task: Task, batch_size: int, epochs: int) -> str:
    """Trains and tests, and returns a row of the table."""
    graph = Graph.load(spec).on_disk()
    task, best, seconds = described(task, graph), (-1.0, {}), []
    with Trainer(graph, TrainConfig(batch_size=batch_size), task) as trainer:
        for epoch in range(epochs):
            begin = time.perf_counter()
            for _ in trainer.steps(epoch):
                pass
            seconds.append(time.perf_counter() - begin)
            quality = trainer.validate()
            if quality > best[0]:
                best = quality, copy.deepcopy(trainer.model.state_dict())
        trainer.model.load_state_dict(best[1])
        begin = time.perf_counter()
        test = trainer.test()
        tested = time.perf_counter() - begin
        begin = time.perf_counter()
        beside = trainer.heuristics
        others = time.perf_counter() - begin
    listed = ", ".join(f"{name} {quality:.4f}" for name, quality in beside.items())
    epoch_seconds = float(np.median(seconds))
    return (
        f"| {graph.name} | {task.metric} | {best[0]:.4f} | {test:.4f} | {listed} | {epoch_seconds:.1f} | {tested:.1f} "
        f"({tested / epoch_seconds:.1f} epochs) | {others:.1f} |"
    )


def main() -> None:
    """Prints a table with a row per graph, and the load before and after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+", help="generated, or FILE.npz,SOURCE,RELATION,TARGET")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--metric", default="mrr")
    parser.add_argument("--decoder", default="mlp")
    parser.add_argument("--pair-history", type=int, default=Task().pair_history)
    parser.add_argument("--negatives", default="binary:1")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = ("metric", "decoder", "seed", "pair_history", "negatives", "learning_rate")
    fields = {name: getattr(options, name) for name in names}
    task = Task(model="rsage", hidden_channels=64, fanouts=(10,), **fields)
    print("| graph | metric | validation | test | without a model | s per epoch | s of the test | s without a model |")
    print("|---|---|--:|--:|---|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for graph in options.graphs:
            file, _, target = graph.partition(",")
            spec = generated(Path(folder)) if graph == "generated" else f"target:{target}:{file}"
            before = os.getloadavg()[0]
            print(measure(spec, task, options.batch_size, options.epochs), flush=True)
            print(f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after", flush=True)


if __name__ == "__main__":
    main()

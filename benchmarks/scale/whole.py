"""Every step of a graph's life at one size: written, opened, tuned, trained, and all nodes predicted.

    python -m benchmarks.scale.whole FOLDER --scale 22 24 26 --memory-limit 16GiB

Each step is a command in its own process. A table has its seconds, bytes read from the disk and written to it (by the
system's count, the process's children included), its peak memory that can't be reclaimed, and nanoseconds per edge of
the graph. The last line compares the accuracy of the predictions with the one that training found. FOLDER must be new;
it is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from a3gnn.process.memory import PeakMemory, process_tree
from a3gnn.storage.atomic import need_room
from a3gnn.storage.npy import open_npy
from a3gnn.units import format_size, parse_size
from benchmarks.scale.kronecker import EDGE_FACTOR

#: Width of the hidden layer.
HIDDEN = 64
#: Bytes of the unit of a process's reads and writes (getrusage(2)).
_BLOCK = 512
#: Seconds between two looks at the memory of a step's processes.
_PERIOD_S = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took.

    Attributes:
        name: Of the step.
        seconds: Wall time.
        read_bytes: From the disk.
        written_bytes: To the disk.
        peak_bytes: Peak memory that can't be reclaimed, of all its processes together.
        status: Exit status of its command.
    """

    name: str
    seconds: float
    read_bytes: int
    written_bytes: int
    peak_bytes: int
    status: int


def commands(folder: Path, scale: int, memory_limit: str, predict_limit: str, budget: str) -> Iterator[tuple[str, ...]]:
    """Yields the name and the command of each step."""
    python, ours = (sys.executable, "-m"), (sys.executable, "-m", "a3gnn")
    graph, tuned, trained, out = (str(folder / name) for name in ("graph", "tuned", "trained", "predictions.npy"))
    yield "generate", *python, "benchmarks.scale", graph, "--scale", str(scale)
    yield "open", *ours, "graph", "info", graph
    limits = ("--memory-limit", memory_limit, "--budget", budget, "--hidden", str(HIDDEN))
    yield "tune", *ours, "tune", "--dataset", graph, *limits, "--out", tuned
    yield "train", *ours, "train", tuned, "--epochs", "1", "--out", trained
    yield "predict", *ours, "predict", trained, "--dataset", graph, "--out", out, "--host-memory-limit", predict_limit


def measured(name: str, command: tuple[str, ...], log: Path) -> Step:
    """Runs `command` with its output appended to `log`, and returns what it took."""
    begin = time.perf_counter()
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    peak, ended = [0], threading.Event()

    def watch() -> None:
        known: dict[int, PeakMemory] = {}
        while not ended.wait(_PERIOD_S):
            marks = [known.setdefault(one, PeakMemory(one)).look() for one in process_tree(process.pid)]
            peak[0] = max(peak[0], sum(mark.anonymous_bytes for mark in marks))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    seconds, moved = time.perf_counter() - begin, (usage.ru_inblock, usage.ru_oublock)
    return Step(name, seconds, _BLOCK * moved[0], _BLOCK * moved[1], peak[0], process.returncode)


def whole(folder: Path, scale: int, memory_limit: str, predict_limit: str, budget: str) -> list[Step]:
    """Runs all steps in `folder`, prints what each one takes, and returns that; stops after a step that fails."""
    edges, done, log = EDGE_FACTOR << scale, list[Step](), folder / "log.txt"
    print(f"{'scale ' + str(scale):10} {'seconds':>8} {'read':>11} {'written':>11} {'peak':>11} {'ns/edge':>8}")
    for name, *command in commands(folder, scale, memory_limit, predict_limit, budget):
        step = measured(name, tuple(command), log)
        done.append(step)
        sizes = (format_size(size) for size in (step.read_bytes, step.written_bytes, step.peak_bytes))
        print(f"{name:10} {step.seconds:8.1f}", *(f"{size:>11}" for size in sizes), end=" ")
        print(f"{1e9 * step.seconds / edges:8.0f}", flush=True)
        if step.status:
            print(f"exit status {step.status}:", *log.read_text(encoding="utf-8").splitlines()[-15:], sep="\n")
            break
    return done


def accuracies(folder: Path) -> tuple[float, float]:
    """Returns the accuracy on test nodes of the predictions in `folder`, and the one that training found."""
    ids, labels = (open_npy(folder / "graph" / f"{name}.npy") for name in ("test_ids", "labels"))
    right = open_npy(folder / "predictions.npy")[ids].argmax(axis=1) == labels[ids]
    result = json.loads((folder / "trained" / "result.json").read_text(encoding="utf-8"))
    return float(np.mean(right)), float(result["test_accuracy"])


def main() -> None:
    """Runs the sizes that the command line names, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=int, nargs="+", default=[22], metavar="8..30")
    parser.add_argument("--memory-limit", default="16GiB", help="of the tune and the training")
    parser.add_argument("--predict-limit", help="of the predictions; by default --memory-limit")
    parser.add_argument("--budget", default="5min", help="of the tune")
    parser.add_argument("--disk-limit", default="75GB", help="for everything")
    parser.add_argument("--out", type=Path, help="gets a JSON object per size")
    given = parser.parse_args()
    predict_limit = given.predict_limit or given.memory_limit
    for scale in given.scale:
        graph = (4 * EDGE_FACTOR + 2 * 128 + 16) << scale
        need_room(given.folder.resolve().parent, min(2 * graph, parse_size(given.disk_limit)))
        os.environ["A3GNN_DISK_LIMIT"] = f"{parse_size(given.disk_limit) - graph}B"
        given.folder.mkdir(parents=True)
        try:
            steps = whole(given.folder, scale, given.memory_limit, predict_limit, given.budget)
            failed = steps[-1].status
            if not failed:
                found, trained = accuracies(given.folder)
                print(f"test accuracy {found:.2%} by the predictions, {trained:.2%} in training")
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"scale": scale, "steps": [asdict(step) for step in steps]}) + "\n")
        finally:
            shutil.rmtree(given.folder)
        if failed:
            raise SystemExit(1)


if __name__ == "__main__":
    main()

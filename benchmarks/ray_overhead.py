"""What a trial costs through Ray above a local one, and what an idle node takes.

    python -m benchmarks.ray_overhead [--trials 10]

Starts a cluster of one node on this machine, without a dashboard. Trials of a few mini-batches on a small graph,
without a learning curve, run alternately on it and locally; before that each side runs one that does not count. Times
are those of the caller. Printed are the median seconds of both and of the differences of neighbours, with ranges; the
seconds that starting the node, connecting to it and the first trial take; and, while nothing runs, the memory of the
node's processes (proportional set size, so that shared pages count once) and the share of a core that they take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.process.memory import process_tree
from a3gnn.profiling.cluster.executor import RayExecutor
from a3gnn.profiling.executor import LocalExecutor, MachineExecutor
from a3gnn.profiling.trial.request import TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.units import format_size
from benchmarks.engine.memory import mapped
from benchmarks.report import median_and_range

SPEC = "synthetic:nodes=2000,degree=10,classes=5,features=32"
TASK = Task(hidden_channels=32, fanouts=(5, 5))
PLAN = TrialPlan(warmup_batches=1, timed_seconds=0.2)
#: Seconds over which an idle node's share of a core is measured.
IDLE_SECONDS = 20.0
#: Starts a node, says where it is, and ends it when stdin is closed.
NODE = """
import json, os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
os.makedirs("/tmp/ray", exist_ok=True)
cluster = Cluster(shutdown_at_exit=True)
node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False, temp_dir=sys.argv[1],
                        resources=json.loads(sys.argv[2]), env_vars={"RAY_worker_niceness": "0"})
raylet = node.all_processes["raylet"][0].process.pid
others = [one.process.pid for kind in node.all_processes.values() for one in kind]
print(json.dumps({"address": cluster.address, "raylet": raylet, "all": others}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def main() -> None:
    """Measures, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10, help="of each side")
    options = parser.parse_args()
    resources = subprocess.run(
        [sys.executable, "-m", "a3gnn", "machines", "--here"], capture_output=True, text=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory(prefix="a3gnn-ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        begun = time.monotonic()
        node = subprocess.Popen(
            [sys.executable, "-c", NODE, place, resources], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert node.stdout is not None
        told = json.loads(node.stdout.readline())
        print(f"starting the node: {time.monotonic() - begun:.1f} s")
        try:
            _report_idle(told["raylet"], told["all"])
            _compare(told["address"], options.trials)
        finally:
            node.communicate()


def _compare(address: str, trials: int) -> None:
    graph = Graph.load(SPEC).on_disk()
    begun = time.monotonic()
    with RayExecutor(address, notify=print) as ray, LocalExecutor() as local:
        print(f"connecting: {time.monotonic() - begun:.1f} s")
        begun = time.monotonic()
        print(f"graph and kernels: {ray.make_ready(graph, TASK):.1f} s, with the first process there")
        setting = Setting(TASK, graph.characteristics(), ray.probe())
        request = TrialRequest(TrainConfig(batch_size=256).canonical(), setting, str(graph.folder), PLAN)
        sides: dict[str, MachineExecutor] = {"Ray": ray, "local": local}
        for name, executor in sides.items():
            print(f"first trial, {name}: {_seconds(executor, request):.2f} s")
        pairs = [tuple(_seconds(executor, request) for executor in sides.values()) for _ in range(trials)]
    for place, name in enumerate(sides):
        print(f"a trial, {name}: {median_and_range([pair[place] for pair in pairs])} s")
    print(f"Ray above local: {median_and_range([pair[0] - pair[1] for pair in pairs])} s, {trials} pairs")


def _seconds(executor: MachineExecutor, request: TrialRequest) -> float:
    begun = time.monotonic()
    outcome = executor.run(request)
    seconds = time.monotonic() - begun
    assert "throughput_epochs_per_s" in outcome.to_dict(), outcome
    return seconds


def _report_idle(raylet: int, roots: list[int]) -> None:
    time.sleep(5)  # what starts with it has started
    members = {pid for root in roots for pid in process_tree(root)}
    own = set(process_tree(raylet))
    before = sum(map(_cpu_seconds, members))
    time.sleep(IDLE_SECONDS)
    share = (sum(map(_cpu_seconds, members)) - before) / IDLE_SECONDS
    print(f"an idle node, raylet and what it starts: {format_size(sum(map(_memory, own)))}, {len(own)} processes")
    print(
        f"with the head's: {format_size(sum(map(_memory, members)))}, {len(members)} processes, {share:.1%} of a core"
    )


def _memory(pid: int) -> int:
    """Returns the proportional set size of a process in bytes."""
    return mapped(pid)["Pss"]


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

"""The graphs of the benchmark, and the folders that the workers read them from."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.client import ROOT
from benchmarks.engine.workers.work import Unavailable


@dataclass(frozen=True, slots=True)
class BenchmarkGraph:
    """A graph by its short name.

    Attributes:
        name: Its name in tables and on the command line.
        spec: What `Graph.load` takes; "{data}" is the folder of real graphs.
        batch_size: Seeds per mini-batch.
    """

    name: str
    spec: str
    batch_size: int = 1024

    def folder(self, cache: Path) -> Path:
        """Returns the graph's converted folder, writing it in a process of its own where it is not there.

        Raises:
            Unavailable: The data is not there, or converting failed.
        """
        spec = self.spec.format(data=data_folder())
        if not spec.startswith("synthetic:") and not Path(spec).exists():
            raise Unavailable(f"{Path(spec).name} is not there; set A3GNN_DATA to the folder of real graphs")
        path = cache / "benchmark" / self.name
        if not (path / "meta.json").exists():
            # In a process of its own: generating takes far more memory than opening, and the process frees it.
            code = "import sys; from a3gnn.graphs.graph import Graph; Graph.load(sys.argv[1]).save(sys.argv[2])"
            run = subprocess.run([sys.executable, "-c", code, spec, str(path)], cwd=ROOT, stderr=subprocess.PIPE)
            if run.returncode:
                raise Unavailable(f"{spec} can't be made: {run.stderr.decode(errors='replace').strip()[-300:]}")
        return path


def data_folder() -> Path:
    """Returns where real graphs are: $A3GNN_DATA, or shared/data next to the repository."""
    return Path(os.environ.get("A3GNN_DATA") or ROOT.parent / "shared" / "data")


def spec_of(name: str) -> str:
    """Returns what `Graph.load` takes for a name on the command line: a real graph's, or what it takes anyway.

    A graph with types, which lie in data-typed beside the others, has its target before it: `target:paper:acm_papers`.
    """
    *target, graph = name.split(":", 2) if name.startswith("target:") else [name]
    folder = data_folder().with_name("data-typed") if target else data_folder()
    real = folder / f"{graph}.npz"
    return ":".join([*target, str(real)]) if real.exists() else name


# Degrees are before duplicates are removed; nodes, edges, features, classes and train shares are the originals'.
GRAPHS: dict[str, BenchmarkGraph] = {
    graph.name: graph
    for graph in (
        BenchmarkGraph(
            "products",
            "synthetic:nodes=2449029,degree=43.1,features=100,classes=47,power=2.5,train=0.08,val=0.02",
        ),
        BenchmarkGraph("arxiv", "synthetic:nodes=169343,degree=15.5,features=128,classes=40,train=0.54,val=0.18"),
        BenchmarkGraph(
            "reddit", "synthetic:nodes=232965,degree=516.5,features=602,classes=41,power=3,train=0.66,val=0.1"
        ),
        BenchmarkGraph("fb100_multi_a", "{data}/fb100_multi_a.npz"),
    )
}
QUICK = BenchmarkGraph("quick", "synthetic:nodes=20000", batch_size=256)

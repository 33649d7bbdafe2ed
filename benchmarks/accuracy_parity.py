"""Test accuracy of one model trained by a3gnn's Trainer and by PyG with its NeighborLoader, over several seeds.

    python -m benchmarks.accuracy_parity [--graphs SPEC ...] [--seeds 5] [--peers-dir .peers] [--json FILE]

Both train the same GraphSAGE with the same optimiser, mini-batches, fanouts and epochs, and are evaluated after the
last epoch from all neighbours. PyG's side is benchmarks/workers/pyg_script.py in the environment that `make peers`
builds. `p` is Welch's two-sided t-test between the seeds of both sides. The difference is within the spread of seeds
if p >= 0.05 / (number of graphs): by Bonferroni, equal sides fail on any graph in at most one run of twenty.
Real graphs are read from $A3GNN_DATA, or else ../shared/data next to the repository.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import ttest_ind

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer
from benchmarks.engine.graphs import data_folder
from benchmarks.pyg_peer import add_peers_dir, pyg_accuracies, pyg_python

GRAPHS = ("amazon_computers", "coauthor_cs", "facebook_pages", "fb_cornell5")
CONFIG = TrainConfig(batch_size=512)
TASK = Task(model="sage", hidden_channels=64, fanouts=(5, 5), dropout=0.5, learning_rate=0.01)
LEVEL = 0.05


@dataclass(frozen=True)
class Row:
    """Test accuracies on one graph, in percent, one per seed; PyG's are empty if it is not installed."""

    graph: str
    a3gnn: list[float]
    pyg: list[float]

    @property
    def difference(self) -> float:
        """Mean of a3gnn's less mean of PyG's, in points."""
        return statistics.mean(self.a3gnn) - statistics.mean(self.pyg)

    @property
    def spread(self) -> float:
        """Standard deviation of both sides' seeds, pooled, in points."""
        return ((statistics.variance(self.a3gnn) + statistics.variance(self.pyg)) / 2) ** 0.5

    @property
    def p(self) -> float:
        """The p-value of Welch's two-sided t-test."""
        return float(ttest_ind(self.a3gnn, self.pyg, equal_var=False).pvalue)

    def to_dict(self) -> dict[str, object]:
        """Returns the row as JSON types."""
        fields = dataclasses.asdict(self)
        return fields | {"difference": self.difference, "spread": self.spread, "p": self.p} if self.pyg else fields


def by_a3gnn(graph: Graph, epochs: int, seed: int) -> float:
    """Returns the test accuracy, in percent, of a3gnn's Trainer."""
    with Trainer(graph, CONFIG, dataclasses.replace(TASK, seed=seed)) as trainer:
        for epoch in range(epochs):
            for _ in trainer.steps(epoch):
                pass
        return 100 * trainer.test()


def compare(spec: str, python: Path | None, epochs: int, seeds: range) -> Row:
    """Returns both sides' accuracies on one graph."""
    graph = Graph.load(spec).on_disk()
    assert graph.folder is not None, "it is on disk"
    pyg = []
    if python:
        pyg = [100 * one for one in pyg_accuracies(python, graph.folder, CONFIG.batch_size, TASK, epochs, seeds)]
    return Row(Path(spec).stem, [by_a3gnn(graph, epochs, seed) for seed in seeds], pyg)


def line(row: Row, level: float) -> str:
    """Returns one row of the table."""
    own = f"| {row.graph} | {statistics.mean(row.a3gnn):.2f} ± {statistics.stdev(row.a3gnn):.2f} "
    if not row.pyg:
        return f"{own}| not installed | | | |"
    peer = f"| {statistics.mean(row.pyg):.2f} ± {statistics.stdev(row.pyg):.2f} "
    verdict = "yes" if row.p >= level else "no"
    return f"{own}{peer}| {row.difference:+.2f} | {row.spread:.2f} | {row.p:.2f} | {verdict} |"


def default_graphs() -> list[str]:
    """Returns those of `GRAPHS` that are there."""
    return [str(path) for name in GRAPHS if (path := data_folder() / f"{name}.npz").is_file()]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=default_graphs(), metavar="SPEC")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, at least 2")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    add_peers_dir(parser)
    options = parser.parse_args()
    if not options.graphs:
        parser.exit(0, f"none of {', '.join(GRAPHS)} is there; set A3GNN_DATA to their folder, or give --graphs\n")
    python, seeds = pyg_python(options.peers_dir), range(options.seeds)
    print(f"{TASK.model}, {TASK.num_layers} layers of {TASK.hidden_channels}, fanouts {TASK.fanouts}, batches of")
    print(
        f"{CONFIG.batch_size}, {options.epochs} epochs, {options.seeds} seeds; test accuracy in %, mean ± deviation\n"
    )
    print(
        "| graph | a3gnn | PyG | difference | pooled deviation | p | within the spread |\n|---|---|---|---|---|---|---|"
    )
    rows = []
    for spec in options.graphs:
        rows.append(compare(spec, python, options.epochs, seeds))
        print(line(rows[-1], LEVEL / len(options.graphs)), flush=True)
    if options.json:
        options.json.write_text(json.dumps([row.to_dict() for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Whether a tune rightly says that predictions without a graph network are as good as the baseline.

python -m benchmarks.references GRAPH ... [--seeds 3] [--seconds 60] [--json FILE]

For each seed, the baseline trains until it stops improving, then the models without a graph network within SECONDS, as
in a tune. The verdict is that of seed 0, by validation: the best of them, if it is at most half a point below the
baseline. Test nodes, which no verdict reads, judge it by the mean over seeds of the difference between the named one
(the best by validation if none is named) and the baseline: it is wrong if the difference contradicts the half point by
more than its standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from a3gnn import Graph, Task, TrainConfig, train
from a3gnn.evaluation.references import references, row_references
from a3gnn.metric import nearly_as_good
from benchmarks.report import write_report

#: Memory of each model, as a tune has under a limit of 1 GiB, in bytes; and the points that a verdict allows.
_BYTES, _NEARLY = 2**28, 0.5


def qualities(graph: Graph, seed: int, seconds: float) -> dict[str, dict[str, float]]:
    """Returns the `validation` and `test` qualities, in points, of the baseline and of each model, by name."""
    task = Task(seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(TrainConfig(), graph, task=task, out=Path(folder) / "run", references=False, metric="auto")
    task = trained.task
    found = {"baseline": {"validation": trained.val_accuracy, "test": trained.test_accuracy}}
    simple = {part: references(part, graph, task, _BYTES) for part in ("validation", "test")}
    found |= {name: {part: simple[part][name] for part in simple} for name in simple["test"]}
    found |= row_references(graph, task, _BYTES, seconds, notify=lambda line: None)
    return {name: {part: 100 * value for part, value in one.items()} for name, one in found.items()}


def judged(seeds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Returns the verdict of the first seed, and how test nodes judge it."""
    names = [name for name in seeds[0] if name != "baseline" and all(name in one for one in seeds)]
    of_first = {name: seeds[0][name]["validation"] / 100 for name in names}
    named = nearly_as_good(of_first, seeds[0]["baseline"]["validation"] / 100)
    name = named or max(of_first, key=of_first.__getitem__)
    differences = {part: [one[name][part] - one["baseline"][part] for one in seeds] for part in ("validation", "test")}
    difference, spread = mean(differences["test"]), stdev(differences["test"])
    is_right = difference >= -_NEARLY - spread if named else difference <= -_NEARLY + spread
    return {
        "verdict": named or "none",
        "compared": name,
        "baseline_test": mean(one["baseline"]["test"] for one in seeds),
        "validation": mean(differences["validation"]),
        "test": difference,
        "spread": spread,
        "right": is_right,
    }


def main() -> None:
    """Prints the verdict of each graph as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    for spec in asked.graphs:
        graph = Graph.load(spec)
        seeds = [qualities(graph, seed, asked.seconds) for seed in range(asked.seeds)]
        found[graph.name] = {**judged(seeds), "seeds": seeds}
        print(json.dumps({"graph": graph.name, **judged(seeds)}), flush=True)
    if asked.json:
        write_report(asked.json, graphs=found)


if __name__ == "__main__":
    main()

"""Measures the corpus that a3gnn ships: on every graph the default, and configurations drawn around and far from it.

    python -m benchmarks.corpus [GRAPH ...] [--rows 12] [--folder runs/corpus] [--export profiles/corpus.jsonl.gz]

Half of a graph's rows vary only the knobs that change the work of a step, and leave the rest as the default has it; the
other half fill the whole space. The default comes first and after every `DEFAULT_EVERY` rows again, since machines
drift. Every row is on disk as soon as it is measured, in FOLDER/rows.jsonl: the same command goes on where it was
interrupted. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
from itertools import chain, zip_longest
from pathlib import Path

from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import probe_hardware, within_peaks
from a3gnn.measurement import Measurement
from a3gnn.profiling.design import space_filling
from a3gnn.profiling.equal_time import equal_time
from a3gnn.profiling.executor import LocalExecutor, TrialExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.store.jsonl import write_measurements
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import CurvePlan, TrialPlan
from a3gnn.report.text import describe_config
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.training.compile_ahead import compile_ahead
from a3gnn.training.kernel_set import KernelSet
from benchmarks.engine.graphs import spec_of
from benchmarks.result_lines import ResultLines

#: The knobs that change what a step computes, not only how it is fed.
WORK_KNOBS = (
    "batch_size",
    "seed_fanout",
    "deep_fanout",
    "compute_dtype",
    "input_aggregation",
    "feature_dtype",
    "learning_rate_scale",
)
#: The default is measured after every so many others. Guess.
DEFAULT_EVERY = 6
#: Seconds that the default trains, at most. Guess: most curves have stopped rising by then.
SECONDS = 8.0

# Between them: 7 to 8,192 features, dense and sparse, 2 to 300 neighbours, up to 300,000 nodes.
# The built-in graph and those that benchmarks/tuned_gain tells of are not among them.
GRAPHS = (
    "squirrel_filtered",
    "citeseer",
    "dblp",
    "road_pasadena",
    "actor",
    "minesweeper",
    "acm",
    "cora",
    "synthetic:nodes=40000,degree=40,features=128,classes=10,seed=1",
    "synthetic:nodes=20000,degree=120,features=24,classes=3,seed=2,noise=3",
    "synthetic:nodes=15000,degree=30,features=700,classes=10,seed=3,noise=4,train=0.6",
    "synthetic:nodes=15000,degree=10,features=8192,density=0.01,classes=12,seed=4",
    "synthetic:nodes=20000,degree=60,features=4000,density=0.005,classes=5,seed=5,train=0.5",
    "synthetic:nodes=200000,degree=4,features=1500,density=0.004,classes=30,seed=6",
    "synthetic:nodes=100000,degree=15,features=300,classes=40,seed=7,noise=3,train=0.5",
    "synthetic:nodes=300000,degree=25,features=64,classes=20,seed=8,noise=2,train=0.1",
    "synthetic:nodes=25000,degree=300,features=100,classes=6,seed=9,noise=2,train=0.2",
    "synthetic:nodes=60000,degree=6,features=16,classes=4,seed=10,noise=1,train=0.6",
)


def design(space: SearchSpace, rows: int, seed: int) -> list[TrainConfig]:
    """Returns up to `rows` configurations of `space`, alternately of the work's knobs alone and of all."""
    work = space
    for knob in space.knobs:
        if knob.name not in WORK_KNOBS:
            work = work.fix(knob.name, knob.default)
    pairs = zip_longest(space_filling(work, (rows + 1) // 2, seed), space_filling(space, rows, seed))
    return list(dict.fromkeys(config for pair in pairs for config in pair if config is not None))[:rows]


class Corpus:
    """Measures rows and keeps each in a file.

    Args:
        lines: Where they are kept.
        console: Takes lines of progress.
    """

    def __init__(self, lines: ResultLines, console: Console) -> None:
        self._lines, self._console = lines, console

    def measure(
        self, spec: str, rows: int, hardware: Hardware, executor: TrialExecutor, folder: Path
    ) -> list[Measurement]:
        """Returns what the default and `rows` others reach on the graph of `spec`, each measured once and kept."""
        graph = Graph.load(spec_of(spec)).on_disk()
        compile_ahead(KernelSet.of(graph, Task()), self._console.log)
        setting = Setting(Task(), graph.characteristics(), hardware)
        plan = TrialPlan(curve=CurvePlan(SECONDS, until_plateau=True), timed_seconds=1.5, timeout_s=120.0)
        with (
            ProfileStore.open(folder / "profiles.sqlite") as store,
            Profiler(store, graph, setting, plan, executor, self._console.log) as profiler,
        ):
            default = self._row(spec, 0, profiler, plan, TrainConfig().canonical())
            others, line = equal_time(profiler, default)
            self._console.log(f"{spec}: {line}")
            seed = sum(spec.encode())  # each graph has a design of its own
            configs = design(SearchSpace.of(setting), rows, seed)
            for place in range(len(configs), 0, -DEFAULT_EVERY):
                configs.insert(place, TrainConfig().canonical())
            found = [self._row(spec, number, profiler, others, one) for number, one in enumerate(configs, start=1)]
        return [default, *found]

    def _row(self, spec: str, number: int, profiler: Profiler, plan: TrialPlan, config: TrainConfig) -> Measurement:
        kept = self._lines.get(spec, number, config.key())
        if kept is not None:
            found = Measurement.from_dict(kept)
            profiler.curves.learn(found)
            return found
        found = profiler.repeat(config, plan)
        self._lines.put(spec, number, config.key(), value=found.to_dict())
        self._console.log(f"{spec} {number}: {describe_config(config)}: {found.seconds:.1f} s")
        return found


def main() -> None:
    """Measures the corpus, and writes it where it was asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="a real graph's name, or what --dataset takes")
    parser.add_argument("--rows", type=int, default=12, help="rows of a graph beside the default's")
    parser.add_argument("--folder", type=Path, default=Path("runs/corpus"), help="where rows are kept")
    parser.add_argument("--export", type=Path, help="write the rows of these graphs here, such as profiles/FILE")
    options = parser.parse_args()
    console, specs = Console(stderr=True), options.graphs or list(GRAPHS)
    corpus = Corpus(ResultLines(options.folder / "rows.jsonl"), console)
    with LocalExecutor(console.log) as executor:
        hardware = within_peaks(probe_hardware(worker=executor.worker, notify=console.log), [], console.log)
        measured = [corpus.measure(spec, options.rows, hardware, executor, options.folder) for spec in specs]
    if options.export is not None:
        console.log(f"{write_measurements(options.export, chain(*measured))} rows in {options.export}")


if __name__ == "__main__":
    main()

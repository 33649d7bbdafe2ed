"""One PyG training script, with PyG's NeighborLoader and with a3gnn's Loader in its place: milliseconds per step.

    python -m benchmarks.loader_swap [--graphs SPEC ...] [--peers-dir .peers] [--json FILE]

Both scripts are benchmarks/workers/pyg_script.py, each in a process of its own, GraphSAGE with 256 hidden units; blocks
of steps alternate. The model is called in three forms: `plain` as PyG's examples write it, `trim` with trim_to_layer,
`layers` on a CSR adjacency per layer (`Loader(adjs=True)` yields them; with NeighborLoader they are built by hand).
`load` is the part of a step until its mini-batch is there; the rest is the model. Ratios are of one round's medians,
and their spread is over the rounds. NeighborLoader runs in the environment that `make peers` builds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from a3gnn.graphs.graph import Graph
from benchmarks.engine.graphs import data_folder
from benchmarks.pyg_peer import SCRIPT, add_peers_dir, pyg_python
from benchmarks.report import median_and_range

FORMS = ("plain", "trim", "layers")
ARXIV_SIZE = "synthetic:nodes=169343,degree=15,classes=40,features=128"
WARM_UP = 3

Medians = dict[str, float]


class Script:
    """A running pyg_script.py; a context manager."""

    def __init__(self, python: str | Path, loader: str, folder: Path, options: list[str]) -> None:
        command = [str(python), str(SCRIPT), str(folder), "--loader", loader, *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def block(self, form: str, steps: int) -> Medians:
        """Returns the median milliseconds of `steps` steps, and of their loading."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{form} {steps}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{SCRIPT.name} has ended; its message is above")
        return {name: 1e3 * statistics.median(seconds) for name, seconds in json.loads(answer).items()}


def measure(spec: str, peer: Path | None, rounds: int, steps: int, options: list[str]) -> dict[str, dict[str, object]]:
    """Returns, by form and loader, the rounds' medians on one graph."""
    folder = Graph.load(spec).on_disk().folder
    assert folder is not None
    with ExitStack() as stack:
        scripts = {"Loader": stack.enter_context(Script(sys.executable, "Loader", folder, options))}
        if peer is not None:
            scripts["NeighborLoader"] = stack.enter_context(Script(peer, "NeighborLoader", folder, options))
        found: dict[str, dict[str, list[Medians]]] = {form: {name: [] for name in scripts} for form in FORMS}
        for i in range(rounds + 1):
            for form in FORMS:
                for name, script in scripts.items():
                    medians = script.block(form, steps if i else WARM_UP)
                    if i:
                        found[form][name].append(medians)
    return {form: row(by_loader) for form, by_loader in found.items()}


def row(by_loader: dict[str, list[Medians]]) -> dict[str, object]:
    """Returns the medians over the rounds, and the rounds' ratios."""
    summary: dict[str, object] = {
        f"{name}_{part}_ms": statistics.median(medians[part] for medians in rounds)
        for name, rounds in by_loader.items()
        for part in ("step", "load")
    }
    if "NeighborLoader" in by_loader:
        pairs = list(zip(by_loader["NeighborLoader"], by_loader["Loader"], strict=True))
        for part in ("step", "load"):
            summary[f"{part}_ratios"] = [peer[part] / own[part] for peer, own in pairs]
    return summary


def line(form: str, found: dict[str, object]) -> str:
    """Returns one row of the table."""

    def cell(name: str) -> str:
        if f"{name}_step_ms" not in found:
            return f"{'not installed':>20}"
        return f"{found[f'{name}_step_ms']:11.1f} ({found[f'{name}_load_ms']:6.1f})"

    def spread(part: str) -> str:
        ratios = found.get(f"{part}_ratios")
        if not isinstance(ratios, list):
            return f"{'-':>22}"
        return median_and_range(ratios)

    return f"{form:8}{cell('NeighborLoader')}{cell('Loader')}  {spread('step'):>22}  {spread('load'):>22}"


def default_graphs() -> list[str]:
    """Returns the synthetic graph, and fb100_multi_a where the folder of real graphs ($A3GNN_DATA) has it."""
    real = data_folder() / "fb100_multi_a.npz"
    return [ARXIV_SIZE, *([str(real)] if real.is_file() else [])]


def main() -> None:
    """Prints a table per graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=default_graphs(), metavar="SPEC")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="steps per block")
    parser.add_argument("--fanouts", nargs="+", default=["25", "10"])
    parser.add_argument("--num-workers", default="0", help="workers of both loaders: PyG's processes, a3gnn's threads")
    parser.add_argument("--json", type=Path, metavar="FILE")
    add_peers_dir(parser)
    options = parser.parse_args()
    peer = pyg_python(options.peers_dir)
    passed = ["--fanouts", *options.fanouts, "--num-workers", options.num_workers]
    results = {}
    for spec in options.graphs:
        results[spec] = measure(spec, peer, options.rounds, options.steps, passed)
        print(f"{spec}, milliseconds per step (of them loading)")
        print(f"{'form':8}{'NeighborLoader':>20}{'Loader':>20}  {'ratio of steps':>22}  {'ratio of loading':>22}")
        print(*(line(form, found) for form, found in results[spec].items()), sep="\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

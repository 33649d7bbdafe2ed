"""One run of the benchmark: graph by graph, row by row, engines alternating."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.engine.client import Engine
from benchmarks.engine.graphs import BenchmarkGraph
from benchmarks.engine.measure import Effort, MemoryUse, first_batch, measure, training_memory
from benchmarks.engine.report import new_report
from benchmarks.engine.rows import ROWS, Row
from benchmarks.engine.workers.work import Unavailable, Work

_ENGINES = ("a3gnn", "dgl", "pyg")
_GROWTH_GRAPH = "arxiv"
_SHARES: dict[str, tuple[str, tuple[int, ...]]] = {
    "sample (25,10)": ("sampler_share", (25, 10)),
    "sample (15,10,5)": ("sampler_share", (15, 10, 5)),
    "gather": ("gather_share", (25, 10)),
}
_GROWTH_EPOCHS = 20


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked of a run.

    Attributes:
        graphs: Graphs, in order.
        rows: Keys of the rows that are measured.
        effort: How long.
        peers: Folder of the peers' environments.
        cache: Folder of converted graphs.
        apart: Whether start-up, memory and shares are measured, too.
        say: Takes a line on progress.
        keep: Takes the document so far after each row, so that a run that is cut short leaves what it has.
    """

    graphs: Sequence[BenchmarkGraph]
    rows: Sequence[str]
    effort: Effort
    peers: Path
    cache: Path
    apart: bool
    say: Callable[[str], None]
    keep: Callable[[dict[str, Any]], None]


def run(asked: Run) -> dict[str, Any]:
    """Returns the document of a run, not judged yet; a graph that can't be had is skipped with the reason."""
    report = new_report(asdict(asked.effort))
    for graph in asked.graphs:
        asked.say(f"{graph.name}:")
        try:
            folder = graph.folder(asked.cache)
        except Unavailable as reason:
            report["skipped"][graph.name] = str(reason)
            continue
        _shares(asked, graph, folder, report)
        for row in ROWS:
            if row.key in asked.rows:
                _measure(asked, graph, folder, row, report)
                asked.keep(report)
        if asked.apart:
            _apart(asked, graph, folder, report)
            asked.keep(report)
    return report


@contextmanager
def _opened(folder: Path, peers: Path, report: dict[str, Any]) -> Iterator[Mapping[str, Engine | str]]:
    """Gives the engines with the graph in their memory, or why there is none; all end with the block."""
    engines: dict[str, Engine | str] = {}
    with ExitStack() as stack:
        for name in _ENGINES:
            try:
                engine = stack.enter_context(Engine(name, interpreter(name, peers)))
                shape = engine.ask("open", folder=str(folder))
            except Unavailable as reason:
                engines[name] = str(reason)
                continue
            engines[name] = engine
            report["versions"][name] = engine.versions
            report["graphs"][folder.name] = shape
        yield engines


def interpreter(name: str, peers: Path) -> Path:
    """Returns the Python that engine `name` is installed for."""
    return Path(sys.executable) if name == "a3gnn" else peers / name / "bin" / "python"


def _measure(asked: Run, graph: BenchmarkGraph, folder: Path, row: Row, report: dict[str, Any]) -> None:
    # New processes for each row: an engine that fails, or keeps memory, affects no other row.
    with _opened(folder, asked.peers, report) as engines:
        outcomes = measure(row, graph.batch_size, engines, asked.effort, asked.say)
    found = {label: asdict(outcome) for label, outcome in outcomes.items()}
    report["rows"].setdefault(row.key, {})[graph.name] = found


def _shares(asked: Run, graph: BenchmarkGraph, folder: Path, report: dict[str, Any]) -> None:
    """Measures the machine's limits and, if asked, a3gnn's share of them; the limits of the largest graph count."""
    with Engine("a3gnn", interpreter("a3gnn", asked.peers)) as engine:
        edges = engine.ask("open", folder=str(folder))["edges"]
        limits = engine.ask("extra", question="limits", argument={})
        if edges > report["limits"].get("entries", 0):
            reads, copies = limits["slots_reads_per_s"], limits["copy_bytes_per_s"]
            report["limits"] = {"entries": edges, "random_reads_per_s": reads, "copy_bytes_per_s": copies}
        found = report["shares"][graph.name] = {}
        for name, (question, fanouts) in _SHARES.items() if asked.apart else ():
            asked.say(f"  share of the limit: {name}")
            argument = {"fanouts": fanouts, "batch_size": graph.batch_size, "count": asked.effort.shares}
            try:
                found[name] = engine.ask("extra", question=question, argument=argument)
            except Unavailable as reason:
                found[name] = {"missing": str(reason)}


def _apart(asked: Run, graph: BenchmarkGraph, folder: Path, report: dict[str, Any]) -> None:
    load = Work("load", batch_size=graph.batch_size)
    train = replace(load, kind="train")
    report["first_batch"][graph.name] = first = {}
    report["memory"][graph.name] = memory = {}
    measured = report["rows"].get("train-sage", {}).get(graph.name, {})
    labels = {"a3gnn": "a3gnn", "dgl": "DGL", "pyg": "PyG"}
    for name in _ENGINES:
        asked.say(f"  start-up and memory: {name}")
        python = interpreter(name, asked.peers)
        first[labels[name]] = asdict(first_batch(name, python, folder, load, asked.effort.starts))
        best = measured.get(labels[name], {}).get("variant") or _first_variant(name, python, train)
        used = (
            training_memory(name, python, folder, train, best, asked.effort.memory)
            if best
            else MemoryUse("not installed")
        )
        memory[labels[name]] = asdict(used)
    if graph.name == _GROWTH_GRAPH or len(asked.graphs) == 1:
        asked.say(f"  growth over {_GROWTH_EPOCHS} epochs")
        best = memory["a3gnn"]["variant"]
        grown = training_memory("a3gnn", interpreter("a3gnn", asked.peers), folder, train, best, 0, _GROWTH_EPOCHS)
        report["growth"] = {"graph": graph.name, "variant": best, "by_epoch": grown.by_epoch}


def _first_variant(name: str, python: Path, work: Work) -> str:
    with contextlib.suppress(Unavailable), Engine(name, python) as engine:
        return str(engine.ask("variants", work=work.to_dict())[0])
    return ""

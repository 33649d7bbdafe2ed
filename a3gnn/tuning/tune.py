"""`tune`: the whole story."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.config import Task
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.objectives import Priority
from a3gnn.profiling.hopeless import why_hopeless
from a3gnn.training.run_folder import default_folder
from a3gnn.tuning.choice import choose
from a3gnn.tuning.explore import explore, measure_references, try_smallest
from a3gnn.tuning.finish import finish
from a3gnn.tuning.folder import open_folder
from a3gnn.tuning.request import TuneRequest
from a3gnn.tuning.result import TuneResult
from a3gnn.tuning.session import open_campaign
from a3gnn.units import parse_duration, parse_size

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


def tune(
    dataset: GraphLike,
    *,
    priority: str | Priority = "throughput",
    memory_limit: str | int | None = None,
    host_memory_limit: str | int | None = None,
    max_accuracy_drop: float = 1.0,
    budget: str | float | int = "5min",
    engine: str = "ppo",
    task: Task | None = None,
    fix: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    seed: int = 0,
    accuracy_epochs: int | None = None,
    store: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> TuneResult:
    """Returns the best configuration that keeps the limits on this machine, as measured.

    Measures the default configuration, then searches the predicted Pareto front and measures what matters in rounds,
    and verifies the choice by a second trial (A3GNN, section III-C). The result's files are in `out`.

    Args:
        dataset: A graph, a PyG `Data`, or what `Graph.load` takes.
        priority: throughput, memory, accuracy, balanced, or weights "T,M,A".
        memory_limit: Of the device where there is one, of the host otherwise: bytes, or text such as "4GiB".
        host_memory_limit: Of the host, where there is a device.
        max_accuracy_drop: Points of test accuracy that may be lost against the default configuration.
        budget: A duration such as "10min" or seconds (float), or a number of probes (int).
        engine: ppo, nsga2, tpe, random or exhaustive.
        task: What is trained; GraphSAGE with 256 hidden units and fanouts 25 and 10 by default.
        fix: Knobs held at a value.
        ranges: Knobs cut to (low, high).
        seed: Decides every random choice of the tune.
        accuracy_epochs: Epochs that a trial trains for its accuracy; by default the fewer the more train seeds.
        store: Where measurements are kept and looked up: a path or an SQLAlchemy URL; `out`/profiles.sqlite by default.
        out: A new folder; runs/GRAPH by default.
        resume: Whether to go on with the interrupted tune in `out`.
        notify: Takes each line of progress.

    Raises:
        InfeasibleError: Nothing keeps the limits; the message says the smallest memory limit that would.
        UsageError: An option breaks its law.
        GraphError: The graph can't be used.
        KeyboardInterrupt: By Ctrl-C; the message says how to go on.
    """
    start = time.monotonic()
    graph = as_graph(dataset)
    request = TuneRequest(
        spec=spec_of(dataset, graph),
        task=task or Task(),
        priority=priority if isinstance(priority, Priority) else Priority.parse(priority),
        memory_limit=parse_size(memory_limit) if isinstance(memory_limit, str) else memory_limit,
        host_memory_limit=parse_size(host_memory_limit) if isinstance(host_memory_limit, str) else host_memory_limit,
        max_accuracy_drop=max_accuracy_drop,
        budget=parse_duration(budget) if isinstance(budget, str) else budget,
        engine=engine,
        fixed=tuple((fix or {}).items()),
        ranges=tuple((name, low, high) for name, (low, high) in (ranges or {}).items()),
        seed=seed,
        accuracy_epochs=accuracy_epochs,
    )
    folder = Path(out) if out is not None else default_folder(graph.name)
    journal = open_folder(folder, request, resume)
    try:
        with open_campaign(request, graph, journal, store or folder / "profiles.sqlite", notify) as campaign:
            if reason := why_hopeless(campaign.findings.limits, campaign.hardware):
                notify(reason)
            else:
                measure_references(campaign)
                explore(campaign)
            try_smallest(campaign)
            return finish(campaign, choose(campaign), folder, time.monotonic() - start)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"what was measured is kept; the same command with --out {folder} --resume goes on"
        ) from interrupt

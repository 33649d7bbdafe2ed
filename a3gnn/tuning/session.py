"""Opens all that a tune needs, and closes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from a3gnn.errors import unknown_name
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import default_accuracy_epochs
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.probe import probe_hardware, within_peaks
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.shipped import shipped_measurements
from a3gnn.profiling.store import ProfileStore
from a3gnn.search.searcher import ENGINES
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.campaign import Campaign
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.pretrain import shipped_policy
from a3gnn.tuning.request import TuneRequest
from a3gnn.units import count, format_size

#: A trial may take this share of a tune's time, and at least and at most so many seconds.
_TRIAL_SHARE, _LEAST_TIMEOUT_S, _MOST_TIMEOUT_S = 1 / 3, 60.0, 1800.0


@contextmanager
def open_campaign(
    request: TuneRequest, graph: Graph, journal: Journal, store: str | Path, notify: Callable[[str], None]
) -> Iterator[Campaign]:
    """Yields the campaign of `request` on this machine; probes that `journal` holds count as done."""
    if request.engine not in ENGINES:
        raise unknown_name("--engine", request.engine, ENGINES)
    for note in graph.notes:
        notify(note)
    graph = graph.on_disk()
    done = journal.read()
    with ProfileStore.open(store) as profiles, LocalExecutor(notify) as executor:
        measured = [*profiles.rows(), *(probe.measurement for probe in done)]
        hardware = within_peaks(probe_hardware(worker=executor.worker, notify=notify), measured, notify)
        probes = sum(probe.reason != "default" for probe in done)
        budget = Budget(request.budget, sum(probe.measurement.seconds for probe in done), probes)
        characteristics = graph.characteristics()
        epochs = request.accuracy_epochs or default_accuracy_epochs(characteristics)
        notify(_describe(hardware))
        notify(
            f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features, "
            f"{characteristics.num_train:,} train seeds; accuracy after {count(epochs, 'epoch')}"
        )
        if done:
            notify(f"resuming after {count(probes, 'probe')}")
        limits = request.limits(hardware, None)
        plan = TrialPlan(
            accuracy_epochs=epochs,
            timeout_s=_timeout(request.budget),
            host_limit_bytes=limits.host_bytes,
            device_limit_bytes=limits.device_bytes,
        )
        corpus = [*shipped_measurements(), *profiles.rows()]
        with Profiler(profiles, graph, request.task, hardware, plan, executor, notify) as profiler:
            yield Campaign(
                request, characteristics, hardware, profiler, corpus, shipped_policy(), budget, journal, notify
            )


def _timeout(budget: float | int) -> float:
    if isinstance(budget, int):
        return _MOST_TIMEOUT_S
    return min(max(budget * _TRIAL_SHARE, _LEAST_TIMEOUT_S), _MOST_TIMEOUT_S)


def _describe(hardware: Hardware) -> str:
    device = (
        f", {hardware.device} with {format_size(hardware.device_memory_bytes)}" if hardware.has_device else ", no GPU"
    )
    return f"{hardware.cpu}, {hardware.num_cores} cores, {format_size(hardware.host_memory_bytes)} memory{device}"

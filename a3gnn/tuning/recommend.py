"""`recommend`: the configuration with the best predictions, without a trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.evaluation.event_evaluator import check_untimed
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import kept_hardware, probe_hardware, within_peaks
from a3gnn.measurement import Measurement
from a3gnn.metric import AUTO, checked_metric
from a3gnn.notify import listener
from a3gnn.objectives import QUALITY, Priority
from a3gnn.option_names import option
from a3gnn.profiling.store.existing import existing_rows
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.setting import Setting
from a3gnn.storage.claim import claimed
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.examine import examined
from a3gnn.tuning.beliefs.kept_surrogate import kept_surrogate
from a3gnn.tuning.beliefs.outlook import Outlook, unknowns
from a3gnn.tuning.beliefs.recommendation import CorpusCount, Forecast, Recommendation
from a3gnn.tuning.engines.predicted_best import predicted_best
from a3gnn.tuning.study.arguments import check_places, make_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import why_infeasible
from a3gnn.tuning.study.study import DEFAULT_PEAK, Study
from a3gnn.tuning.tell.intro import place

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


def recommend(
    dataset: GraphLike,
    *,
    priority: str | Priority = "time",
    memory_limit: str | int | None = None,
    host_memory_limit: str | int | None = None,
    max_accuracy_drop: float = 0.5,
    task: Task | None = None,
    metric: str | None = None,
    fix: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    out: str | Path | None = None,
    hardware: Hardware | None = None,
    split: str | Sequence[float] | None = None,
    split_seed: int = 0,
    notify: Callable[[str], None] | None = None,
) -> Recommendation:
    """Returns the configuration with the best prediction among those that probably keep the limits; runs no trial.

    The predictions are the ones that a tune starts from: a surrogate, fitted to the shipped measurements and to
    `store`. The first fit takes some seconds, and so does probing this machine; the cache folder keeps both. The
    predictions have 90 % intervals, and the result lists what they can't know. Only `tune` measures.

    Args:
        dataset: A graph, a PyG `Data`, or any argument of `Graph.load`.
        priority: time (seconds to accuracy), throughput, memory, accuracy, balanced, or weights "T,M,A".
        memory_limit: Limit on device memory, or on host memory without a device: bytes, or text such as "4GiB".
        host_memory_limit: Limit on host memory of a machine with a device.
        max_accuracy_drop: Points (hundredths) of validation quality, by the metric, that may be lost against the
            default configuration when that stops improving, or as far as a tune trains it.
        task: Model, sizes and training options; GraphSAGE with 256 hidden units and fanouts 25 and 10 by default. Your
            own model, and models for node types and links, need measurements on this graph in `store`.
        metric: accuracy, macro_f1, micro_f1, roc_auc, average_precision, mae, or auto, which fits the metric to the
            labels (docs/reference/metrics.md). None means the task's metric, or auto without a task.
        fix: Knobs held at a value.
        ranges: Knobs restricted to (low, high).
        seed: Decides every random choice of the search.
        store: Your own measurements, a path or an SQLAlchemy URL: from `a3gnn profile`, or the profiles.sqlite in the
            folder of a tune; by default runs/profiles.db, if it exists. It is only read.
        out: A new folder for a tuned.json, which `train` takes; nothing is written by default.
        hardware: The machine to predict for; by default this one, as last probed.
        split: Shares of train, validation and test nodes, such as "0.6,0.2,0.2". Labeled nodes are then split at
            random, in place of the graph's own split. None keeps the graph's split.
        split_seed: Seed of that random split.
        notify: Takes each line of progress; by default they are printed, in a script to stderr.

    Raises:
        InfeasibleError: Nothing is predicted to keep the limits; the message contains limits that would do.
        UsageError: An option has a wrong value, or another run writes `out`, or nothing was measured of a model that is
            not built in. Nothing was written.
        StoreError: There is no store at `store`, or it can't be read.
        GraphError: The graph can't be used.
    """
    metric, notify = checked_metric(metric), listener(notify)
    request = make_request(
        priority=priority,
        memory_limit=memory_limit,
        host_memory_limit=host_memory_limit,
        max_accuracy_drop=max_accuracy_drop,
        budget=1,  # a request needs one, but no trial runs
        engine="ppo",
        task=task,
        fix=fix,
        ranges=ranges,
        seed=seed,
    )
    if request.priority.final:
        raise UsageError(f"{option('priority')} {QUALITY} searches models, which needs trials; a3gnn tune takes it")
    if request.memory_limit == DEFAULT_PEAK:
        raise UsageError(
            f"{option('memory_limit')} must be a size, got 'baseline', which is the peak that the baseline takes as "
            "measured, and nothing is measured here; a3gnn tune takes it"
        )
    check_places(out, store, resume=False)
    shares = Split.of(split, split_seed)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(claimed(Path(out), notify))
            check_places(out, store, resume=False)  # another run may have ended there meanwhile
        stored = existing_rows(store)
        compile_ahead(KernelSet(), notify)
        machine = within_peaks(probed_machine(notify), stored, notify) if hardware is None else hardware
        graph = as_graph(dataset, shares)
        check_untimed(graph, "recommend")
        judged = with_metric(request.task, AUTO if metric is None and task is None else metric, graph, notify)
        if judged.is_own:
            judged = _as_measured(judged, graph, stored, request.evaluation_bytes, notify)
        request = dataclasses.replace(request, task=judged)
        if out is not None:
            request = dataclasses.replace(request, spec=spec_of(dataset, graph, shares))
        setting = Setting(request.task, graph.characteristics(), machine)
        for line in (*graph.notes, *place(setting, with_model=False)):
            notify(line)
        if reason := why_infeasible(request.limits(machine, None), machine):
            raise InfeasibleError(reason)
        study = Study.of(request, setting)
        shipped = shipped_measurements(typed=bool(setting.graph.relations))
        found = _recommendation(dataclasses.replace(study, corpus=(*shipped, *stored)), notify)
        return found if out is None else _written(found, Path(out))


def _as_measured(
    task: Task, graph: Graph, stored: Sequence[Measurement], evaluation_bytes: int, notify: Callable[[str], None]
) -> Task:
    """Returns the task of a model that is not built in, such as one for node types or links, as `stored` describes it.

    Raises:
        UsageError: None of `stored` measured this model on this graph.
    """
    of_task = [
        row
        for row in stored
        if row.metrics is not None
        and row.setting.graph.fingerprint == graph.fingerprint
        and dataclasses.replace(row.setting.task, own=None) == dataclasses.replace(task, own=None)
    ]
    if of_task:
        described = examined(task, graph, evaluation_bytes, notify=notify)
        for row in reversed(of_task):
            if row.setting.task.is_same_model(described):
                return row.setting.task
    raise UsageError(
        f"{option('model')} must be a built-in one, got {task.model}: nothing was measured of your own, or of models "
        f"for node types and links, from which it could be predicted on {graph.name}; a3gnn tune takes it, and then "
        f"{option('store', 'DIR/profiles.sqlite')} of that tune has measurements"
    )


def probed_machine(notify: Callable[[str], None]) -> Hardware:
    """Returns the last probe of this machine; probes it if there is none."""
    kept = kept_hardware()
    if kept is not None:
        return kept
    notify("probing this machine (some seconds; kept for the next time)")
    return probe_hardware(notify=notify)


def _recommendation(study: Study, notify: Callable[[str], None]) -> Recommendation:
    """Returns the recommendation for `study`.

    Raises:
        InfeasibleError: Nothing is predicted to keep the limits.
    """
    history = History(study)
    outlook = Outlook.of(history, kept_surrogate(history, notify))
    best, default = Forecast.pair(outlook, predicted_best(outlook))
    corpus = CorpusCount.of(study.corpus, study.setting)
    return Recommendation(study.request, study.setting, best, default, corpus, tuple(unknowns(outlook)))


def _written(found: Recommendation, folder: Path) -> Recommendation:
    """Writes the tuned.json of `found` into `folder`, and returns `found` with that folder."""
    found.tuned().write(folder / "tuned.json")
    return dataclasses.replace(found, folder=folder)

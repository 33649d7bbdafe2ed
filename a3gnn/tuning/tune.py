"""`tune`: references, proposals, trials, front, play-off, choice."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.hardware import Hardware
from a3gnn.metric import AUTO, MetricName, checked_metric
from a3gnn.models.own.factory import model_name
from a3gnn.notify import listener
from a3gnn.objectives import Priority
from a3gnn.option_names import call, options
from a3gnn.profiling.executor import TrialExecutor
from a3gnn.profiling.feasibility import why_infeasible
from a3gnn.search.result import SearchResult
from a3gnn.storage.claim import claimed, claimed_next
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.examine import examined
from a3gnn.tuning.beliefs.expectations import believed, fit_surrogate
from a3gnn.tuning.beliefs.kept_surrogate import kept_surrogate
from a3gnn.tuning.engines.propose import propose
from a3gnn.tuning.outcome.result import TuneResult, finished_result, say_finished
from a3gnn.tuning.run.finish import finish, finish_stopped
from a3gnn.tuning.run.rounds import (
    Explored,
    Proposer,
    explore,
    measure_references,
    measure_smallest,
    warn_of_short_budget,
)
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.arguments import check_places, make_request
from a3gnn.tuning.study.budget import Budget, StopAsked, forget_stop, stopped_by_file
from a3gnn.tuning.study.choice import Choice
from a3gnn.tuning.study.folder import repeating_as_before
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.memory_limits import BEYOND
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.tuning.verify.play_off import play_off

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


def tune(
    dataset: GraphLike,
    *,
    priority: str | Priority = "time",
    memory_limit: str | int | None = None,
    host_memory_limit: str | int | None = None,
    max_accuracy_drop: float = 1.0,
    budget: str | float | int = "5min",
    engine: str = "local",
    model: str | Callable[[int, int], Any] | None = None,
    task: Task | None = None,
    metric: str | None = None,
    fix: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    seed: int = 0,
    accuracy_epochs: int | None = None,
    target_accuracy: float | None = None,
    store: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    executor: TrialExecutor | None = None,
    hardware: Hardware | None = None,
    split: str | Sequence[float] | None = None,
    split_seed: int = 0,
    notify: Callable[[str], None] | None = None,
) -> TuneResult:
    """Returns the best configuration that keeps the limits on this machine, as measured.

    Measures the default configuration, then searches the predicted Pareto front and measures what matters in rounds
    (A3GNN, section III-C). What is best is chosen in a play-off, measured again beside the default. Configurations are
    compared after equal seconds of training, on validation. The result's files are in `out`. A file named `stop` that
    someone makes there ends the tune at once, with the best that it has measured so far.

    Args:
        dataset: A graph, a PyG `Data`, or what `Graph.load` takes.
        priority: time (seconds to accuracy), throughput, memory, accuracy, balanced, or weights "T,M,A".
        memory_limit: Of the device where there is one, of the host otherwise: bytes, text such as "4GiB", or
            "default" for what the default configuration takes, as measured.
        host_memory_limit: Of the host, where there is a device.
        max_accuracy_drop: Points (hundredths) of validation quality, by the metric, that may be lost against the
            default configuration, each trained as long.
        budget: A duration such as "10min" or seconds (float), or a number of trials (int); its clock starts with the
            call, stands still while kernels are compiled or the graph is sent to another machine, and goes on where a
            resumed tune's stopped.
        engine: local, ppo, nsga2, tpe, random or exhaustive.
        model: What is trained in place of the task's model: the name of a built-in one (docs/models.md), or one of your
            own: a function (in_channels, out_channels) that returns a torch.nn.Module, or its name as
            package.module:function (docs/own_models.md).
        task: What else of it is trained; GraphSAGE with 256 hidden units and fanouts 25 and 10 by default.
        metric: By what models are judged: accuracy, macro_f1, micro_f1, roc_auc, average_precision, mae, or auto for
            what suits the labels (docs/metrics.md); None for the task's, and auto where no task is given.
        fix: Knobs held at a value.
        ranges: Knobs restricted to (low, high).
        seed: Decides every random choice of the tune.
        accuracy_epochs: Epochs of the default's training; by default those of the task's learning-rate schedule;
            without one it is trained until it stops rising, or for an
            eighth of the budget. Others are trained for as many seconds.
        target_accuracy: Validation quality, by the metric, in percent (of mae, the error), whose seconds count; by
            default the default's best less `max_accuracy_drop`.
        store: Where measurements are kept and looked up: a path or an SQLAlchemy URL; `out`/profiles.sqlite by default.
        out: A new folder; runs/GRAPH by default.
        resume: Whether to go on with the interrupted tune in `out`, or with a finished one under a larger budget; a
            finished one is returned as it is otherwise.
        executor: Where trials run; in processes of this machine by default. Any object with the two methods of
            `a3gnn.profiling.executor.TrialExecutor` will do, such as `a3gnn.profiling.replay.Replay` over stored
            measurements, or `a3gnn.profiling.cluster.executor.RayExecutor` on another machine. It stays open.
        hardware: The machine on which `executor` runs trials; by default the one that the executor knows, else this
            one, probed.
        split: Shares of train, validation and test nodes, such as "0.6,0.2,0.2", by which labelled nodes are split at
            random in place of the graph's own split; None leaves that.
        split_seed: Decides which nodes.
        notify: Takes each line of progress; by default a notebook prints them.

    Raises:
        InfeasibleError: Nothing keeps the limits; the message says the smallest memory limit that would.
        UsageError: An option is not what it must be, or another run writes `out`; nothing was made.
        ModelError: A model of your own can't be built or called, or the default configuration can't train it.
        GraphError: The graph can't be used.
        KeyboardInterrupt: By Ctrl-C; the message says how to go on.
    """
    started, notify = time.monotonic(), listener(notify)
    metric, shares = checked_metric(metric), Split.of(split, split_seed)
    request = make_request(
        priority=priority,
        memory_limit=memory_limit,
        host_memory_limit=host_memory_limit,
        max_accuracy_drop=max_accuracy_drop,
        budget=budget,
        engine=engine,
        task=_asked(task, model, metric),
        fix=fix,
        ranges=ranges,
        seed=seed,
        accuracy_epochs=accuracy_epochs,
        target_accuracy=target_accuracy,
    )
    check_places(out, store, resume)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(claimed(Path(out), notify))
        if executor is None:
            started += compile_ahead(KernelSet(), notify)
        graph = as_graph(dataset, shares)
        judged = with_metric(request.task, AUTO if metric is None and task is None else metric, graph, notify)
        folder = Path(out) if out is not None else stack.enter_context(claimed_next(graph.name, notify))
        task = _examined(judged, graph, request, started, notify)
        task = repeating_as_before(task, folder) if resume else task
        request = dataclasses.replace(request, spec=spec_of(dataset, graph, shares), task=task)
        if resume and (finished := finished_result(folder, request)) is not None:
            say_finished(finished, notify)
            return finished
        opened = open_study(
            request,
            graph,
            folder,
            resume=resume,
            store=store,
            started=started,
            executor=executor,
            hardware=hardware,
            notify=notify,
        )
        with opened as (history, runner):
            try:
                return tune_study(history, runner)
            except KeyboardInterrupt as interrupt:
                raise KeyboardInterrupt(
                    f"what was measured is kept; the same {call()} with {options(out=folder, resume=True)} goes on"
                ) from interrupt
            finally:
                forget_stop(folder)


def _examined(task: Task, graph: Graph, request: TuneRequest, started: float, notify: Callable[[str], None]) -> Task:
    """Returns `task` as `examined` does, within what is left of the budget and not far beyond the limit on memory."""
    sizes = (request.host_memory_limit, None if torch.cuda.is_available() else request.memory_limit)
    limits = [round(BEYOND * size) for size in sizes if isinstance(size, int)]
    return examined(
        task,
        graph,
        request.evaluation_bytes,
        left_s=Budget(request.budget, started).left_s,
        limit_bytes=min(limits, default=None),
        notify=notify,
    )


def _asked(task: Task | None, model: str | Callable[[int, int], Any] | None, metric: str | None) -> Task | None:
    """Returns the task that is asked for, as far as it is known without a graph."""
    if model is not None:
        task = (task or Task()).with_model(model_name(model))
    if metric is None or metric == AUTO:
        return task
    return dataclasses.replace(task or Task(), metric=cast(MetricName, metric))


def tune_study(history: History, runner: Runner, proposer: Proposer = propose) -> TuneResult:
    """Measures and chooses, and writes the result; asked to stop, it chooses from what there is by then.

    Args:
        history: Of an open study: nothing yet, or what an earlier run measured.
        runner: Runs its trials.
        proposer: Says which trials come after the references.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    try:
        with stopped_by_file(runner.folder):
            measured, choice, searches = _measured(history, runner, proposer)
    except StopAsked:
        return finish_stopped(history, runner)
    return finish(measured, choice, searches, runner)


def _measured(history: History, runner: Runner, proposer: Proposer) -> tuple[History, Choice, tuple[SearchResult, ...]]:
    """References, then rounds of proposals and trials, then the play-off; returns what came of each."""
    surrogate = kept_surrogate(dataclasses.replace(history, trials=(), timings=()), runner.notify)
    if history.trials:  # as the run that made them fitted it
        surrogate = fit_surrogate(history, surrogate)
    if reason := why_infeasible(history.objectives.limits, history.study.setting.hardware):
        runner.notify(reason)
        explored = Explored(history, surrogate)
    else:
        warn_of_short_budget(history, runner)
        references = measure_references(history, surrogate, runner)
        if references is not history:  # a resumed tune has measured them
            surrogate = fit_surrogate(references, surrogate)
        explored = explore(references, surrogate, runner, proposer)
    measured = measure_smallest(explored.history, explored.surrogate, runner)
    ranked = believed(measured, explored.surrogate)
    return measured, play_off(measured, runner, ranked), explored.searches

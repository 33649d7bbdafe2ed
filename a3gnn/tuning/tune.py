"""`tune`: finds the best configuration by trials: references, trials, the verification, and the choice."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from a3gnn.errors import A3GNNError, InfeasibleError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.evaluation.event_evaluator import check_untimed
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.hardware import Hardware
from a3gnn.metric import AUTO, MetricName, checked_metric
from a3gnn.models.own.factory import model_name
from a3gnn.notify import listener
from a3gnn.objectives import Priority
from a3gnn.option_names import again, call, option, options
from a3gnn.profiling.executor import LocalExecutor, TrialExecutor
from a3gnn.profiling.executor_choice import opened_executor
from a3gnn.storage.claim import claimed, claimed_next
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.examine import examined
from a3gnn.tuning.beliefs.expectations import believed
from a3gnn.tuning.beliefs.kept_surrogate import kept_surrogate
from a3gnn.tuning.engines.engine import Engine, engine_of
from a3gnn.tuning.outcome.result import SearchSummary, TuneResult, finished_result, say_finished
from a3gnn.tuning.run import rounds
from a3gnn.tuning.run.finish import finish, finish_stopped
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.arguments import check_places, check_recipe, make_request
from a3gnn.tuning.study.budget import Budget, StopAsked, forget_stop, stopped_by_file
from a3gnn.tuning.study.choice import Choice
from a3gnn.tuning.study.folder import holds_tune, repeating_as_before
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import BEYOND, why_infeasible
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.tell.tried_trial import TriedTrial
from a3gnn.tuning.verify.verification import verify

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

#: Errors of a missing permission: with a file's name, or of a signal and the like, which no disk causes.
_DENIED = {errno.EACCES, errno.EPERM}
#: Errors of a disk: no room, none allowed, a fault, and folders that must not be written.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, *_DENIED}


def tune(
    dataset: GraphLike,
    *,
    priority: str | Priority = "time",
    memory_limit: str | int | None = None,
    host_memory_limit: str | int | None = None,
    max_accuracy_drop: float = 0.5,
    budget: str | float | int = "5min",
    engine: str = "ppo",
    model: str | Callable[[int, int], Any] | None = None,
    task: Task | None = None,
    metric: str | None = None,
    fix: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    seed: int = 0,
    accuracy_epochs: int | None = None,
    target_accuracy: float | None = None,
    references: bool = True,
    store: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    executor: TrialExecutor | str | None = None,
    hardware: Hardware | None = None,
    split: str | Sequence[float] | None = None,
    split_seed: int = 0,
    search: Mapping[str, Any] | None = None,
    enqueue: Sequence[Mapping[str, Any]] = (),
    callback: Callable[[TriedTrial], object] | None = None,
    notify: Callable[[str], None] | None = None,
) -> TuneResult:
    """Returns the best measured configuration that keeps the limits on this machine.

    Measures the default configuration, then configurations that an engine chooses by the predictions of a surrogate,
    which learns from each (A3GNN, section III-C). Verification measures the best ones again beside the default, and
    chooses. Configurations are compared on validation, after equal seconds of training. The result's files are in
    `out`. Creating a file named `stop` there ends the tune at once, with the best configuration measured so far.

    Args:
        dataset: A graph, a PyG `Data`, or any argument of `Graph.load`.
        priority: time (seconds to accuracy), throughput, memory, accuracy, balanced, or weights "T,M,A"; or quality:
            the final validation quality, for which shapes of the model are searched, too (docs/howto/quality.md).
        memory_limit: Limit on device memory, or on host memory without a device: bytes, text such as "4GiB", or
            "default" for the measured peak of the default configuration.
        host_memory_limit: Limit on host memory of a machine with a device.
        max_accuracy_drop: Points (hundredths) of validation quality, by the metric, that may be lost against the
            default configuration when that stops improving, or as far as the budget trains it.
        budget: A duration such as "10min" or seconds (float), or a number of trials (int). The clock starts with the
            call, and pauses while kernels are compiled or the graph is sent to another machine. A resumed tune
            continues the clock of the earlier run.
        engine: Chooses the trials: ppo (expected improvement, from the proposals of a policy), ei (without the
            policy), gp, tpe or nsga2 (Optuna's samplers), random or exhaustive.
        model: Replaces the task's model: the name of a built-in one (docs/reference/models.md), or one of your own: a
            function (in_channels, out_channels) that returns a torch.nn.Module, or its name as package.module:function
            (docs/howto/own_models.md).
        task: Model, sizes and training options; GraphSAGE with 256 hidden units and fanouts 25 and 10 by default.
        metric: accuracy, macro_f1, micro_f1, roc_auc, average_precision, mae, or auto, which fits the metric to the
            labels (docs/reference/metrics.md). None means the task's metric, or auto without a task.
        fix: Knobs held at a value.
        ranges: Knobs restricted to (low, high).
        seed: Decides every random choice of the tune.
        accuracy_epochs: Epochs of the default's training; by default those of the task's learning-rate schedule.
            Without a schedule the default trains until its accuracy stops improving, for at most a third of the budget.
            Others train for as many seconds.
        target_accuracy: The validation quality to reach, by the metric, in percent (for mae, the error). Seconds to
            accuracy are counted to it. By default the default's best less `max_accuracy_drop`.
        references: Whether to train models of nodes without a graph network first: linear, an MLP, and boosted trees,
            for at most a tenth of the budget and a minute. The summary names one that is nearly as good as the
            baseline.
        store: Where measurements are stored and looked up: a path or an SQLAlchemy URL; `out`/profiles.sqlite by
            default.
        out: A new folder; runs/GRAPH by default.
        resume: Whether to continue the tune in `out`: an interrupted one, or a finished one under a larger budget.
            Under the same budget, a finished tune is returned as it is.
        executor: Where trials run: "local" for processes of this machine (None is the same), "ray" for the Ray cluster
            of this machine, or an object with the two methods of `a3gnn.profiling.executor.TrialExecutor`, such as
            `a3gnn.profiling.replay.Replay` over stored measurements, or
            `a3gnn.profiling.cluster.executor.RayExecutor` on another machine. The tune does not close an object.
        hardware: The machine on which `executor` runs trials; by default the executor's own, or else this machine,
            probed.
        split: Shares of train, validation and test nodes, such as "0.6,0.2,0.2". Labeled nodes are then split at
            random, in place of the graph's own split. None keeps the graph's split.
        split_seed: Seed of that random split.
        search: Names with the values to try, in addition to the knobs: fields of the task, or arguments of your own
            model's factory. A value is a list of choices, (low, high), or a distribution of Optuna
            (docs/howto/search.md).
        enqueue: Trials to run first: values of knobs and of names of the search; the others are the baseline's.
        callback: Called after each trial of the search. If it returns True, the search ends; the best configurations
            are still verified, and one is chosen.
        notify: Takes each line of progress; by default they are printed, in a script to stderr.

    Raises:
        InfeasibleError: Nothing keeps the limits; the message contains the smallest memory limit that would do.
        UsageError: An option has a wrong value, or another run writes `out`. Nothing was written.
        MissingDependencyError: Ray is not installed. Nothing was written.
        ModelError: A model of your own can't be built or called, or the default configuration can't train it.
        GraphError: The graph can't be used.
        A3GNNError: The disk is full or faulty, or files may not be read or written; the message explains how to resume.
        KeyboardInterrupt: By Ctrl-C; the message explains how to resume.
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
        search=search,
        enqueue=enqueue,
        references=references,
    )
    check_places(out, store, resume)
    if hardware is not None and not isinstance(hardware, Hardware):
        raise UsageError(f"hardware must be a Hardware, got {hardware!r}; leave it out to probe the machine")
    with ExitStack() as stack:
        executor = stack.enter_context(opened_executor(executor, notify))
        if out is not None:
            stack.enter_context(claimed(Path(out), notify))
        if executor is None:
            started += compile_ahead(KernelSet(), notify)
        graph = as_graph(dataset, shares)
        check_untimed(graph, "tune")
        judged = with_metric(request.task, AUTO if metric is None and task is None else metric, graph, notify)
        check_recipe(request.recipe, judged)  # which may be another model, for node types or links
        if request.recipe and graph.edge_values:  # models read different ones, so the task's model stays
            request = dataclasses.replace(request, search=tuple(one for one in request.search if one.name != "model"))
        folder = Path(out) if out is not None else stack.enter_context(claimed_next(graph.name, notify))
        # Or they are compiled within the budget: when a model of types is examined, or by models of sparse rows.
        if executor is None and (graph.types is not None or graph.features.is_sparse):
            started += compile_ahead(KernelSet.of(graph.on_disk(), judged), notify)
        stack.enter_context(_disk_errors(folder))
        if executor is None:
            executor = stack.enter_context(LocalExecutor(notify))
        task = _examined(judged, graph, request, started, executor, notify)
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
            runner.callback = callback
            try:
                return tune_study(history, runner)
            except KeyboardInterrupt as interrupt:
                raise KeyboardInterrupt(
                    f"what was measured is kept; the same {call()} with {options(out=folder, resume=True)} goes on"
                    f"{again(out=folder, resume=True)}"
                ) from interrupt
            finally:
                forget_stop(folder)


def _examined(
    task: Task,
    graph: Graph,
    request: TuneRequest,
    started: float,
    executor: TrialExecutor,
    notify: Callable[[str], None],
) -> Task:
    """Returns `examined(task)`, within the remaining budget and at most `BEYOND` times the memory limit.

    Raises:
        UsageError: Models that read different values of the graph's edges are searched.
    """
    if graph.edge_values and any(one.name == "model" for one in request.search):
        raise UsageError(
            f"search: model must be left out on a graph with {' and '.join(graph.edge_values)}, because models read "
            f"different values of edges; give one by {option('model')}"
        )
    sizes = (request.host_memory_limit, None if torch.cuda.is_available() else request.memory_limit)
    limits = [round(BEYOND * size) for size in sizes if isinstance(size, int)]
    return examined(
        task,
        graph,
        request.evaluation_bytes,
        left_s=Budget(request.budget, started).left_s,
        search=request.search,
        limit_bytes=min(limits, default=None),
        worker=executor.worker if isinstance(executor, LocalExecutor) else None,
        notify=notify,
    )


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turns an error of the disk into one that says what is kept and how the tune in `folder` goes on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS or (error.errno in _DENIED and error.filename is None):
            raise
        kept, more = "nothing was measured", ""
        if not os.access(folder, os.X_OK, effective_ids=True) or holds_tune(folder):
            kept, more = "what was measured is kept", f" with {options(out=folder, resume=True)}"
        problem, remedy = _problem(error, folder)
        raise A3GNNError(f"{problem}; {kept}; {remedy}, and the same {call()}{more} goes on") from error


def _problem(error: OSError, folder: Path) -> tuple[str, str]:
    """Returns what failed and what to do about it: a file's permissions, if they forbade it."""
    place = Path(os.fsdecode(error.filename or folder))
    found = next(one for one in (place, *place.absolute().parents) if os.path.exists(one))
    if error.errno in _DENIED and not os.access(found, os.R_OK | os.W_OK, effective_ids=True):
        verb = "write to" if os.access(found, os.R_OK, effective_ids=True) else "read"
        return f"user {os.geteuid()} may not {verb} {found}", "change its permissions"
    return f"can't read or write {place}: {error.strerror}", "correct that"


def _asked(task: Task | None, model: str | Callable[[int, int], Any] | None, metric: str | None) -> Task | None:
    """Returns the requested task, as far as it is known without a graph; None if nothing was requested."""
    if model is not None:
        task = (task or Task()).with_model(model_name(model))
    if metric is None or metric == AUTO:
        return task
    return dataclasses.replace(task or Task(), metric=cast(MetricName, metric))


def tune_study(history: History, runner: Runner, engine: Engine | None = None) -> TuneResult:
    """Measures, chooses and writes the result. After a stop request it chooses among the trials measured so far.

    Args:
        history: Of an open study: empty, or with the trials of an earlier run.
        runner: Runs the trials.
        engine: Chooses the trials after the references; by default the request's.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    request = history.study.request
    engine = engine or engine_of(request)
    try:
        try:
            with stopped_by_file(runner.folder):
                measured, choice, search = _measured(history, runner, engine)
        except StopAsked:
            return finish_stopped(history, runner)
        return finish(measured, choice, search, runner)
    except InfeasibleError as error:
        runner.state = dataclasses.replace(runner.state, problem=str(error))  # for the report
        raise


def _measured(history: History, runner: Runner, engine: Engine) -> tuple[History, Choice, SearchSummary]:
    """Measures references, trials and the verification; returns history, choice and statistics of the search."""
    first = kept_surrogate(dataclasses.replace(history, trials=(), timings=()), runner.notify)
    if reason := why_infeasible(history.objectives.limits, history.study.setting.hardware, remedy=False):
        runner.notify(reason)
        explored = rounds.Explored(rounds.beliefs_after(history, first), SearchSummary(history.study.request.engine))
    else:
        runner.begin_phase("baseline")
        is_warned = rounds.warn_of_short_budget(history, runner)
        references = rounds.measure_references(history, first, runner)
        if not is_warned:
            rounds.warn_of_short_budget(references, runner)
        runner.begin_phase("search")
        explored = rounds.explore(references, first, runner, engine)
    measured = rounds.measure_smallest(explored.beliefs, runner)
    runner.begin_phase("verify")
    return measured, verify(measured, runner, believed(measured, explored.beliefs.surrogate)), explored.search

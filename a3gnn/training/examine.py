"""`examined`: describes a task's own model before trials, in a separate process."""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import ModelError, UsageError
from a3gnn.evaluation.choose_metric import notify_edges
from a3gnn.evaluation.own_evaluator import EvaluationPlans
from a3gnn.graphs.graph import Graph
from a3gnn.models.own.factory import Factory
from a3gnn.option_names import option
from a3gnn.process.worker import Ended, Worker
from a3gnn.search import Search, Searched, factory_names, with_arguments
from a3gnn.task import Task
from a3gnn.training.describe import SEEDS, described
from a3gnn.training.trainer import Trainer
from a3gnn.units import format_duration

#: Smallest and largest time limit in seconds, whatever the budget: three times what small models took, 3 to 10 seconds,
#: mostly for imports; and four times that.
_LEAST_SECONDS, _MOST_SECONDS = 30.0, 120.0
#: Smallest memory limit in bytes: one and a half times what a small model took, 330 MiB.
_LEAST_BYTES = 512 << 20
#: Mini-batches to train twice: the first one, one with weights that it changed, and one with moments of both.
_MINI_BATCHES = 3


def examined(
    task: Task,
    graph: Graph,
    evaluation_bytes: int,
    *,
    left_s: float = math.inf,
    limit_bytes: int | None = None,
    search: Search = (),
    worker: Worker | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Task:
    """Returns `task` with a description of its model, including whether it trains reproducibly and how it is evaluated.

    This process imports none of the user's code. A task of a built-in model is returned unchanged.

    Args:
        task: The task to tune or profile.
        graph: The graph to train on.
        evaluation_bytes: Memory limit of a pass of evaluation.
        left_s: Remaining seconds of the budget.
        search: Names of the factory's arguments, whose values are tried out one by one; the task gets the baseline's.
        limit_bytes: Memory limit of the process, at least `_LEAST_BYTES`, in addition to its limit by free memory; None
            for no further limit.
        worker: Runs the processes, such as an executor's, whose trials follow; by default a new worker.
        notify: Called with a message about the wait and its time limit.

    Raises:
        UsageError: There is no such factory.
        ModelError: The model can't be imported, built, called or trained, or this takes too long or too much memory.
            The message has the traceback, or the place where it was.
    """
    if not task.is_own:
        return task
    folder = str(graph.on_disk().folder)
    argument = {"task": task.to_dict(), "graph_folder": folder, "evaluation_bytes": evaluation_bytes}
    argument["search"] = [one.to_dict() for one in factory_names(search)]
    timeout_s = min(max(left_s, _LEAST_SECONDS), _MOST_SECONDS)
    if limit_bytes is not None:
        limit_bytes = max(limit_bytes, _LEAST_BYTES)
    notify(f"examining {task.model} on a few mini-batches (up to {format_duration(timeout_s)})")
    with nullcontext(worker) if worker else Worker() as worker:
        ended = worker.run(f"{__name__}:examine", argument, timeout_s=timeout_s, limit_bytes=limit_bytes)
        found = ended.result
        if found is None:
            raise ModelError(_why_not_examined(task.model, timeout_s, ended))
        _refuse(found)
        task = Task.from_dict(found["task"])
        if argument["search"]:  # values that take too much memory or time are for trials to find out
            argument["task"] = found["task"]
            _refuse(worker.run(f"{__name__}:try_values", argument, timeout_s=timeout_s, limit_bytes=limit_bytes).result)
    notify_edges(task, graph, notify)
    return task


def examine(argument: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"task": ...}` for the `argument` of `examined`, or `{"error": ..., "usage": ...}`."""
    try:
        graph, known = Graph.load(argument["graph_folder"]), dict(argument["task"])
        known.pop("own", None)
        task = described(_with_arguments(Task.from_dict(known), argument.get("search", [])), graph)
        assert task.own is not None
        plans = EvaluationPlans.of(graph, task, argument["evaluation_bytes"])
        if task.own.native:
            _compile(task, graph)
        own = dataclasses.replace(
            task.own, repeats=_repeats(task, graph), sampled=plans.sampled, pass_bytes=round(plans.pass_bytes)
        )
        return {"task": dataclasses.replace(task, own=own).to_dict()}
    except (UsageError, ModelError) as error:
        return {"error": str(error), "usage": isinstance(error, UsageError)}
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        return {"error": f"training {argument['task']['model']} raised an exception:\n{trace}", "usage": False}


def try_values(argument: dict[str, Any]) -> dict[str, Any]:
    """Builds the model with each value of the `argument` of `examined` in turn; returns `{}`, or the error's fields."""
    graph, task = Graph.load(argument["graph_folder"]), Task.from_dict(argument["task"])
    for one in map(Searched.from_dict, argument["search"]):
        for value in one.values:
            trial = task.with_values({one.name: value})
            try:
                Factory.of(task.model).build_for(trial, graph.in_channels, graph.num_classes)
            except ModelError as error:
                cause = error.__cause__
                if isinstance(cause, MemoryError) or "alloc" in str(cause):
                    continue
                why = str(error) if cause is None else f"{type(cause).__name__}: {cause}"
                return {"error": f"search: {task.model} refuses {one.name}={value!r}: {why}", "usage": True}
    return {}


def _with_arguments(task: Task, search: list[dict[str, Any]]) -> Task:
    """Returns `task` with the baseline's arguments of its factory, which must take all names of `search`."""
    names = tuple(map(Searched.from_dict, search))
    if not names:
        return task
    defaults = Factory.of(task.model).check_arguments([one.name for one in names])
    return with_arguments(names, task, defaults)[1]


def _refuse(found: dict[str, Any] | None) -> None:
    """Raises the error in the result of a process, if there is one."""
    if found is not None and "error" in found:
        raise (UsageError if found["usage"] else ModelError)(found["error"])


def _why_not_examined(model: str, timeout_s: float, ended: Ended) -> str:
    """Returns why the process that examined `model` has no result, and a remedy."""
    process = f"the process that trained a few mini-batches of {model}"
    if ended.killed == "timeout":
        where = f", and was at {ended.where}" if ended.where else ""
        remedy = "check whether it waits forever"
        if timeout_s < _MOST_SECONDS:
            remedy += f"; a larger {option('budget')} gives it up to {format_duration(_MOST_SECONDS)}"
        return f"{process} took longer than {format_duration(timeout_s)}{where}; {remedy}"
    if ended.killed == "memory":
        remedy = "end other programs" if ended.limited_by_free else "raise the memory limit"
        return f"{process} {ended.why()}; {remedy}, make the model smaller, or check whether it leaks memory"
    return f"{ended.log.strip()}\n{process} {ended.why()}".strip()


def _compile(task: Task, graph: Graph) -> None:
    """Trains a mini-batch in bfloat16, so that no trial compiles an accelerated layer's kernels."""
    config = TrainConfig(batch_size=SEEDS, compute_dtype="bfloat16")
    with Trainer(graph, config, task) as trainer:
        list(islice(trainer.steps(0), 1))


def _repeats(task: Task, graph: Graph) -> bool:
    """Returns whether training twice on a few mini-batches of the default configuration gives the same bits."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    states: list[dict[str, Tensor]] = []
    with Trainer(graph, TrainConfig(batch_size=SEEDS), task, device=device) as trainer:
        for _ in range(2):
            trainer.restart()
            for _ in islice(trainer.steps(0), _MINI_BATCHES):
                pass
            states.append({name: one.detach().clone() for name, one in trainer.model.state_dict().items()})
        trainer.check_sources()
    return all(torch.equal(one, states[1][name]) for name, one in states[0].items())

"""`examined`: a task with what is known of its model before trials of it are run, found in a process of its own."""

from __future__ import annotations

import dataclasses
import traceback
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import ModelError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.process.worker import Worker
from a3gnn.task import Task
from a3gnn.training.own.describe import described
from a3gnn.training.own.evaluation_plans import EvaluationPlans
from a3gnn.training.trainer import Trainer

#: Seconds that it may take. Guess: some hundred times what two-layer models take.
_MOST_SECONDS = 600.0
#: Mini-batches that are trained twice, and their seeds. Guesses.
_MINI_BATCHES, _SEEDS = 3, 256


def examined(task: Task, graph: Graph, evaluation_bytes: int) -> Task:
    """Returns `task` described, with whether the model trains alike twice and how it is evaluated.

    Nothing of the user's is imported in this process. A task of a built-in model is returned as it is.

    Args:
        task: What is to be tuned or profiled.
        graph: On what.
        evaluation_bytes: What a pass of evaluation may take.

    Raises:
        UsageError: There is no such factory.
        ModelError: It can't be imported, built, called or trained; the message has the traceback.
    """
    if not task.is_own:
        return task
    folder = str(graph.on_disk().folder)
    argument = {"task": task.to_dict(), "graph_folder": folder, "evaluation_bytes": evaluation_bytes}
    with Worker() as worker:
        ended = worker.run(f"{__name__}:examine", argument, timeout_s=_MOST_SECONDS)
    found = ended.result
    if found is None:
        why = f"was ended ({ended.killed})" if ended.killed else f"ended with status {ended.status}"
        raise ModelError(f"the process that trained a few mini-batches of {task.model} {why}: {ended.log.strip()}")
    if "error" in found:
        raise (UsageError if found["usage"] else ModelError)(found["error"])
    return Task.from_dict(found["task"])


def examine(argument: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"task": ...}` for the `argument` of `examined`, or `{"error": ..., "usage": ...}`."""
    try:
        graph, known = Graph.load(argument["graph_folder"]), dict(argument["task"])
        known.pop("own", None)
        task = described(Task.from_dict(known), graph)
        assert task.own is not None
        plans = EvaluationPlans.of(graph, task, argument["evaluation_bytes"])
        own = dataclasses.replace(
            task.own, repeats=_repeats(task, graph), sampled=plans.sampled, pass_bytes=round(plans.pass_bytes)
        )
        return {"task": dataclasses.replace(task, own=own).to_dict()}
    except (UsageError, ModelError) as error:
        return {"error": str(error), "usage": isinstance(error, UsageError)}
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        return {"error": f"training {argument['task']['model']} raised an exception:\n{trace}", "usage": False}


def _repeats(task: Task, graph: Graph) -> bool:
    """Returns whether a few mini-batches of the default configuration that are trained twice give the same bits."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    states: list[dict[str, Tensor]] = []
    with Trainer(graph, TrainConfig(batch_size=_SEEDS), task, device=device) as trainer:
        for _ in range(2):
            trainer.restart()
            for _ in islice(trainer.steps(0), _MINI_BATCHES):
                pass
            states.append({name: one.detach().clone() for name, one in trainer.model.state_dict().items()})
        trainer.check_sources()
    return all(torch.equal(one, states[1][name]) for name, one in states[0].items())

"""`described`: a task with what is known of the model that its factory makes on a graph."""

from __future__ import annotations

import dataclasses
import sys
import traceback

import torch

from a3gnn.errors import ModelError
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import OwnModel, Task
from a3gnn.training.own.count import counted
from a3gnn.training.own.factory import Factory
from a3gnn.training.own.inputs import squared
from a3gnn.training.own.sources import Sources
from a3gnn.training.own.user_model import UserModel

#: Seeds of the mini-batch on which the model is called to count what it costs. Guess.
_SEEDS = 256


def described(task: Task, graph: Graph) -> Task:
    """Returns `task` with `own` as its factory's module is now: imported, built, and called twice on a mini-batch.

    A task of a built-in model is returned as it is.

    Raises:
        UsageError: There is no such factory.
        ModelError: It can't be imported, built or called as `docs/own_models.md` says; the message has the traceback.
    """
    if not task.is_own:
        return task
    factory, imported = Factory.of(task.model), set(sys.modules)
    model = UserModel.of(factory.name, factory.build(graph.num_features, graph.num_classes, task.seed))
    sampler = NeighbourSampler(graph.indptr, graph.indices, task.fanouts, seed=task.seed)
    subgraph = sampler.sample(graph.train_ids[:_SEEDS], 0, 0)
    inputs, extent = squared(graph, subgraph, model.takes, torch.device("cpu"))
    try:
        with torch.random.fork_rng(devices=[]):
            cost = counted(model, inputs, extent, subgraph.num_seeds, graph.num_classes)
    except ModelError:
        raise
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise ModelError(f"{factory.name}: calling forward(x, {model.takes}) raised an exception:\n{trace}") from error
    sources = Sources.of(factory.module)
    sources.check(imported)
    return dataclasses.replace(task, own=OwnModel(sources.hash, model.shapes, model.takes, model.aggregates, cost))

"""`open_trainer`: what trains a request: one trainer, this process' share, or several trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.hybrid.trainers.adapting import default_controller
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.training.hybrid.trainers.request import OpenTrainers
from a3gnn.training.ranks.processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.trainer import Trainer


def open_trainer(
    request: TrainRequest,
    several: OpenTrainers | None,
    us: Alone,
    *,
    adapt: bool,
    scratch: Path | None,
    host_memory_limit: int | None,
    evaluation_bytes: int,
    on_chunk: Callable[[], None],
    should_stop: Callable[[], bool],
) -> Trainer:
    """Returns what trains `request`; the other arguments, and errors, are those of `Trainer`.

    Args:
        request: Graph, configuration and task.
        several: Trainers of this process; None for one.
        us: What this process is of a training run.
        adapt: Whether one trainer has its mini-batches prepared otherwise while it trains; several say so themselves.
        scratch: As of `Trainer`.
        host_memory_limit: Likewise.
        evaluation_bytes: Likewise.
        on_chunk: Likewise.
        should_stop: Likewise; trainers of one process are stopped together.
    """
    given = request.graph, request.config, request.task
    options: dict[str, Any] = {
        "scratch": scratch,
        "host_memory_limit": host_memory_limit,
        "evaluation_bytes": evaluation_bytes,
        "on_chunk": on_chunk,
    }
    if several is None:
        options["should_stop"] = should_stop
        if not adapt:
            return us.trainer(request, **options)
        return AdaptingTrainer(*given, device=us.device, expected=request.promised, **options)
    return open_hybrid(*given, several, **options)


def open_hybrid(
    graph: Graph,
    config: TrainConfig,
    task: Task,
    several: OpenTrainers,
    *,
    scratch: str | Path | None = None,
    host_memory_limit: int | None = None,
    evaluation_bytes: int | None = None,
    on_chunk: Callable[[], None] = lambda: None,
) -> HybridTrainer:
    """Returns the trainers `several`; the other arguments, and errors, are those of `Trainer`.

    Knobs that are idle beside other trainers don't matter.
    """
    config = config.canonical() if config.trainers > 1 else config
    prefetch = several.asked.schedule
    return HybridTrainer(
        graph,
        config,
        task,
        devices=several.devices,
        assignment=several.assignment,
        independent=several.asked.sampling == "independent",
        stall_s=several.asked.stall_s,
        controller=default_controller(config, several.devices, prefetch) if several.asked.adapt else None,
        prefetch=prefetch,
        scratch=scratch,
        host_memory_limit=host_memory_limit,
        evaluation_bytes=evaluation_bytes,
        on_chunk=on_chunk,
    )

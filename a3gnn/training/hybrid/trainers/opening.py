"""`open_trainer`: what trains a request: one trainer, this process' share, or several trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
        scratch: As of `Trainer`.
        host_memory_limit: Likewise.
        evaluation_bytes: Likewise.
        on_chunk: Likewise.
        should_stop: Likewise; trainers of one process are stopped together.
    """
    if several is None:
        return us.trainer(
            request,
            scratch=scratch,
            host_memory_limit=host_memory_limit,
            evaluation_bytes=evaluation_bytes,
            on_chunk=on_chunk,
            should_stop=should_stop,
        )
    return HybridTrainer(
        *(request.graph, request.config, request.task),
        devices=several.devices,
        assignment=several.assignment,
        independent=several.asked.sampling == "independent",
        stall_s=several.asked.stall_s,
        controller=default_controller(request.config, several.devices) if several.asked.adapt else None,
        scratch=scratch,
        host_memory_limit=host_memory_limit,
        evaluation_bytes=evaluation_bytes,
        on_chunk=on_chunk,
    )

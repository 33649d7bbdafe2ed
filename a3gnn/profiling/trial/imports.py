"""What a trial imports for its model."""

from __future__ import annotations

from a3gnn.models.optimiser_imports import optimiser_imports
from a3gnn.task import Task


def imports_of(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that a trial of `task` imports beside those of all trials.

    A process that starts trials imports them once: PyG's modules take seconds to import, and 65 MiB, which trials
    without them are spared. Of a model of the user's only that of its optimiser is known: what
    its module needs, and whether it has changed since, each trial finds out for itself.

    Args:
        task: What is trained.
        has_device: Whether it is on a device, where Adam is torch's.
    """
    optimiser = optimiser_imports(task, has_device)
    if task.is_own:
        return optimiser
    norm = () if task.norm == "none" else ("torch_geometric.nn.resolver",)
    return (*optimiser, *((f"a3gnn.models.layers.{task.model}", *norm) if task.uses_pyg else ()))

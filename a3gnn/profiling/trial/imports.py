"""What a trial imports for its model."""

from __future__ import annotations

from a3gnn.task import Task
from a3gnn.training.optimiser_imports import optimiser_imports

#: Models whose layers use PyG's modules, which takes seconds to import, and 65 MiB: not where sage and gcn are trained.
_OF_PYG = ("gin", "gat", "gatv2", "transformer")


def imports_of(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that a trial of `task` imports beside those of all trials.

    A process that starts trials imports them once. Of a model of the user's only that of its optimiser is known: what
    its module needs, and whether it has changed since, each trial finds out for itself.

    Args:
        task: What is trained.
        has_device: Whether it is on a device, where Adam is torch's.
    """
    optimiser = optimiser_imports(task, has_device)
    if task.is_own:
        return optimiser
    layers = (f"a3gnn.training.layers.{task.model}",) if task.model in _OF_PYG else ()
    return (*optimiser, *layers, *(() if task.norm == "none" else ("torch_geometric.nn.resolver",)))

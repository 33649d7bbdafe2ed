"""What a trial imports for its model."""

from __future__ import annotations

from a3gnn.task import Task

#: Models whose layers use PyG's modules, which takes seconds to import, and 65 MiB: not where sage and gcn are trained.
_OF_PYG = ("gin", "gat", "gatv2", "transformer")


def imports_of(task: Task) -> tuple[str, ...]:
    """Returns the modules that a trial of `task` imports beside those of all trials.

    A process that starts trials imports them once. Of a model of the user's only that of its optimiser is known: what
    its module needs, and whether it has changed since, each trial finds out for itself.
    """
    if task.is_own:
        return ("torch._dynamo",)  # torch imports it with a process's first optimiser: a second, and 70 MiB
    layers = (f"a3gnn.training.layers.{task.model}",) if task.model in _OF_PYG else ()
    return layers if task.norm == "none" else (*layers, "torch_geometric.nn.resolver")

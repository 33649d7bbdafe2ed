"""What a trial imports for its model."""

from __future__ import annotations

from a3gnn.task import Task

#: Models whose layers use PyG's modules, which takes seconds to import, and 65 MiB: not where sage and gcn are trained.
_OF_PYG = ("gin", "gat", "gatv2", "transformer")


def imports_of(task: Task) -> tuple[str, ...]:
    """Returns the modules that building the model of `task` imports; () where nothing is known of it.

    A process that starts trials imports them once. Of a model of the user's that is unknown: what its module needs, and
    whether it has changed since, each trial finds out for itself.
    """
    if task.is_own:
        return ()
    layers = (f"a3gnn.training.layers.{task.model}",) if task.model in _OF_PYG else ()
    return layers if task.norm == "none" else (*layers, "torch_geometric.nn.resolver")

"""`optimiser_imports`: the modules that torch imports with its optimizers."""

from __future__ import annotations

from a3gnn.task import Task

#: Modules that torch imports with a process's first optimizer: a second, and 70 MiB.
_WITH_THE_FIRST = ("torch._dynamo",)


def optimiser_imports(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that training imports with its optimizer; none if it uses `a3gnn.models.adam`.

    Args:
        task: A user's model may bring its own optimizer.
        has_device: Whether the model is on a device, which needs torch's Adam.
    """
    return _WITH_THE_FIRST if task.is_own or has_device else ()

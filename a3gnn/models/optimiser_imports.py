"""Who trains with an optimiser of torch's own, and what torch imports with it."""

from __future__ import annotations

from a3gnn.task import Task

#: What torch imports with a process's first optimiser: a second, and 70 MiB.
_WITH_THE_FIRST = ("torch._dynamo",)


def optimiser_imports(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that training `task` imports with its optimiser: none where `a3gnn.models.adam` trains it.

    Args:
        task: What is trained; a model of the user's may bring an optimiser of its own.
        has_device: Whether it is on a device, where Adam is torch's.
    """
    return _WITH_THE_FIRST if task.is_own or has_device else ()

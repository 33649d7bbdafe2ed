"""Keys of what measurements have in common."""

from __future__ import annotations

from functools import lru_cache

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.setting import Setting
from a3gnn.task import Task


def setting_key(setting: Setting) -> str:
    """Returns the key of a setting: task, graph and machine."""
    return f"{task_graph_key(setting.task, setting.graph)}|{setting.hardware.fingerprint}"


@lru_cache(maxsize=1024)  # a fit asks once per row and fold
def task_graph_key(task: Task, graph: GraphCharacteristics) -> str:
    """Returns the key of a task on a graph."""
    return f"{task.key()}|{graph.fingerprint}"

"""Train graph neural networks to the same accuracy in a fraction of the time and memory, on the machine you have.

These names offer the functions of the command line. Each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from a3gnn._imports import need_linux
from a3gnn.version import __version__ as __version__

if TYPE_CHECKING:
    from a3gnn.acceleration.accelerate import accelerate
    from a3gnn.apply.predict import predict
    from a3gnn.apply.predict_links import predict_edges, predict_links
    from a3gnn.apply.train import train
    from a3gnn.config import TrainConfig
    from a3gnn.evaluation.ranking import rank_pairs
    from a3gnn.graphs.graph import Graph
    from a3gnn.graphs.link_split import check_link_split, link_split
    from a3gnn.loader.link import LinkNeighborLoader
    from a3gnn.loader.loader import Loader
    from a3gnn.page.views import write_report
    from a3gnn.report.front import Front
    from a3gnn.service.client import Client
    from a3gnn.task import Task
    from a3gnn.training.tuned import TunedConfig
    from a3gnn.tuning.outcome.pick import pick
    from a3gnn.tuning.recommend import recommend
    from a3gnn.tuning.tune import tune

__all__ = [
    "Client",
    "Front",
    "Graph",
    "LinkNeighborLoader",
    "Loader",
    "Task",
    "TrainConfig",
    "TunedConfig",
    "accelerate",
    "check_link_split",
    "link_split",
    "pick",
    "predict",
    "predict_edges",
    "predict_links",
    "rank_pairs",
    "recommend",
    "train",
    "tune",
    "write_report",
]

_MODULE_OF = {
    "Client": "a3gnn.service.client",
    "Front": "a3gnn.report.front",
    "Graph": "a3gnn.graphs.graph",
    "LinkNeighborLoader": "a3gnn.loader.link",
    "Loader": "a3gnn.loader.loader",
    "Task": "a3gnn.task",
    "TrainConfig": "a3gnn.config",
    "TunedConfig": "a3gnn.training.tuned",
    "accelerate": "a3gnn.acceleration.accelerate",
    "check_link_split": "a3gnn.graphs.link_split",
    "link_split": "a3gnn.graphs.link_split",
    "pick": "a3gnn.tuning.outcome.pick",
    "predict": "a3gnn.apply.predict",
    "predict_edges": "a3gnn.apply.predict_links",
    "predict_links": "a3gnn.apply.predict_links",
    "rank_pairs": "a3gnn.evaluation.ranking",
    "recommend": "a3gnn.tuning.recommend",
    "train": "a3gnn.apply.train",
    "tune": "a3gnn.tuning.tune",
    "write_report": "a3gnn.page.views",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'a3gnn' has no attribute {name!r}; it has {', '.join(__all__)}")
    need_linux()
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

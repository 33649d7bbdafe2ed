"""Figures and objectives that fronts are made of."""

from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority

MiB = 2**20


def objectives(priority: str = "throughput", **limits: float) -> Objectives:
    return Objectives(Limits(**limits), Priority.parse(priority), has_device=False)


def figures(throughput: float, host: int, accuracy: float | None, seconds: float | None = None) -> Figures:
    return Figures(throughput, throughput, throughput, host, 0, accuracy, seconds)

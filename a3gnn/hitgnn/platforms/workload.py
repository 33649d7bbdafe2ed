"""`Workload`: the computations of an accelerator per mini-batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hitgnn.platforms.metadata import read_graphs
from a3gnn.layer_cost import OPERATORS, model_parameters
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.volume import batch_volume

#: Models that the kernels can compute, and the linear maps of each per layer.
LINEAR_MAPS = {name: OPERATORS[name].maps_destinations for name in ("sage", "gcn")}


@dataclass(frozen=True, slots=True)
class Workload:
    """A mini-batch of one graph under one model (HitGNN, section II-A).

    Attributes:
        name: The graph's name.
        model: sage or gcn.
        vertices: Expected vertices |V^l| of layers 0 (the input) to L; each layer's include the later layers'.
        edges: Expected edges |A^l| of layers 1 to L.
        widths: Values per vertex f^l of layers 0 to L.
        num_batches: Mini-batches of an epoch, over all devices.
    """

    name: str
    model: str
    vertices: tuple[float, ...]
    edges: tuple[float, ...]
    widths: tuple[int, ...]
    num_batches: int

    @classmethod
    def of(cls, graph: GraphCharacteristics, task: Task, batch_size: int) -> Self:
        """Returns the expected workload of `graph`, by the surrogate's volume model.

        Raises:
            UsageError: The kernels can't compute the model.
        """
        if task.model not in LINEAR_MAPS:
            raise UsageError(f"{option('model')} must be {' or '.join(LINEAR_MAPS)} for the kernels, got {task.model}")
        volume = batch_volume(as_columns([TrainConfig(batch_size=batch_size)]), task, graph)
        depth = task.num_layers
        hops = [float(drawn[0]) for drawn in volume.edges]
        return cls(
            name=graph.name,
            model=str(task.model),
            vertices=tuple(float(seen[0]) for seen in reversed(volume.nodes)),
            edges=tuple(sum(hops[: depth - layer]) for layer in range(depth)),
            widths=(graph.num_features, *[task.hidden_channels] * (depth - 1), graph.num_classes),
            num_batches=math.ceil(graph.num_train / batch_size),
        )

    @property
    def num_vertices(self) -> float:
        """Vertices that a mini-batch traverses, over all layers, as NVTPS counts them."""
        return sum(self.vertices)

    @property
    def num_weights(self) -> int:
        """Weights of the model's linear maps, whose gradients are synchronized."""
        return model_parameters(OPERATORS[self.model], self.widths)


def paper_workloads(task: Task, batch_size: int) -> tuple[Workload, ...]:
    """Returns the workloads of HitGNN's four graphs. The paper gives only their nodes, edges and widths (Table IV).

    Assumptions: in-neighbors are any nodes with equal probability, every in-degree is the mean, and all nodes are
        train
    seeds. The counts of vertices are therefore too large, because there are no hubs that many seeds share.
    """
    return tuple(Workload.of(_outline(**fields), task, batch_size) for fields in read_graphs())


def _outline(name: str, num_nodes: int, num_edges: int, num_features: int, num_classes: int) -> GraphCharacteristics:
    """Returns the characteristics of a graph that is known only by its sizes."""
    degree = num_edges / num_nodes
    return GraphCharacteristics(
        name=name,
        fingerprint="",
        num_nodes=num_nodes,
        num_edges=num_edges,
        mean_degree=degree,
        p95_degree=degree,
        max_degree=math.ceil(degree),
        degree_gini=0.0,
        num_features=num_features,
        feature_density=1.0,
        feature_bytes=4 * num_nodes * num_features,
        row_bytes=4.0 * num_features,
        sparse_features=False,
        num_classes=num_classes,
        num_train=num_nodes,
        num_val=0,
        num_test=0,
        label_rate=1.0,
        homophily=0.0,
        num_components=1,
        largest_component=1.0,
        cached_edge_mass=CACHE_FRACTIONS,
    )

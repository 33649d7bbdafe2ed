"""`open_sampler`: the sampler of neighbourhoods that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.runtime.device_sampler import DeviceSampler
from a3gnn.runtime.stages import Sampler
from a3gnn.sampling.edge_sampler import EdgeSampler
from a3gnn.sampling.edges import Edges
from a3gnn.sampling.sampler import NeighbourSampler


class EdgeSampling(NamedTuple):
    """The edges that are sampled in place of a graph's, each as often as it is there, and how (`EdgeSampler`)."""

    edges: Edges
    replace: bool = False
    disjoint: bool = False


def open_sampler(
    adjacency: tuple[NDArray[np.int64], NDArray[np.int32]],
    fanouts: Sequence[int],
    config: TrainConfig,
    seed: int,
    cached: NDArray[np.int32],
    parts: NDArray[np.int32] | None,
    sampling: EdgeSampling | None,
) -> Sampler:
    """Returns the sampler of `adjacency` on `config.sampling_device`, or of `sampling`'s edges, on the host.

    Args:
        adjacency: In-neighbours as CSR, indptr and indices, within parts.
        fanouts: In-neighbours sampled per node, the seeds' hop first; -1 takes all.
        config: Its `bias_rate` and `sampling_device` are used.
        seed: Decides the random numbers.
        cached: Ids of cached nodes.
        parts: Each node's part, int32, shape (num_nodes,); None is one part.
        sampling: What is sampled in place of `adjacency`; its mini-batches know their edges' ids.
    """
    mask = np.zeros(len(adjacency[0]) - 1, dtype=np.bool_)
    mask[cached] = True
    make: Callable[..., Sampler] = partial(NeighbourSampler, *adjacency)
    if sampling is not None:
        edges = sampling.edges if parts is None else sampling.edges.within(parts)
        make = partial(EdgeSampler, edges, replace=sampling.replace, disjoint=sampling.disjoint)
    elif config.sampling_device == "cuda":
        make = partial(DeviceSampler, *adjacency, device="cuda")
    return make(fanouts=fanouts, seed=seed, bias_rate=config.bias_rate, cached=mask)

"""Throughput of GNN training: vertices, also by memory bandwidth (HitGNN, section VII-D), and edges (HyScale-GNN)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def nvtps(num_vertices: float, seconds: ArrayLike) -> NDArray[np.float64]:
    """Returns the number of vertices traversed per second (Eq. 3), float64, of the shape of `seconds`.

    Args:
        num_vertices: Vertices of all layers, the input's included, in all devices' mini-batches.
        seconds: Seconds of training them, synchronization included.
    """
    return num_vertices / np.asarray(seconds, dtype=np.float64)


def nvtps_per_gb_per_s(traversed_per_s: float, memory_bytes_per_s: float) -> float:
    """Returns the bandwidth efficiency: NVTPS over GB/s (10^9 bytes per second).

    Args:
        traversed_per_s: NVTPS.
        memory_bytes_per_s: Total memory bandwidth of the host and all devices.
    """
    return traversed_per_s / (memory_bytes_per_s / 1e9)


def mteps(num_edges: float, seconds: float) -> float:
    """Returns millions of traversed edges per second (HyScale-GNN, Eq. 5).

    Args:
        num_edges: Edges of all layers in all trainers' mini-batches.
        seconds: Seconds of training them, synchronization included.
    """
    return num_edges / seconds / 1e6

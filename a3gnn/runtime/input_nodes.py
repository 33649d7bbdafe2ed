"""`seeds_of`: what people give as `input_nodes`, as seeds."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError


def seeds_of(nodes: Any, num_nodes: int) -> tuple[NDArray[np.int32], bool]:
    """Returns the seeds, and whether `input_id` counts them: as in PyG, a mask's are known by their node ids.

    Args:
        nodes: Ids, or a bool mask over the nodes, in anything that numpy or torch makes an array of; None is all nodes.
        num_nodes: Of the graph.

    Raises:
        UsageError: They are something else, out of range, repeated, or none.
    """
    if nodes is None:
        return np.arange(num_nodes, dtype=np.int32), False
    rule = f"input_nodes must be node ids or a bool mask of shape ({num_nodes},)"
    try:
        given = nodes.detach().cpu().numpy() if isinstance(nodes, torch.Tensor) else np.asarray(nodes)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of different lengths, sparse tensors, other objects
        raise UsageError(f"{rule}, got {reprlib.repr(nodes)}") from error
    masked = given.dtype == np.bool_
    if masked and given.shape != (num_nodes,):
        raise UsageError(f"{rule}, got a mask of shape {given.shape}")
    ids = np.flatnonzero(given) if masked else given
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise UsageError(f"{rule}, of one node at least, got {given.dtype} of shape {ids.shape}")
    low, high, distinct = int(ids.min()), int(ids.max()), len(np.unique(ids))
    if low < 0 or high >= num_nodes or distinct < len(ids):
        hint = "; of a mask of numbers, give mask.bool()" if len(ids) == num_nodes and high == 1 else ""
        raise UsageError(
            f"input_nodes must be distinct ids in [0, {num_nodes}), got {len(ids)} from {low} to {high}, "
            f"{distinct} of them distinct{hint}"
        )
    return ids.astype(np.int32), not masked

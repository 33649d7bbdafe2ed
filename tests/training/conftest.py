from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from a3gnn.models.layers.block import LayerBlock

MakeBlock = Callable[..., LayerBlock]


@pytest.fixture
def make_block() -> MakeBlock:
    """Returns a maker of random blocks whose destinations are the first sources, with self loops and empty rows."""

    def make(num_dst: int, num_src: int, num_edges: int = 60, seed: int = 0) -> LayerBlock:
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, num_dst, num_edges)
        rows[rows == num_dst // 2] = 0
        pairs = np.unique(np.stack([np.append(rows, 1), np.append(rng.integers(0, num_src, num_edges), 1)]), axis=1)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[0], minlength=num_dst))])
        degrees = np.bincount(pairs[0, pairs[0] != pairs[1]], minlength=num_src)
        return LayerBlock(
            torch.from_numpy(indptr.astype(np.int32)),
            torch.from_numpy(pairs[1].astype(np.int32)),
            num_src,
            slice(0, num_dst),
            torch.from_numpy(degrees.astype(np.float32)),
        )

    return make

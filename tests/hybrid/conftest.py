"""Mini-batches whose figures can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.sampling.counts import CountCurve


@pytest.fixture
def counts() -> CountCurve:
    """Two hops without repeated nodes: per seed 10 and then 100 edges, 111 nodes."""
    seeds = np.array([1.0, 1024.0])
    nodes, edges = np.outer(seeds, [1.0, 11.0, 111.0]), np.outer(seeds, [10.0, 100.0])
    return CountCurve((1, 1024), nodes, edges)

"""Which nodes are cached: of another length or type, a kernel would read beyond it, so it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.sampling.sampler import Sampler

_INDPTR, _INDICES = np.arange(5) * 3, np.tile(np.arange(3, dtype=np.int32), 4)


@pytest.mark.parametrize(
    ("cached", "got"),
    [
        (np.ones(3, dtype=bool), r"bool of shape \(3,\)"),
        (np.ones(5, dtype=bool), r"bool of shape \(5,\)"),
        (np.ones((4, 1), dtype=bool), r"bool of shape \(4, 1\)"),
        (np.empty(0, dtype=bool), r"bool of shape \(0,\)"),
        (np.ones(4, dtype=np.int32), r"int32 of shape \(4,\)"),
        ([True] * 4, "list"),
    ],
)
@pytest.mark.parametrize("bias_rate", [1.0, 2.0])
@pytest.mark.parametrize("make", [Sampler, DeviceSampler])
def test_a_mask_of_another_length_or_type_is_refused(cached: Any, got: str, make: Any, bias_rate: float) -> None:
    with pytest.raises(UsageError, match=rf"cached must hold one bool per node, shape \(4,\), got {got}"):
        make(Edges(_INDPTR, _INDICES), (2,), seed=0, bias_rate=bias_rate, cached=cached)

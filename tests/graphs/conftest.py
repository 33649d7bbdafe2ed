"""Plain graphs in the .npz format, to be broken one law at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Arrays = dict[str, np.ndarray]


@pytest.fixture
def arrays() -> Arrays:
    """Six nodes on a directed ring with one chord, three features, two classes."""
    ring = np.arange(6)
    masks = {f"{name}_mask": np.isin(ring, ids) for name, ids in (("train", (0, 1)), ("val", (2, 3)), ("test", (4,)))}
    return {
        "edge_index": np.stack([np.append(ring, 0), np.append((ring + 1) % 6, 3)]),
        "x": np.arange(18, dtype=np.float32).reshape(6, 3),
        "y": np.array([0, 1, 0, 1, 0, -1]),
        **masks,
    }


@pytest.fixture
def npz(tmp_path: Path) -> Callable[..., Path]:
    """Writes arrays to an .npz file and returns its path."""

    def write(arrays: Arrays, name: str = "ring", **changes: Any) -> Path:
        path = tmp_path / f"{name}.npz"
        np.savez(path, **{key: value for key, value in {**arrays, **changes}.items() if value is not None})
        return path

    return write

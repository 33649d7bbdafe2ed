"""Trainers whose cache takes any size, of the tests' own."""

from __future__ import annotations

import numpy as np

from a3gnn.training.adapting.memory_watch import MemoryWatch


def draw_sizes(watch: MemoryWatch, seed: int, most_bytes: int) -> None:
    """Has `watch` choose any size up to `most_bytes` at each look, as if memory came and went."""
    rng = np.random.default_rng(seed)

    def look(epoch: int, batches: int) -> None:
        if rng.random() < 0.3:
            watch._change(int(rng.integers(0, most_bytes + 1)), epoch, batches, "drawn")

    watch.look = look  # type: ignore[method-assign]

"""The configurations to measure first, when nothing is known yet."""

from __future__ import annotations

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.seeding import generator
from a3gnn.space import SearchSpace


def space_filling(space: SearchSpace, count: int, seed: int) -> list[TrainConfig]:
    """Returns up to `count` configurations that run differently from each other and from the default.

    They are points of a scrambled Halton sequence, which covers every knob and every pair of knobs evenly. A larger
    `count` begins with the configurations of a smaller one. A small space may have fewer configurations.
    """
    from scipy.stats import qmc

    sequence = qmc.Halton(len(space.knobs), seed=generator(seed, "space_filling"))
    found: dict[TrainConfig, None] = {}
    default = TrainConfig().canonical()
    enough = min(count + 1, space.num_distinct)  # the default may be among them
    while len(found) < enough:
        points = sequence.random(256)
        for row in np.minimum((points * space.nvec).astype(np.int64), space.nvec - 1):
            found.setdefault(space.decode(row).canonical())
    return [config for config in found if config != default][:count]

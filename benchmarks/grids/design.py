"""Which graphs grids are measured of, and which configurations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from scipy.stats import qmc

from a3gnn.config import LearningKey, TrainConfig
from a3gnn.seeding import generator
from a3gnn.space import Rows, SearchSpace
from benchmarks.corpus.subjects import Subject

#: The first two are in the corpus, too. The last two are in nothing that is fitted or trained: `benchmarks.emulated`
#: alone opens them. Of either pair the second is large enough for caches and parts to matter.
SUBJECTS = (
    Subject("dblp"),
    Subject("synthetic:nodes=300000,degree=25,features=64,classes=20,seed=8,noise=2,train=0.1"),
    Subject("facebook_pages"),
    Subject("wordnet_en"),
)


#: Points of a sequence that are drawn at once: a power of two keeps its balance.
_BLOCK = 256
#: Points after which a space is taken to have no more: small ones repeat themselves.
_MOST = 64 * _BLOCK


def grid_design(space: SearchSpace, keys: int, settings: int, seed: int) -> list[list[TrainConfig]]:
    """Returns up to `settings` configurations of each of up to `keys` learning keys, the default's key first.

    Both are points of scrambled Sobol sequences over the space: one over all knobs, of which each point that learns
    something new is a key; and one per key over the knobs that don't change what it learns. All run differently from
    each other and from the default. A key whose space has fewer settings has fewer.

    Args:
        space: What is drawn from; it holds the default.
        keys: Learning keys.
        settings: Configurations of each.
        seed: Decides the draws.
    """
    default = TrainConfig().canonical()
    first: dict[LearningKey, TrainConfig] = {default.learning_key(): default}
    everything = list(range(len(space.knobs)))
    for config in _drawn(space, everything, space.encode(default), seed, "keys"):
        if len(first) == keys:
            break
        first.setdefault(config.learning_key(), config)
    found = []
    for number, config in enumerate(first.values()):
        alike = _of_key(space, config, seed, number)
        found.append(list(islice((one for one in alike if one != default), settings)))
    return found


def _of_key(space: SearchSpace, config: TrainConfig, seed: int, number: int) -> Iterator[TrainConfig]:
    """Yields `config`, and others that learn the same, each once."""
    fields = config.knobs()
    free = [place for place, knob in enumerate(space.knobs) if not knob.learns.holds(fields)]
    seen = {config}
    yield config
    for other in _drawn(space, free, space.encode(config), seed, "settings", number):
        if other not in seen and other.learning_key() == config.learning_key():
            seen.add(other)
            yield other


def _drawn(space: SearchSpace, free: list[int], base: Rows, seed: int, *names: str | int) -> Iterator[TrainConfig]:
    """Yields canonical configurations: `base` (n_knobs,) with its `free` columns from a scrambled Sobol sequence."""
    sequence = qmc.Sobol(len(free), scramble=True, seed=generator(seed, "grid", *names))
    for _ in range(0, _MOST, _BLOCK):
        rows = np.tile(base, (_BLOCK, 1))
        points = (sequence.random(_BLOCK) * space.nvec[free]).astype(np.int64)
        rows[:, free] = np.minimum(points, space.nvec[free] - 1)
        for row in space.canonical(rows):
            yield space.decode(row).canonical()

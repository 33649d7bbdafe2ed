"""Seeds: every random decision derives from one seed and the name of what it decides."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """Returns a seed in [0, 2**63) for the decision called `names`, independent of every other name's.

    The same on every machine and in every process (BLAKE2b, not Python's salted hash).
    """
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Returns a numpy generator seeded with `derive(seed, *names)`."""
    return np.random.default_rng(derive(seed, *names))

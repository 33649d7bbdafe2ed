"""Counter-based random numbers: a draw is a pure function of its key and counter, for every thread and time.

SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014) over a key that folds seed, epoch, batch, hop and node.
`a3gnn.pipeline.device_sampler` computes the same numbers with torch.
"""

from __future__ import annotations

import numpy as np

from a3gnn.storage.compiled import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def mix(z: np.uint64) -> np.uint64:
    """Returns SplitMix64's bijective scramble of `z`, uint64."""
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    mixed: np.uint64 = z ^ (z >> np.uint64(31))
    return mixed


@njit(cache=True, nogil=True)
def fold(key: np.uint64, word: np.uint64) -> np.uint64:
    """Returns the key of `word` under `key`, uint64: a function of the pair, unrelated to the keys of other pairs."""
    folded: np.uint64 = mix(key + GOLDEN * (word + np.uint64(1)))
    return folded


@njit(cache=True, nogil=True)
def hop_key(seed: np.uint64, epoch: np.uint64, batch: np.uint64, hop: np.uint64) -> np.uint64:
    """Returns the key of one hop of one mini-batch, uint64; folded with a node, it is the node's stream."""
    key: np.uint64 = fold(fold(fold(mix(seed), epoch), batch), hop)
    return key


@njit(cache=True, nogil=True)
def uniform(stream: np.uint64, counter: int) -> float:
    """Returns draw `counter` of `stream`, float64 in [0, 1).

    It has 52 random bits, so `uniform * x` is below `x` after rounding, for every positive `x`.
    """
    return np.float64(fold(stream, np.uint64(counter)) >> np.uint64(12)) * 2.0**-52


@njit(cache=True, nogil=True)
def below(stream: np.uint64, counter: int, bound: int) -> np.int64:
    """Returns draw `counter` of `stream` as an integer in [0, bound), for a bound below 2**32.

    It is the high part of the 96-bit product word * bound (Lemire, 2019), whose bias, bound / 2**64, is undetectable.
    """
    word = fold(stream, np.uint64(counter))
    wide = np.uint64(bound)
    high = (word >> np.uint64(32)) * wide + (((word & _LOW_32) * wide) >> np.uint64(32))
    return np.int64(high >> np.uint64(32))

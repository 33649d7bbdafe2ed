"""The sampler's random numbers in torch: `a3gnn.sampling.random`, vectorised, bit for bit, on any device.

torch has no unsigned 64-bit arithmetic, so words are int64 that wrap around; a logical shift masks what the arithmetic
one drags in.
"""

from __future__ import annotations

import torch

from a3gnn.sampling import random

_LOW_32 = 0xFFFFFFFF


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_GOLDEN, _MIX_1, _MIX_2 = (_signed(int(word)) for word in (random.GOLDEN, random.MIX_1, random.MIX_2))


def _shift(words: torch.Tensor, bits: int) -> torch.Tensor:
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def mix(words: torch.Tensor) -> torch.Tensor:
    """Returns SplitMix64's scramble of `words`, int64, same shape."""
    words = (words ^ _shift(words, 30)) * _MIX_1
    words = (words ^ _shift(words, 27)) * _MIX_2
    return words ^ _shift(words, 31)


def fold(keys: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Returns the keys of `words` under `keys`, int64, broadcast."""
    return mix(keys + (words + 1) * _GOLDEN)


def uniform(streams: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Returns draw `counters` of `streams`, float64 in [0, 1)."""
    return _shift(fold(streams, counters), 12).double() * 2.0**-52


def below(streams: torch.Tensor, counters: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Returns draw `counters` of `streams` as integers in [0, bounds), int64, for bounds below 2**31."""
    words = fold(streams, counters)
    return _shift(_shift(words, 32) * bounds + _shift((words & _LOW_32) * bounds, 32), 32)

"""Two-bucket sampling in torch, on any device: returns the same mini-batches as the CPU's kernels.

torch has no unsigned 64-bit arithmetic, so words are int64 that wrap around. `_shift` masks the sign bits that torch's
arithmetic shift copies in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.graphs.edges import Edges
from a3gnn.sampling import random
from a3gnn.sampling.hops import HopSampler, NeighborDraw
from a3gnn.sampling.random import hop_key
from a3gnn.sampling.sampler import Fanout, by_cache, too_many_edges

_LOW_32 = 0xFFFFFFFF


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_GOLDEN, _MIX_1, _MIX_2 = (_signed(int(word)) for word in (random.GOLDEN, random.MIX_1, random.MIX_2))


class DeviceSampler(HopSampler):
    """Samples in-neighbors of distinct seeds like `Sampler`, bit for bit, from edges on a torch device.

    All rows of a hop are drawn at once, pick by pick. The edges take 12 bytes per node and 4 per edge there; weights
    and ids are ignored. Safe to call from several threads. Takes arguments of `Sampler`, and `device`.
    """

    def __init__(
        self,
        edges: Edges,
        fanouts: Sequence[Fanout],
        *,
        seed: int,
        bias_rate: float = 1.0,
        cached: NDArray[np.bool_] | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(edges.num_nodes, fanouts, seed=seed, bias_rate=bias_rate)
        edges = by_cache(edges, bias_rate, cached)
        arrays = edges.indptr, edges.indices, edges.num_cached
        self._indptr, self._indices, self._num_cached = (torch.tensor(array, device=device) for array in arrays)

    def _draw(
        self, nodes: NDArray[np.int32], draw: NeighborDraw, most: int
    ) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
        fanout, at = draw.fanout, torch.from_numpy(nodes).to(self._indptr.device).long()
        begin = self._indptr[at]
        degree = self._indptr[at + 1] - begin
        taken = degree if fanout < 0 else degree.clamp(max=fanout)
        if int(taken.sum()) > most:
            raise too_many_edges()
        row = torch.repeat_interleave(torch.arange(len(at), device=at.device), taken)
        offset = torch.arange(len(row), device=at.device) - (taken.cumsum(0) - taken)[row]
        drawn = torch.nonzero(taken < degree).flatten()
        if len(drawn):
            key = hop_key(*(np.uint64(word) for word in (draw.seed, draw.epoch, draw.batch, draw.hop)))
            streams = fold(torch.tensor(_signed(int(key)), device=at.device), at[drawn])
            cached = torch.zeros_like(drawn) if not len(self._num_cached) else self._num_cached[at[drawn]].long()
            offset[(taken < degree)[row]] = _picks(streams, cached, degree[drawn], self.bias_rate, fanout).flatten()
        return taken.int().cpu().numpy(), self._indices[begin[row] + offset].cpu().numpy()


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


def _shift(words: torch.Tensor, bits: int) -> torch.Tensor:
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _picks(streams: torch.Tensor, cached: torch.Tensor, degree: torch.Tensor, bias: float, fanout: int) -> torch.Tensor:
    """Applies `pick_two_bucket` to all rows: returns distinct offsets, int64, shape (num_rows, fanout)."""
    inside, outside = cached.double(), (degree - cached).double()
    taken = torch.zeros_like(cached)
    if bool(cached.any()):
        for i in range(fanout):
            chosen = uniform(streams, torch.tensor(i, device=streams.device)) * (bias * inside + outside)
            first = chosen < bias * inside
            inside, outside, taken = inside - first.double(), outside - (~first).double(), taken + first
    picks = torch.empty((len(streams), fanout), dtype=torch.int64, device=streams.device)
    for i in range(fanout):
        first = i < taken
        low = torch.where(first, 0, cached)
        size = torch.where(first, cached - taken + i + 1, degree - cached - fanout + i + 1)
        pick = low + below(streams, torch.tensor(fanout + i, device=streams.device), size)
        clash = (picks[:, :i] == pick[:, None]).any(dim=1)
        picks[:, i] = torch.where(clash, low + size - 1, pick)
    return picks

"""Two-bucket sampling in torch, on any device: returns the same mini-batches as the CPU's kernels.

torch has no unsigned 64-bit arithmetic, so words are int64 that wrap around. `_shift` masks the sign bits that torch's
arithmetic shift copies in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling import random
from a3gnn.sampling.random import hop_key
from a3gnn.sampling.sample_kernels import MAX_EDGES
from a3gnn.sampling.sampler import Adjacency, cached_mask, check_arguments, too_many_edges
from a3gnn.sampling.subgraph import Subgraph

_LOW_32 = 0xFFFFFFFF


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_GOLDEN, _MIX_1, _MIX_2 = (_signed(int(word)) for word in (random.GOLDEN, random.MIX_1, random.MIX_2))


class DeviceSampler:
    """Samples like `NeighborSampler` with `two_bucket`, bit for bit, from an adjacency on a torch device.

    All rows of a hop are drawn at once, pick by pick. The adjacency takes 12 bytes per node and 4 per edge.
    Safe to call from several threads. Takes the arguments of `NeighborSampler`, and `device`.
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        fanouts: Sequence[int],
        *,
        seed: int,
        bias_rate: float = 1.0,
        cached: NDArray[np.bool_] | None = None,
        device: str = "cpu",
    ) -> None:
        check_arguments(fanouts, bias_rate, seed)
        self.fanouts = tuple(fanouts)
        self.bias_rate = float(bias_rate)
        self._seed = np.uint64(seed)
        mask = np.empty(0, dtype=np.bool_) if cached is None else cached_mask(cached, len(indptr) - 1)
        biased = bias_rate > 1 and bool(mask.any())
        adjacency = Adjacency.by_cache(indptr, indices, mask) if biased else Adjacency.plain(indptr, indices)
        self._num_nodes = adjacency.num_nodes
        self._indptr, self._indices = _tensor(adjacency.indptr, device), _tensor(adjacency.indices, device)
        self._num_cached = _tensor(adjacency.num_cached, device) if biased else None

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32, distinct) for mini-batch `batch` of `epoch`, on the host.

        Raises:
            UsageError: Seeds are missing, out of range or repeated, or the neighborhood exceeds 2**31 - 1 edges.
        """
        known = self._checked(seeds)
        sizes, degrees, edges, room = [0, len(known)], [], [], MAX_EDGES
        for hop, fanout in enumerate(self.fanouts):
            key = int(np.uint64(hop_key(self._seed, np.uint64(epoch), np.uint64(batch), np.uint64(hop))).view(np.int64))
            taken, ids = self._hop(known[sizes[-2] :], fanout, key, room)
            room -= len(ids)
            known, local = _discover(known, ids)
            degrees.append(taken)
            edges.append(local)
            sizes.append(len(known))
        indptr = torch.cat([torch.zeros(1, dtype=torch.int64, device=known.device), *degrees]).cumsum(0)
        n_id, pointers, indices = (_array(tensor) for tensor in (known, indptr, torch.cat([known[:0], *edges])))
        return Subgraph(n_id, pointers, indices, tuple(sizes[1:]))

    def _checked(self, seeds: NDArray[np.int32]) -> torch.Tensor:
        if seeds.ndim != 1 or not len(seeds) or len(np.unique(seeds)) < len(seeds):
            raise UsageError(f"seeds must be a vector of distinct nodes, at least one, got {seeds!r}")
        if seeds.min() < 0 or seeds.max() >= self._num_nodes:
            raise UsageError(f"seeds must be in [0, {self._num_nodes}), got ids from {seeds.min()} to {seeds.max()}")
        return torch.from_numpy(seeds.astype(np.int64)).to(self._indptr.device)

    def _hop(self, nodes: torch.Tensor, fanout: int, key: int, room: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the number of in-neighbors drawn for each of `nodes`, and their global ids row by row, int64.

        Raises:
            UsageError: They are more than `room`.
        """
        begin = self._indptr[nodes]
        degree = self._indptr[nodes + 1] - begin
        taken = degree if fanout < 0 else degree.clamp(max=fanout)
        if int(taken.sum()) > room:
            raise too_many_edges()
        row = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), taken)
        offset = torch.arange(len(row), device=nodes.device) - (taken.cumsum(0) - taken)[row]
        drawn = torch.nonzero(taken < degree).flatten()
        if len(drawn):
            streams = fold(torch.tensor(key, device=nodes.device), nodes[drawn])
            cached = torch.zeros_like(drawn) if self._num_cached is None else self._num_cached[nodes[drawn]].long()
            offset[(taken < degree)[row]] = _picks(streams, cached, degree[drawn], self.bias_rate, fanout).flatten()
        return taken, self._indices[begin[row] + offset].long()


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


def _discover(known: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Appends new `ids` to `known` in order of first appearance; returns the result and the places of `ids` in it."""
    distinct, group = torch.unique(torch.cat([known, ids]), return_inverse=True)
    order = torch.arange(len(group), device=ids.device)
    first = torch.full_like(distinct, len(group)).scatter_reduce(0, group, order, "amin")
    rank = torch.empty_like(first)
    by_first = first.argsort()
    rank[by_first] = torch.arange(len(first), device=ids.device)
    return distinct[by_first], rank[group[len(known) :]]


def _tensor(array: NDArray[np.int64] | NDArray[np.int32], device: str) -> torch.Tensor:
    return torch.tensor(array, device=device)


def _array(tensor: torch.Tensor) -> NDArray[np.int32]:
    array: NDArray[np.int32] = tensor.to("cpu", torch.int32).numpy()
    return array

"""Writes a Kronecker graph to a converted folder, in memory that hardly grows with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.graphs.draft import EDGE_DISK_BYTES, EdgePieces, write_adjacency, write_features
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.folder import finish_folder
from a3gnn.notify import ConversionProgress
from a3gnn.seeding import generator
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.compiled import njit
from a3gnn.storage.npy import NpyWriter

#: Edges per node, duplicates included, and the shares of the first three quadrants (Graph500, section 3.2).
EDGE_FACTOR = 16
SHARES = (0.57, 0.19, 0.19)
# A node's community is the first bits of its id before the shuffle, so ends of an edge share it more often than not.
_COMMUNITY_BITS = 4
#: Size of a feature's noise beside a community's mean of length 1.
_NOISE = 0.5
_EDGES_PER_PIECE = 1 << 21
_NODES_PER_PIECE = 1 << 17
# First node and step of each set. Nodes are shuffled, so each set has nodes of all communities.
_SPLIT = {"train": (0, 64), "val": (1, 128), "test": (2, 64)}


@dataclass(frozen=True, slots=True)
class Kronecker:
    """A graph of `2 ** scale` nodes.

    Attributes:
        scale: Binary logarithm of the number of nodes, 8 to 30.
        features: Columns of the float16 features.
        seed: Of all random draws.
    """

    scale: int
    features: int = 128
    seed: int = 0

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return 1 << self.scale

    def write(self, folder: Path, memory_bytes: int, progress: ConversionProgress) -> GraphCharacteristics:
        """Writes the graph; equal parameters give equal bits, whose checksum is the returned `fingerprint`.

        Raises:
            OSError: It can't be written, such as when the disk is full.
        """
        edges, nodes = EDGE_FACTOR * self.nodes, self.nodes
        with replacing(folder) as draft, tempfile.TemporaryDirectory(dir=draft.parent) as scratch:
            need_room(draft.parent, EDGE_DISK_BYTES * edges + (2 * self.features + 16) * nodes)
            draft.mkdir()
            write_adjacency(self._edges, edges, nodes, draft, Path(scratch), memory_bytes, progress)
            with NpyWriter(draft / "labels.npy", np.int64) as labels:
                for ids in self._pieces():
                    labels.append(self.communities(ids))
            for name, (first, step) in _SPLIT.items():
                np.save(draft / f"{name}_ids.npy", np.arange(first, nodes, step, dtype=np.int32))
            write_features(self._features(), nodes, draft, progress)
            progress("describing", 0, 1)
            return finish_folder(draft, f"kronecker-{self.scale}", 1 << _COMMUNITY_BITS, ())

    def communities(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the community of each node of `ids`, in [0, 2 ** 4)."""
        return unshuffled(ids, self.scale, self.seed) >> (self.scale - _COMMUNITY_BITS)

    def _edges(self) -> EdgePieces:
        total = EDGE_FACTOR * self.nodes
        for start in range(0, total, _EDGES_PER_PIECE):
            ends = np.empty((2, min(_EDGES_PER_PIECE, total - start)), dtype=np.int64)
            draw_edges(self.seed, start, self.scale, ends)
            sources, targets = (shuffled(end, self.scale, self.seed).astype(np.int32) for end in ends)
            yield sources, targets

    def _pieces(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, self.nodes, _NODES_PER_PIECE):
            yield np.arange(start, min(start + _NODES_PER_PIECE, self.nodes), dtype=np.int64)

    def _features(self) -> Iterator[DenseFeatures]:
        """Yields float16 rows: the mean of the node's community, of length 1, and Gaussian noise."""
        rng = generator(self.seed, "features")
        means = rng.standard_normal((1 << _COMMUNITY_BITS, self.features), dtype=np.float32)
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        for ids in self._pieces():
            rows = rng.standard_normal((len(ids), self.features), dtype=np.float32)
            rows *= np.float32(_NOISE)
            rows += means[self.communities(ids)]
            yield DenseFeatures(rows.astype(np.float16))


def shuffled(ids: NDArray[np.int64], scale: int, seed: int) -> NDArray[np.int64]:
    """Returns the node of each id in [0, 2 ** scale): a bijection, computed without a table."""
    mask, half, factor = (1 << scale) - 1, (scale + 1) // 2, _factor(seed)
    for _ in range(2):
        ids = ids * factor & mask
        ids = ids ^ (ids >> half)
    return ids


def unshuffled(nodes: NDArray[np.int64], scale: int, seed: int) -> NDArray[np.int64]:
    """Returns the ids of which `shuffled` made `nodes`."""
    mask, half, factor = (1 << scale) - 1, (scale + 1) // 2, pow(_factor(seed), -1, 1 << 30)
    for _ in range(2):
        nodes = nodes ^ (nodes >> half)
        nodes = nodes * factor & mask
    return nodes


def _factor(seed: int) -> int:
    return int(generator(seed, "shuffle").integers(1 << 29)) * 2 + 1


@njit(nogil=True, cache=True)
def draw_edges(seed: int, first: int, scale: int, ends: NDArray[np.int64]) -> None:
    """Writes the edges from number `first` on to `ends`, int64, shape (2, n): each a function of its number.

    Each level takes 16 bits of a random word (splitmix64), so the shares are exact to 2 ** -16.
    """
    a = np.uint64(SHARES[0] * 65536)
    b = a + np.uint64(SHARES[1] * 65536)
    c = b + np.uint64(SHARES[2] * 65536)
    for e in range(ends.shape[1]):
        state = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(first + e) * np.uint64(8)
        source = target = 0
        word = np.uint64(0)
        for level in range(scale):
            if level % 4 == 0:
                state += np.uint64(1)
                word = state * np.uint64(0x9E3779B97F4A7C15)
                word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                word ^= word >> np.uint64(31)
            draw = word & np.uint64(0xFFFF)
            word >>= np.uint64(16)
            source = 2 * source + (draw >= b)
            target = 2 * target + ((draw >= a) & (draw < b) | (draw >= c))
        ends[0, e], ends[1, e] = source, target

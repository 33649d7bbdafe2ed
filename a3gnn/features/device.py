"""A cache on the device in front of rows on the host."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.cache import Tier
from a3gnn.features.host import HostFeatures
from a3gnn.features.result import Rows
from a3gnn.features.rows import DenseRows


class DeviceFeatures:
    """A `FeatureStore` of dense rows whose cache, and whose answers, lie on a device.

    Misses are gathered on the host, cross to the device once, and meet the hits there. Device-neutral: on "cpu" it
    does the same in host memory.

    Args:
        host: The store that serves misses; it has no cache of its own.
        tier: The cached rows, still on the host; they are copied to the device as they are stored.
        cached: Nodes of `tier`, sorted.
        device: A torch device.
    """

    def __init__(self, host: HostFeatures, tier: Tier, cached: NDArray[np.int32], device: str) -> None:
        if not isinstance(tier.rows, DenseRows):
            raise TypeError("DeviceFeatures caches dense rows; sparse rows are cached on the host")
        self.cached = cached
        self.device = device
        self.num_features = host.num_features
        self.is_sparse = False
        self.can_aggregate = False
        self.cache_bytes = tier.nbytes
        self._host = host
        self._split = tier.split
        self._map_bytes = tier.position.nbytes
        self._rows = torch.from_numpy(np.array(tier.rows.array)).to(device)

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds; the cached rows count where the device is the CPU."""
        rows = self._rows.nbytes if self._rows.device.type == "cpu" else 0
        return self._host.host_bytes + self._map_bytes + rows

    def enter_part(self, part: int) -> None:
        """Makes `part`'s rows resident on the host, where the store keeps one part in RAM."""
        self._host.enter_part(part)

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> Rows:
        """Returns the rows of `ids` on the device, and how many the cache served. Safe to call from several threads."""
        where = np.arange(len(ids), dtype=np.int32)
        places, places_at, misses, misses_at = self._split(ids, where)
        shape = (len(ids), self.num_features)
        x = torch.empty(shape, dtype=torch.float32, device=self.device) if out is None else out
        if len(places):
            x.index_copy_(0, self._index(places_at), self._rows.index_select(0, self._index(places)).float())
        if len(misses):
            missed = self._host.read(misses, self._staging(len(misses))).x.to(x.device, non_blocking=True)
            x.index_copy_(0, self._index(misses_at), missed)
        return Rows(x, len(places))

    def _index(self, places: NDArray[np.int32]) -> torch.Tensor:
        return torch.from_numpy(places).to(self.device, torch.int64)

    def _staging(self, rows: int) -> torch.Tensor:
        pinned = self._rows.device.type == "cuda"
        return torch.empty((rows, self.num_features), dtype=torch.float32, pin_memory=pinned)

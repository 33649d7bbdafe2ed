"""`DynamicCache`: rows in RAM that a policy replaces with every query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn import team
from a3gnn.features.policies.kernels import keep_rows, redirect
from a3gnn.features.policies.line import Line
from a3gnn.features.policies.slot_map import SlotMap, slots_that_fit
from a3gnn.features.policies.stats import CacheStats, Tally
from a3gnn.features.rows import DenseRows
from a3gnn.features.table import RowTable, blank_row


class DynamicCache:
    """Dense rows in host memory, as stored, of the nodes that a policy keeps (BGL, section 3.2).

    A query is look-up, the caller's pass over the rows by address, and admission of what missed. Queries from any
    number of threads are served one at a time, in the order in which they come: a row is never replaced under a reader.

    Args:
        slots: Maps nodes to rows; at least one slot.
        base: All rows, whose width and dtype the cache's have.
        reason: Why this policy, where it was chosen by measurement.
    """

    def __init__(self, slots: SlotMap, base: DenseRows, reason: str = "") -> None:
        stored = blank_row(base.array)
        self._slots = slots
        self._rows = np.empty((slots.num_slots, len(stored)), dtype=stored.dtype)
        self._line = Line()
        self._tally = Tally(slots.policy, reason)

    @classmethod
    def that_fits(cls, base: DenseRows, cache_bytes: int, num_nodes: int, policy: str, reason: str = "") -> Self | None:
        """Returns the largest cache of at most `cache_bytes`, maps included; None where that holds no row."""
        num_slots = slots_that_fit(policy, cache_bytes, num_nodes, base.array[:1].nbytes)
        return cls(SlotMap(policy, num_slots, num_nodes), base, reason) if num_slots else None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the maps."""
        return self._rows.nbytes + self._slots.nbytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""
        return self._tally.stats

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Surrounds a pass over `table`, once the calling thread's turn has come.

        Args:
            ids: The rows' nodes, int32, in range.
            table: Where they lie without this cache; on entry, those it holds are redirected to it.

        Yields:
            How many it holds.
        """
        with self._line.turn():
            begin = perf_counter()
            found, hits = self._slots.look_up(ids)
            redirect(self._rows.ctypes.data, self._rows.strides[0], found, table.addresses)
            looked_up = perf_counter()
            yield hits
            read = perf_counter()
            self._admit(ids, found, table)
            self._tally.add(hits, len(ids) - hits, perf_counter() - read + looked_up - begin)

    def _admit(self, ids: NDArray[np.int32], found: NDArray[np.int32], table: RowTable) -> None:
        # What is admitted was missed, so that its address is not in this cache: rows never move within it.
        places, targets = self._slots.admit(ids, found)
        kernel = partial(keep_rows, table.addresses, places, targets, self._rows)
        team.in_chunks(kernel, len(places), team.grain(1, self._rows.strides[0]))

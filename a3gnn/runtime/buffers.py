"""Reused memory for the features of mini-batches: fresh pages cost more than the rows that are copied to them."""

from __future__ import annotations

from collections import deque

import torch

from a3gnn.features.rows.tensors import lent

# Rows of a buffer over those of the longest mini-batch so far. Guess.
_SLACK = 1.1


class BufferPool:
    """Hands out buffers and takes them back; safe to call from several threads.

    Buffers are as long as the longest mini-batch so far needed, and a tenth more: worst-case buffers would take
    gigabytes. What is taken must be given back; what is lent comes back. Of those that came back at most `spare` are
    kept: memory that many mini-batches held at once is freed with them.

    Args:
        width: Columns.
        spare: Buffers that may wait to be handed out again.
        dtype: float32 or bfloat16.
    """

    def __init__(self, width: int, spare: int, dtype: torch.dtype = torch.float32) -> None:
        self._width = width
        self._dtype = dtype
        # Appending to a full one drops the buffer that has waited longest.
        self._free: deque[torch.Tensor] = deque(maxlen=spare)
        self._rows = 0

    def take(self, rows: int) -> torch.Tensor:
        """Returns a buffer's first `rows` rows, shape (rows, width), with whatever they held."""
        return self._buffer(rows)[:rows]

    def give(self, taken: torch.Tensor) -> None:
        """Takes back what `take` returned; its memory may be handed out again."""
        whole = taken._base
        self._free.append(whole if whole is not None else taken)

    def lend(self, rows: int) -> torch.Tensor:
        """Returns the same as `take`, whose memory is handed out again once no tensor uses it any more."""
        return lent(self._buffer(rows), rows, self._free.append)

    def keep(self, spare: int) -> None:
        """Lets at most `spare` buffers wait from now on; no mini-batch may be under way."""
        self._free = deque(self._free, maxlen=spare)

    def _buffer(self, rows: int) -> torch.Tensor:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = torch.empty((0, self._width), dtype=self._dtype)
        if len(buffer) < rows:
            self._rows = max(self._rows, int(rows * _SLACK))
            # The short one goes before the long one comes, so that both are never held at once.
            del buffer
            buffer = torch.empty((max(self._rows, rows), self._width), dtype=self._dtype)
        return buffer

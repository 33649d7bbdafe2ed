"""`BufferPool`: memory for the rows of mini-batches, which later ones use again."""

from __future__ import annotations

from collections import deque

import torch

from a3gnn.features.tensors import lent

# Ratio of a buffer's rows to the rows of the longest mini-batch so far. Guess.
_SLACK = 1.1


class BufferPool:
    """Hands out buffers and takes them back; safe to call from several threads.

    Buffers are 10 percent longer than the longest mini-batch so far, because worst-case buffers would take gigabytes.
    The caller must return buffers from `take` by `give`; buffers from `lend` return by themselves. The pool keeps at
    most `spare` returned buffers, and so frees memory that many mini-batches used at once.

    Args:
        width: Columns of each buffer.
        spare: Maximum number of unused buffers.
        dtype: float32 or bfloat16.
    """

    def __init__(self, width: int, spare: int, dtype: torch.dtype = torch.float32) -> None:
        self._width = width
        self._dtype = dtype
        # Appending to a full deque drops the buffer that has waited longest.
        self._free: deque[torch.Tensor] = deque(maxlen=spare)
        self._rows = 0

    def take(self, rows: int) -> torch.Tensor:
        """Returns the first `rows` rows of a buffer, shape (rows, width), uninitialized."""
        return self._buffer(rows)[:rows]

    def give(self, taken: torch.Tensor) -> None:
        """Takes back a result of `take`; its memory may be handed out again."""
        whole = taken._base
        self._free.append(whole if whole is not None else taken)

    def lend(self, rows: int) -> torch.Tensor:
        """Returns rows as `take` does; the memory is handed out again once no tensor uses it any more."""
        return lent(self._buffer(rows), rows, self._free.append)

    def _buffer(self, rows: int) -> torch.Tensor:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = torch.empty((0, self._width), dtype=self._dtype)
        if len(buffer) < rows:
            self._rows = max(self._rows, int(rows * _SLACK))
            # Frees the short buffer before allocating the long one, so that memory never holds both.
            del buffer
            buffer = torch.empty((max(self._rows, rows), self._width), dtype=self._dtype)
        return buffer

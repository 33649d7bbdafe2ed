"""`Share`: the seconds and bytes that a prediction without a network may take."""

from __future__ import annotations

from time import monotonic

from a3gnn.errors import A3GNNError
from a3gnn.units import format_seconds, format_size


class LeftOutError(A3GNNError):
    """A prediction without a network that can't be made within its share of time and memory; the text is the reason."""


class Share:
    """A share of a budget.

    Args:
        seconds: Seconds from now on.
        most_bytes: Bytes of memory.
    """

    def __init__(self, seconds: float, most_bytes: float) -> None:
        self._seconds, self._end, self.most_bytes = seconds, monotonic() + seconds, most_bytes

    def check(self) -> None:
        """Raises a `LeftOutError` if the seconds are over."""
        if monotonic() > self._end:
            raise LeftOutError(f"it takes more than its share of {format_seconds(self._seconds)}")

    def need_seconds(self, least: float, most: float) -> None:
        """Raises a `LeftOutError` if the `least` seconds that are needed more are not left; `most` are expected."""
        if monotonic() + least > self._end:
            raise LeftOutError(f"it needs {format_seconds(least)} of its share of {format_seconds(self._seconds)}")

    def need_bytes(self, most: float) -> None:
        """Raises a `LeftOutError` if `most` bytes exceed the memory."""
        if most > self.most_bytes:
            needed, room = format_size(round(most)), format_size(max(round(self.most_bytes), 0))
            raise LeftOutError(f"it needs {needed} of memory, and may take {room}")

"""What numba compiles, rather than loads from its cache, in this process: it takes memory that no trial should show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import event


class Compilations(event.Listener):  # type: ignore[misc]  # numba carries no types
    """Notices compilations from when it is made, here and in processes that are forked later.

    Attributes:
        happened: Whether anything was compiled since it was made, or since `start_anew` with a marker.
    """

    def __init__(self) -> None:
        self.happened = False
        self._heeded = True
        self._marker: Path | None = None
        event.register("numba:compile", self)

    def start_anew(self, marker: Path | None) -> None:
        """Forgets what was compiled; that file is made when something is compiled from now on. None heeds nothing."""
        self.happened, self._heeded, self._marker = False, marker is not None, marker

    def on_start(self, event: Any) -> None:
        """Notes that numba compiles something."""
        self.happened = self._heeded
        if self._marker is not None:
            self._marker.touch()

    def on_end(self, event: Any) -> None:
        """Has nothing to note."""


#: This process's, from the import of this module on.
compilations = Compilations()

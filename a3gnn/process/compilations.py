"""Detects kernels that numba compiles instead of loading from its cache; compiling inflates a trial's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import event


class Compilations(event.Listener):  # type: ignore[misc]  # numba carries no types
    """Notices compilations from its creation on, here and in processes that are forked later.

    Attributes:
        happened: Whether anything was compiled since its creation, or since `start_anew` with a marker.
    """

    def __init__(self) -> None:
        self.happened = False
        self._heeded = True
        self._marker: Path | None = None
        event.register("numba:compile", self)

    def start_anew(self, marker: Path | None) -> None:
        """Forgets earlier compilations; the next one makes the file `marker`. None ignores later compilations."""
        self.happened, self._heeded, self._marker = False, marker is not None, marker

    def on_start(self, event: Any) -> None:
        """Records that numba compiles something."""
        self.happened = self._heeded
        if self._marker is not None:
            self._marker.touch()

    def on_end(self, event: Any) -> None:
        """Does nothing."""


#: The listener of this process, from the import of this module on.
compilations = Compilations()

"""Ctrl-C that waits for the end of a mini-batch, or of a chunk of evaluation."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While entered, notes Ctrl-C and SIGTERM instead of raising in the middle of an update; a second one raises.

    Off the main thread, where Python delivers no signals, it does nothing.

    Args:
        agreed: Whether others have to stop at the same mini-batch: `noted` is for them to know. Whoever started them
            all hands the same signal on, so that a second one means nothing.

    Attributes:
        forced: Whether a second one came: the model may be in the middle of an update.
        noted: Whether one came.
    """

    def __init__(self, *, agreed: bool = False) -> None:
        self.forced = False
        self.noted = False
        self._agreed = agreed
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if one was noted; call it where no weight changes, such as in evaluation."""
        if self.noted:
            raise KeyboardInterrupt

    def check_step(self) -> None:
        """Raises KeyboardInterrupt likewise after a mini-batch, unless others have to agree to stop there."""
        if not self._agreed:
            self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted and not self._agreed:
            self.forced = True
            raise KeyboardInterrupt
        self.noted = True

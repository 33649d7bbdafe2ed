"""How much a tune may still measure."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from a3gnn.units import count, format_duration

#: Share of a tune's seconds that is kept for the play-off, where that takes so long.
PLAY_OFF_SHARE = 1 / 3


class Budget:
    """A number of trials, or seconds of which up to a third is kept for the play-off.

    Args:
        total: Seconds (float) or trials (int).
        started: When this run of the tune started, by `time.monotonic`; now by default.
        spent_s: Seconds that earlier runs of the same tune have taken.
    """

    def __init__(self, total: float | int, started: float | None = None, spent_s: float = 0.0) -> None:
        self.total = total
        self.trials = 0
        self._start = (time.monotonic() if started is None else started) - spent_s

    @property
    def in_trials(self) -> bool:
        """Whether trials are counted, not seconds."""
        return isinstance(self.total, int)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the tune started, those of earlier runs included."""
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        """Seconds left, the play-off's included; infinite where trials are counted."""
        return float("inf") if self.in_trials else self.total - self.elapsed_s

    @property
    def play_off_s(self) -> float:
        """Seconds that are kept for the play-off at most; 0 where trials are counted."""
        return 0.0 if self.in_trials else self.total * PLAY_OFF_SHARE

    def record(self) -> None:
        """Takes note of a trial of the budget's, of this run or an earlier one; the default's is not."""
        self.trials += 1

    def affords(self, trial_s: float, reserve_s: float) -> bool:
        """Whether one more trial fits.

        Args:
            trial_s: Seconds that it is expected to take.
            reserve_s: Seconds that are kept for what comes after it.
        """
        return self.trials < self.total if self.in_trials else self.left_s > trial_s + reserve_s

    def describe(self) -> str:
        """Returns what is left, for people."""
        if self.in_trials:
            return f"{count(max(round(self.total) - self.trials, 0), 'trial')} left"
        return f"{format_duration(max(self.left_s, 0))} left"

    def describe_end(self, trial_s: float, reserve_s: float) -> str:
        """Returns why it affords no more, for people; arguments as in `affords`."""
        if self.in_trials or self.left_s <= 0:
            return "the budget is spent"
        return (
            f"{self.describe()}, {format_duration(reserve_s)} are the play-off's share, and another trial is "
            f"expected to take {format_duration(trial_s)}"
        )


#: Whoever makes this file in the folder of a running tune, such as by `touch`, ends it.
STOP_FILE = "stop"
#: Seconds between two looks for the file. Guess: a stop should be felt at once.
_POLL_S = 0.2
_ASKED = "a file named stop is in the tune's folder"


class StopAsked(KeyboardInterrupt):
    """Someone made the file: what runs ends as by Ctrl-C, and the tune finishes with what it has measured."""


def ask_to_stop(folder: Path) -> None:
    """Asks the tune in `folder` to end now; it removes the file once it has (`forget_stop`)."""
    (folder / STOP_FILE).touch()


def stop_is_asked(folder: Path) -> bool:
    """Returns whether the tune in `folder` is asked to end."""
    return (folder / STOP_FILE).exists()


def forget_stop(folder: Path) -> None:
    """Takes back that the tune in `folder` is asked to end: it has ended."""
    (folder / STOP_FILE).unlink(missing_ok=True)


@contextmanager
def stopped_by_file(folder: Path) -> Iterator[None]:
    """Raises `StopAsked` inside, once, as soon as `folder` has the file, whatever runs; on the main thread alone.

    Python delivers signals, by which that works, to no other thread: there, a tune looks between its trials
    (`Runner`). A thread that is made here looks for the file, and sends this process SIGUSR1.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield
        return
    done = threading.Event()

    def look() -> None:
        while not done.wait(_POLL_S):
            if stop_is_asked(folder):
                signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
                return

    before = signal.signal(signal.SIGUSR1, _raise)
    thread = threading.Thread(target=look, name="stop-file", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, StopAsked) or not stop_is_asked(folder):
            raise
        raise StopAsked(_ASKED) from interrupt  # a library has put an exception of its own in the place of ours
    finally:
        signal.signal(signal.SIGUSR1, lambda number, frame: None)  # one that comes now is too late
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def _raise(number: int, frame: object) -> None:
    raise StopAsked(_ASKED)

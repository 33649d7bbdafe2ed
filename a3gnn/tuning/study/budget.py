"""`Budget`: the trials or seconds that a tune has left; and requests to stop it."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from a3gnn.notify import LOOK_S
from a3gnn.process.machine_turn import seconds_waited
from a3gnn.profiling.request import TrialPlan
from a3gnn.units import count, format_duration

#: Largest share of a tune's seconds that is reserved for the verification: half of what the trials take.
VERIFICATION_SHARE = 1 / 3
#: Seconds that a trial gets at the end of a budget: 5 % of ten minutes, the budget of the examples.
_LEAST_TRIAL_S = 30.0
#: Creating this file in the folder of a running tune, for instance with `touch`, ends the tune.
STOP_FILE = "stop"
#: Message of `StopAsked`.
_ASKED = "a file named stop is in the tune's folder"


class Budget:
    """A number of trials, or of seconds, up to a third of which is reserved for the verification.

    Seconds that this process waits for other processes' trials on the machine do not count.

    Args:
        total: Seconds (float) or trials (int).
        started: When this run of the tune started, by `time.monotonic`; now by default.
        spent_s: Seconds that earlier runs of the same tune took.
    """

    def __init__(self, total: float | int, started: float | None = None, spent_s: float = 0.0) -> None:
        self.total = total
        self.trials = 0
        self._start = (time.monotonic() if started is None else started) - spent_s
        self._waited_s = seconds_waited()
        self._took_s: float | None = None

    @property
    def in_trials(self) -> bool:
        """Whether the budget counts trials, not seconds."""
        return isinstance(self.total, int)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the tune started, including earlier runs, without seconds of waiting for other trials."""
        if self._took_s is not None:
            return self._took_s
        return time.monotonic() - self._start - (seconds_waited() - self._waited_s)

    def end(self) -> None:
        """Stops the clock: the result is known, and all views of it show the same seconds."""
        self._took_s = self.elapsed_s

    @property
    def left_s(self) -> float:
        """Seconds left, including the verification's; infinite if the budget counts trials."""
        return float("inf") if self.in_trials else self.total - self.elapsed_s

    @property
    def verification_s(self) -> float:
        """Most seconds that are reserved for the verification; 0 if the budget counts trials."""
        return 0.0 if self.in_trials else self.total * VERIFICATION_SHARE

    def record(self) -> None:
        """Counts a trial of this run or an earlier one; not for trials that are free, such as the default's."""
        self.trials += 1

    def affords(self, trial_s: float, reserve_s: float) -> bool:
        """Whether one more trial fits.

        Args:
            trial_s: Expected seconds of the trial.
            reserve_s: Seconds reserved for the verification after it.
        """
        return self.trials < self.total if self.in_trials else self.left_s > trial_s + reserve_s

    def bounded(self, plan: TrialPlan) -> TrialPlan:
        """Returns `plan` for a trial that ends with the budget's seconds; it gets `_LEAST_TRIAL_S` in any case."""
        return dataclasses.replace(plan, timeout_s=min(plan.timeout_s, max(self.left_s, _LEAST_TRIAL_S)))

    def describe(self) -> str:
        """Returns the remaining trials or seconds as text."""
        if self.in_trials:
            return f"{count(max(round(self.total) - self.trials, 0), 'trial')} left"
        return f"{format_duration(max(self.left_s, 0))} left"

    def describe_end(self, trial_s: float, reserve_s: float) -> str:
        """Returns as text why the budget affords no further trial; arguments as in `affords`."""
        if self.in_trials or self.left_s <= 0:
            return "the budget is spent"
        left_s = format_duration(max(self.left_s - reserve_s, 0))
        return f"{left_s} left beside the verification, and another trial may take {format_duration(trial_s)}"


class StopAsked(KeyboardInterrupt):
    """The stop file exists: running work ends as by Ctrl-C, and the tune finishes with its measurements so far."""


def ask_to_stop(folder: Path) -> None:
    """Asks the tune in `folder` to end now; the tune removes the file when it has ended (`forget_stop`)."""
    (folder / STOP_FILE).touch()


def stop_is_asked(folder: Path) -> bool:
    """Returns whether the tune in `folder` is asked to end."""
    return (folder / STOP_FILE).exists()


def forget_stop(folder: Path) -> None:
    """Removes the request to stop from `folder`."""
    (folder / STOP_FILE).unlink(missing_ok=True)


def _is_in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@contextmanager
def stopped_by_file(folder: Path) -> Iterator[None]:
    """Raises `StopAsked` inside, once, as soon as `folder` contains the file; only on the main thread.

    A new thread looks for the file, and sends SIGUSR1 until that has raised. Nothing is raised in `__del__`, and what
    other callbacks of Python swallow comes to `sys.unraisablehook`: then the signal is sent again. Signals come only to
    the main thread; on others, a tune checks for the file between trials (`Runner`).
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield
        return
    done, raised = threading.Event(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK_S):
            if not raised.is_set() and stop_is_asked(folder):
                signal.pthread_kill(main.ident or 0, signal.SIGUSR1)

    def stop(_: int, frame: FrameType | None) -> None:
        if not raised.is_set() and not _is_in_finalizer(frame):
            raised.set()
            raise StopAsked(_ASKED)

    def unraisable(error: sys.UnraisableHookArgs) -> None:
        if isinstance(error.exc_value, StopAsked):
            raised.clear()
        else:
            hook(error)

    before, hook = signal.signal(signal.SIGUSR1, stop), sys.unraisablehook
    sys.unraisablehook = unraisable
    thread = threading.Thread(target=look, name="stop-file", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, StopAsked) or not stop_is_asked(folder):
            raise
        raise StopAsked(_ASKED) from interrupt  # a library replaced our exception by its own
    finally:
        signal.signal(signal.SIGUSR1, lambda number, frame: None)  # a signal that arrives now is too late
        sys.unraisablehook = hook
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)

"""`Watch`: records which thread works at which stage for which trainer, and detects stalled threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import Literal, NamedTuple

from a3gnn.errors import A3GNNError, TrainerError, TrainerStalledError
from a3gnn.option_names import option
from a3gnn.units import format_duration

#: The work for each mini-batch: HyScale-GNN's four stages, with synchronization and update apart from propagation.
WatchedStage = Literal["sampling", "loading", "transfer", "propagation", "synchronization", "update"]
#: Stages in which a trainer waits for others.
_TRAINING: tuple[WatchedStage, ...] = ("propagation", "synchronization")
#: Number of spans to keep, some 2 MB: those of some thousand mini-batches of two trainers.
_KEPT = 1 << 14


class Span(NamedTuple):
    """Finished work of one stage for a mini-batch."""

    stage: WatchedStage
    epoch: int  # epoch of the mini-batch, from 0
    batch: int  # its place in the epoch, from 0
    trainer: int | None  # index of the trainer that the work was for; None for all
    begin: float  # `perf_counter` at the begin, in seconds
    end: float  # `perf_counter` at the end, in seconds


class StoppedError(Exception):
    """Ends a thread's work because another thread has failed; the other one reports the error."""


@dataclass(slots=True)
class _Work:
    """Work under way; `since` is its begin, or the end of its last wait for others."""

    stage: WatchedStage
    epoch: int
    batch: int
    trainer: int | None
    since: float
    waits: bool = False


class Watch:
    """Records which thread works at which stage, adds this to error messages, and detects stalled threads.

    Args:
        names: Each trainer's name, for messages.
        limit_s: Seconds that a stage of a mini-batch may take, not counting waits for others.

    Attributes:
        spans: The last finished work, ordered by end.
    """

    def __init__(self, names: Sequence[str], limit_s: float) -> None:
        self._names, self._limit_s = names, limit_s
        self._under_way: dict[int, _Work] = {}  # by thread
        self.spans: deque[Span] = deque(maxlen=_KEPT)

    @contextmanager
    def at(self, stage: WatchedStage, epoch: int, batch: int, trainer: int | None = None) -> Iterator[None]:
        """Records that the calling thread works at `stage` of a mini-batch within the context.

        Args:
            stage: The stage.
            epoch: Epoch of the mini-batch, from 0.
            batch: Its place in the epoch, from 0.
            trainer: Index of the trainer that it works for; None for all trainers.

        Raises:
            TrainerError: The body raised an error other than `A3GNNError`, whose message does not name the trainer.
        """
        begin = perf_counter()
        work = self._under_way[get_ident()] = _Work(stage, epoch, batch, trainer, begin)
        try:
            yield
        except (A3GNNError, StoppedError):
            raise
        except Exception as error:
            raise TrainerError(f"{self._name(work)} failed: {type(error).__name__}: {error}") from error
        finally:
            del self._under_way[get_ident()]
            self.spans.append(Span(stage, epoch, batch, trainer, begin, perf_counter()))

    @contextmanager
    def waiting(self, trainer: int) -> Iterator[None]:
        """Excludes the time in the context from `trainer`'s limit, because `trainer` waits for others.

        May be called on another thread than the training one, because autograd has its own thread for each GPU.
        """
        by_trainer = (work for work in self._under_way.copy().values() if work.trainer == trainer)
        work = next((work for work in by_trainer if work.stage in _TRAINING), None)
        if work is not None:
            work.waits = True
        try:
            yield
        finally:
            if work is not None:
                work.since, work.waits = perf_counter(), False

    def is_late(self, thread: int | None = None) -> bool:
        """Returns whether the thread with this identifier has stalled; None checks all threads."""
        late = {at for at, work in self._under_way.copy().items() if self._is_late(work)}
        return bool(late) if thread is None else thread in late

    def check(self) -> None:
        """Checks that no thread has stalled.

        Raises:
            TrainerStalledError: A thread has stalled; the message names its trainer and stage.
        """
        for work in self._under_way.copy().values():
            if self._is_late(work):
                raise TrainerStalledError(
                    f"{self._name(work)} must take at most {format_duration(self._limit_s)}, but has not finished; "
                    f"raise {option('trainer_stall')} if it is slow"
                )

    def _is_late(self, work: _Work) -> bool:
        return not work.waits and perf_counter() - work.since > self._limit_s

    def _name(self, work: _Work) -> str:
        whose = "all trainers" if work.trainer is None else f"trainer {work.trainer} ({self._names[work.trainer]})"
        return f"{work.stage} of {whose} for mini-batch {work.batch} of epoch {work.epoch + 1}"

"""`Watch`: which thread works at which stage, since when, and for which trainer."""

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

#: What is done for each mini-batch: HyScale-GNN's four stages, what follows propagation apart from it.
WatchedStage = Literal["sampling", "loading", "transfer", "propagation", "synchronisation", "update"]
#: Those in which a trainer waits for others.
_TRAINING: tuple[WatchedStage, ...] = ("propagation", "synchronisation")
#: Spans that are kept: some thousand mini-batches of two trainers. Guess.
_KEPT = 1 << 14


class Span(NamedTuple):
    """Some work that is done.

    Attributes:
        stage: Of which stage.
        epoch: Of the mini-batch, from 0.
        batch: Its place in the epoch, from 0.
        trainer: Place of the trainer for whom it was; None for all.
        begin: By `perf_counter`, in seconds.
        end: Likewise.
    """

    stage: WatchedStage
    epoch: int
    batch: int
    trainer: int | None
    begin: float
    end: float


class StoppedError(Exception):
    """Ends the work of one who can't go on, as another has failed, which that one says."""


@dataclass(slots=True)
class _Work:
    """Work that is under way; `since` it began, or waited for others last."""

    stage: WatchedStage
    epoch: int
    batch: int
    trainer: int | None
    since: float
    waits: bool = False


class Watch:
    """Records who works at what, gives their errors a name, and notices who does not come back.

    Args:
        names: Of each trainer, for people.
        limit_s: Seconds that a stage of a mini-batch may take without waiting for others.

    Attributes:
        spans: What was done last, in the order in which it ended.
    """

    def __init__(self, names: Sequence[str], limit_s: float) -> None:
        self._names, self._limit_s = names, limit_s
        self._under_way: dict[int, _Work] = {}  # by thread
        self.spans: deque[Span] = deque(maxlen=_KEPT)

    @contextmanager
    def at(self, stage: WatchedStage, epoch: int, batch: int, trainer: int | None = None) -> Iterator[None]:
        """Within it, the calling thread works at `stage` of a mini-batch, for `trainer` or for all.

        Raises:
            TrainerError: What is within it raises an error that is no `A3GNNError`, and so says nothing of trainers.
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
        """Within it, `trainer` waits for others, and its time does not count.

        That may be told on another thread than the one that trains: autograd has one of its own for each GPU.
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
        """Returns whether a thread of this identifier, or any, has not come back."""
        late = {at for at, work in self._under_way.copy().items() if self._is_late(work)}
        return bool(late) if thread is None else thread in late

    def check(self) -> None:
        """Does nothing while all who work come back.

        Raises:
            TrainerStalledError: One has not; the message says which trainer, and at which stage.
        """
        for work in self._under_way.copy().values():
            if self._is_late(work):
                raise TrainerStalledError(
                    f"{self._name(work)} must take {format_duration(self._limit_s)} at most, and has not come back; "
                    f"give more by {option('trainer_stall')} if it is slow"
                )

    def _is_late(self, work: _Work) -> bool:
        return not work.waits and perf_counter() - work.since > self._limit_s

    def _name(self, work: _Work) -> str:
        whose = "all trainers" if work.trainer is None else f"trainer {work.trainer} ({self._names[work.trainer]})"
        return f"{work.stage} of {whose} for mini-batch {work.batch} of epoch {work.epoch + 1}"

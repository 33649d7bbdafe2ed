"""A worker's side of the protocol: one JSON object per line in, one out.

Requests are {"do": name, ...}; answers {"ok": value}, {"unavailable": reason} or {"failed": traceback}.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Generator, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any

from benchmarks.engine.workers.work import Batch, Library, Unavailable, Work


def serve(library: Library) -> None:
    """Answers requests until standard input ends; what the library prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    handler = RequestHandler(library)
    for line in sys.stdin:
        answers.write(json.dumps(handler.answer(json.loads(line))) + "\n")
        answers.flush()
    handler.drop()


class RequestHandler:
    """Answers one request at a time.

    Several sessions (a work in one variant) are open at once, so that engines and styles can alternate.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._sessions: dict[str, tuple[Work, Iterator[Batch]]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to `request`; errors are answers, too."""
        arguments = dict(request)
        try:
            return {"ok": getattr(self, f"_do_{arguments.pop('do')}")(**arguments)}
        except Unavailable as reason:
            return {"unavailable": str(reason)}
        except Exception:
            return {"failed": traceback.format_exc()}

    def drop(self) -> None:
        """Ends all sessions."""
        for key in list(self._sessions):
            self._do_stop(key)

    def _do_hello(self) -> dict[str, Any]:
        return {"engine": self._library.name, "versions": self._library.versions(), "pid": os.getpid()}

    def _do_open(self, folder: str) -> dict[str, int]:
        return self._library.open(folder)

    def _do_variants(self, work: dict[str, Any]) -> list[str]:
        return self._library.variants(Work.from_dict(work))

    def _do_extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        return self._library.extra(question, argument)

    def _do_start(self, key: str, work: dict[str, Any], variant: str) -> float:
        """Opens the session `key` and returns the seconds to its first mini-batch."""
        asked = Work.from_dict(work)
        begin = perf_counter()
        batches = self._library.batches(asked, variant)
        next(batches)
        seconds = perf_counter() - begin
        self._sessions[key] = (asked, batches)
        return seconds

    def _do_measure(self, key: str, count: int, skip: int) -> dict[str, list[Any]]:
        """Returns `count` full mini-batches of session `key` by columns.

        Args:
            key: The session.
            count: Mini-batches that are answered.
            skip: Mini-batches that are left out first, here and where an epoch begins: those that were prepared
                while nobody waited, and those that fill the pipeline.
        """
        work, batches = self._sessions[key]
        done: list[Batch] = []
        epochs = 0
        for passed, batch in enumerate(batches):
            epochs += batch.index == 0
            if passed >= skip and batch.index >= skip and batch.seeds == work.batch_size:
                done.append(batch)
            if len(done) == count:
                break
            if epochs > 2 and not done:
                raise Unavailable(f"an epoch has no more than {skip} mini-batches of {work.batch_size} seeds")
        return _columns(done)

    def _do_epochs(self, key: str, count: int) -> int:
        """Runs session `key` until `count` epochs have ended, and returns the mini-batches."""
        _, batches = self._sessions[key]
        passed = 0
        for batch in batches:
            passed += 1
            count -= batch.index == 0
            if count == 0:
                break
        return passed

    def _do_stop(self, key: str) -> None:
        _, batches = self._sessions.pop(key)
        if isinstance(batches, Generator):
            with suppress(StopIteration):
                batches.close()


def _columns(done: list[Batch]) -> dict[str, list[Any]]:
    names = sorted({name for batch in done for name in batch.stages})
    stages = {name: [batch.stages.get(name, 0.0) for batch in done] for name in names}
    plain = {name: [getattr(batch, name) for batch in done] for name in ("ms", "nodes", "edges")}
    losses = [batch.loss for batch in done if batch.loss is not None]
    return {**plain, **stages, "loss": losses}

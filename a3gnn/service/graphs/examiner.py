"""`Examiner`: has uploads read by a process of its own each, with bounded memory and time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from a3gnn.process.child import as_program, end, take_order, take_stdout
from a3gnn.service.http.problems import ProblemDetails, leaving
from a3gnn.service.jobs.home import Places
from a3gnn.storage.host_limits import available_bytes
from a3gnn.units import format_size

#: Limits of a process's memory at and above this are no limits: `setrlimit` takes no larger ones.
_NO_LIMIT = 2**62
#: The program that reads them, and what each kind of them is called in messages.
_PROGRAM = "a3gnn.service.graphs.graph_process"
_NOUNS = {"graph": "graph", "rows": "file of measurements"}
#: Seconds after which it hangs: the largest graphs are read in minutes.
_MOST_S = 3600.0


class Examiner:
    """Runs the program that takes an order, and answers as `answer_order` does."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._mutex, self._running = threading.Lock(), set[subprocess.Popen[bytes]]()
        self._closed = False

    def run(self, kind: str, order: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to `order`.

        Args:
            kind: What is examined, graph or rows; also the kind of problems with it.
            order: JSON types.

        Raises:
            ProblemDetails: The program refuses the thing, has ended without an answer, or the server ends.
        """
        process = self._started()
        try:
            order = {"parent": os.getpid(), "kind": kind, **order}
            answer, _ = process.communicate(json.dumps(order).encode() + b"\n", _MOST_S)
            found: dict[str, Any] = json.loads(answer)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            if self._closed:
                raise leaving() from None
            raise ProblemDetails(
                422,
                kind,
                f"the {_NOUNS[kind]} can't be read: the process that examines it ended without an answer; it may have "
                "run out of memory or time; send a smaller one",
            ) from error
        finally:
            end(process)
            with self._mutex:
                self._running.discard(process)
        if "error" in found:
            raise ProblemDetails.from_dict(self._places.shown_in(found["error"]))
        return found

    def close(self) -> None:
        """Kills all processes; their requests, and later ones, get an error."""
        with self._mutex:
            self._closed = True
            for process in self._running:
                process.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        program = as_program(_PROGRAM)
        program.environment["OPENBLAS_NUM_THREADS"] = "1"  # each thread takes memory
        with self._mutex:
            if self._closed:
                raise leaving()
            process = program.start()
            self._running.add(process)
        return process


def limit_memory(most: int | None) -> None:
    """Limits this process's memory to `most` bytes, or to half of the free memory if that is less: trials need some."""
    free = available_bytes()
    half = None if free is None else free // 2
    most = min((one for one in (most, half) if one is not None), default=_NO_LIMIT)
    if most < _NO_LIMIT:
        with suppress(ValueError, OSError):  # its hard limit is lower already
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def answer_order(examiners: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]) -> None:
    """Takes an order from stdin, and writes the result to stdout, or the problem as {"error": PROBLEM}.

    Args:
        examiners: What examines the thing that an order names, by the order's kind.
    """
    order = take_order()
    if order is None:
        return
    os.nice(10)
    stdout = take_stdout()
    try:
        answer = examiners[order["kind"]](order)
    except MemoryError:
        limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
        held = "" if limit < 0 else f" than the {format_size(limit)} that it may take"
        noun = _NOUNS[order["kind"]]
        detail = f"the {noun} needs more memory{held} to be examined; send a smaller one"
        problem = ProblemDetails(422, order["kind"], detail)
        answer = {"error": problem.to_dict()}
    except Exception as error:
        problem = ProblemDetails.of(error)
        if problem.kind == "internal":
            traceback.print_exc()
        answer = {"error": problem.to_dict()}
    os.write(stdout, json.dumps(answer).encode())

"""`Recommender`: recommendations by predictions, from a process that keeps the models in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import OrderedDict
from typing import Any

from a3gnn._imports import importing
from a3gnn.notify import LOOK_S
from a3gnn.process.child import as_program, described_status, end, take_stdout
from a3gnn.service.http.problems import ProblemDetails, Turns, leaving
from a3gnn.service.jobs.home import Places
from a3gnn.service.studies.study_files import KEPT
from a3gnn.threads import wait_policy

#: Problems that last as long as the measurements do. Any other, such as a folder that is not mounted, may pass.
_LASTING = ("infeasible", "usage")


class Recommender:
    """Asks one process, which is started by the first question (some seconds) and then stays.

    Args:
        store: The profile store that predictions rest on: a path or an SQLAlchemy URL.
        places: Shortens the server's paths in answers.
    """

    def __init__(self, store: str, places: Places) -> None:
        self._store, self._places = store, places
        self._mutex, self._turns = threading.Lock(), Turns("predict")
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._answers: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def ask(self, dataset: str, arguments: dict[str, Any], stand: str) -> dict[str, Any]:
        """Returns the recommendation as `a3gnn recommend --json` prints it.

        Args:
            dataset: The dataset that loads the graph.
            arguments: Further arguments of `recommend`, as JSON types.
            stand: `Profiles.stand` of the measurements. Answers are kept as long as it stays the same.

        Raises:
            ProblemDetails: Nothing can be recommended, or too many requests wait for an answer.
        """
        order = {"dataset": dataset, "store": self._store, **arguments}
        key = stand, json.dumps(order, sort_keys=True)
        answer = self._kept(key)
        if answer is None:
            with self._turns.one():
                answer = self._kept(key) or self._answered(order)  # a request before it may have asked the same
                self._keep(key, answer)
        if "error" in answer:
            raise ProblemDetails.from_dict(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process; questions that wait, and later ones, get an error."""
        with self._mutex:
            self._closed = True
        self._end()

    def _end(self) -> None:
        with self._mutex:
            process, self._process = self._process, None
        if process is not None:
            end(process)

    def _kept(self, key: tuple[str, str]) -> dict[str, Any] | None:
        with self._mutex:
            return self._answers.get(key)

    def _keep(self, key: tuple[str, str], answer: dict[str, Any]) -> None:
        if "error" in answer and ProblemDetails.from_dict(answer["error"]).kind not in _LASTING:
            return
        with self._mutex:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)

    def _answered(self, order: dict[str, Any]) -> dict[str, Any]:
        """Returns the process's answer. If the process has died, the next question starts another."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, Any] = self._places.shown_in(json.loads(process.stdout.readline()))
        except (OSError, ValueError):
            if self._closed:
                raise leaving() from None
            self._end()
            ended = described_status(process.wait())
            raise ProblemDetails(
                500, "failed", f"the prediction process ended with {ended}; ask again to start another"
            ) from None
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        with self._mutex:
            if self._closed:
                raise leaving()
            if self._process is None:
                program = as_program("a3gnn.service.studies.recommender")
                self._process = program._replace(command=[*program.command, str(os.getpid())]).start()
            return self._process


def main() -> None:
    """Answers until stdin is closed, or the process PID ends: `python -m a3gnn.service.studies.recommender PID`.

    Each line on stdin has the arguments of `recommend` as a JSON object. For each, it writes a line to stdout: the JSON
    of `a3gnn recommend --json`, or {"error": PROBLEM}.
    """
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    wait_policy.adopt()
    answers = os.fdopen(take_stdout(), "w", encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent. The signal of the parent's end would come with the thread that asked."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _answer(arguments: dict[str, Any]) -> dict[str, Any]:
    from a3gnn.task import Task

    with importing():
        from a3gnn.tuning.recommend import recommend

    try:
        return recommend(task=Task.from_dict(arguments.pop("task")), **arguments).to_dict()
    except Exception as error:
        problem = ProblemDetails.of(error)
        if problem.kind == "internal":
            traceback.print_exc()
        return {"error": problem.to_dict()}


if __name__ == "__main__":
    main()

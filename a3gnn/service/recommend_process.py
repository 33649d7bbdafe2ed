"""The process that predicts: `python -m a3gnn.service.recommend_process`, started by `a3gnn.service.recommender`.

Each line on stdin has the arguments of `recommend` as a JSON object. For each, it writes a line to stdout: the JSON of
`a3gnn recommend --json`, or {"error": PROBLEM}. It ends when its stdin is closed.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from a3gnn.process.child import take_stdout
from a3gnn.service.problems import ProblemDetails
from a3gnn.threads import wait_policy


def main() -> None:
    """Answers until stdin is closed."""
    wait_policy.adopt()
    answers = os.fdopen(take_stdout(), "w", encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _answer(arguments: dict[str, Any]) -> dict[str, Any]:
    from a3gnn.task import Task
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

"""`recommend_first`: a recommendation that learns as the first trial of a tune for `time` does.

`recommend_apart` makes it in a process of its own: predictions need xgboost, scikit-learn and the profiles, which
would stay in the memory of the trainings that follow, and count in their peak and their limit.
"""

from __future__ import annotations

import base64
import pickle
import shutil
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from a3gnn._imports import importing
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import A3GNNError, InfeasibleError
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import flags_are_used
from a3gnn.process.child import carry_out, described_status, end, said, start_program
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task


def recommend_apart(graph: Graph, task: Task, limit: int | None, folder: Path, notify: Callable[[str], None]) -> None:
    """Calls `recommend_first` in another process, which ends with the thread that calls this.

    Args:
        graph: A graph on disk.
        task: As `recommend_first` has it.
        limit: As `recommend_first` has it.
        folder: As `recommend_first` has it. What an interrupted call left there is removed.
        notify: Takes each line of progress.

    Raises:
        A3GNNError: Nothing is recommended, for whatever reason.
    """
    shutil.rmtree(folder, ignore_errors=True)
    order = {
        "graph": base64.b64encode(pickle.dumps(graph)).decode(),  # its folder, name and fingerprint
        "task": task.to_dict(),
        "limit": limit,
        "folder": str(folder.resolve()),
        "flags": flags_are_used(),
    }
    process = start_program("a3gnn.tuning.recommend_first", order)
    try:
        for one in said(process):
            if not isinstance(one, str):
                raise A3GNNError(one["error"])
            notify(one)
        status = process.wait()
    finally:
        end(process)
    if not (folder / "tuned.json").exists():
        raise A3GNNError(f"the process that recommends a configuration ended with {described_status(status)}")


def recommend_first(graph: Graph, task: Task, limit: int | None, folder: Path, notify: Callable[[str], None]) -> None:
    """Recommends a configuration that learns as a tune's first trial, as far as that can keep the limit.

    If not, it does without full aggregations, whose table takes memory, and else it learns as the baseline. Of all that
    learns so, it is the fastest.

    Args:
        graph: The graph.
        task: What is trained.
        limit: Limit on host memory in bytes.
        folder: A new folder for its tuned.json.
        notify: Takes each line of progress.

    Raises:
        InfeasibleError: Nothing that learns so is predicted to keep the limit.
    """
    with importing(freeze=False):
        from a3gnn.tuning.engines.improvement import FIRST
        from a3gnn.tuning.recommend import probed_machine

    space = SearchSpace.of(Setting(task, graph.characteristics(), probed_machine(notify)))
    first = {name: value for name, value in FIRST.items() if value in space.knob(name).values}
    while True:
        try:
            return _recommend_as(first, graph, task, limit, folder, notify)
        except InfeasibleError as error:
            if not first:
                raise
            notify(str(error))
            del first[next(iter(first))]  # as FIRST has them: the table goes before the number format


def _recommend_as(
    changes: Mapping[str, object],
    graph: Graph,
    task: Task,
    limit: int | None,
    folder: Path,
    notify: Callable[[str], None],
) -> None:
    """Recommends the fastest configuration that learns as the baseline with `changes`."""
    from a3gnn.tuning.recommend import recommend

    fields = TrainConfig().replace(**changes).canonical().knobs()
    recommend(
        graph,
        priority="throughput",
        task=task,
        host_memory_limit=limit,
        max_accuracy_drop=100,  # accuracy is no limit: all that is left to choose from learns the same
        fix={knob.name: fields[knob.name] for knob in KNOBS if knob.learns.holds(fields)},
        out=folder,
        notify=notify,
    )


def main() -> None:
    """Calls `recommend_first` with the order on stdin: `python -m a3gnn.tuning.recommend_first`.

    It writes a JSON value per line to stdout: strings for people, and {"error": MESSAGE} if nothing is recommended.
    """
    carry_out(_answer)


def _answer(order: Mapping[str, Any], say: Callable[[object], None]) -> None:
    try:
        graph, task = pickle.loads(base64.b64decode(order["graph"])), Task.from_dict(order["task"])
        recommend_first(graph, task, order["limit"], Path(order["folder"]), say)
    except A3GNNError as error:
        say({"error": str(error)})
    except Exception as error:
        traceback.print_exc()
        say({"error": f"no configuration could be recommended: {error!r}"})


if __name__ == "__main__":
    main()

"""The process of one of several tunes, which `a3gnn.tuning.machines` starts.

It reads one JSON object from stdin, and calls `tune` with the arguments:

    {"parent": PID, "flags": whether messages name options as the command line does, "choice": an `ExecutorChoice`,
     "arguments": {...}}

It writes a JSON value per line to stdout: strings for people, and at the end an object, {"error": MESSAGE, "code": EXIT
CODE}, whose message is empty if the tune has chosen. The process and its running trial end when the parent ends.
SIGTERM ends it as Ctrl-C ends a tune.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from a3gnn.errors import A3GNNError, ExitCode
from a3gnn.option_names import as_flags
from a3gnn.process.child import interrupt_by_sigterm, take_order, take_stdout
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.task import Task
from a3gnn.threads import wait_policy


def main() -> None:
    """Runs the tune that the JSON object on stdin describes."""
    wait_policy.adopt()
    interrupt_by_sigterm()
    order = take_order()
    if order is None:
        return
    stdout = take_stdout()

    def say(value: object) -> None:
        os.write(stdout, json.dumps(value).encode() + b"\n")

    with as_flags(order["flags"]):
        say(_outcome(order, say))
    os._exit(0)  # everything is on disk, and unloading torch takes a second


def _outcome(order: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    from a3gnn.tuning.tune import tune

    arguments = dict(order["arguments"])
    task = Task.from_dict(arguments.pop("task"))
    try:
        with ExecutorChoice(**order["choice"]).opened(say) as executor:
            tune(task=task, executor=executor, notify=say, **arguments)
    except KeyboardInterrupt as interrupt:
        return {"error": f"interrupted: {interrupt}", "code": ExitCode.INTERRUPTED}
    except A3GNNError as error:
        return {"error": str(error), "code": error.exit_code}
    except Exception:
        return {"error": traceback.format_exc(), "code": ExitCode.FAILED}
    return {"error": "", "code": ExitCode.DONE}


if __name__ == "__main__":
    main()

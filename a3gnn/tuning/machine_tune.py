"""`MachineTune`: the process of a tune for one kind of machines, followed from the one that started it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from a3gnn.errors import ExitCode
from a3gnn.process.order import start_program
from a3gnn.process.status import described_status
from a3gnn.profiling.executor_choice import ExecutorChoice

#: Seconds after which a process that was told to end is killed. Guess.
_GRACE_S = 20.0
_LOST = "its process ended before the tune did"


class MachineTune:
    """Starts a tune in a process of its own, which ends with the thread that starts it.

    Args:
        choice: Where its trials run.
        folder: Its own.
        arguments: What else `tune` is called with, as JSON types.
        flags: Whether messages name options as the command line does.
        notify: Takes each line, in a thread of this object's.

    Attributes:
        machines: The name of the kind of machines.
        folder: The tune's.
        error: Why it has not chosen, once it has ended; "" where it has.
        code: The exit code that stands for that.
    """

    def __init__(
        self,
        choice: ExecutorChoice,
        folder: Path,
        arguments: Mapping[str, Any],
        flags: bool,
        notify: Callable[[str], None],
    ) -> None:
        assert choice.machines is not None
        self.machines, self.folder = choice.machines, folder
        self.error, self.code = _LOST, ExitCode.FAILED
        order = {"flags": flags, "choice": choice.to_dict(), "arguments": dict(arguments)}
        self._process = start_program("a3gnn.tuning.machine_process", order)
        self._thread = threading.Thread(target=self._listen, args=(notify,), name=f"tune-{self.machines}", daemon=True)
        self._thread.start()

    def ended(self, patience_s: float) -> bool:
        """Returns whether it has ended after at most so many seconds; then `error` and `code` are known."""
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def interrupt(self) -> None:
        """Has it end as by Ctrl-C."""
        self._process.terminate()

    def end(self) -> None:
        """Waits for its end, and brings it about where that takes long."""
        if not self.ended(_GRACE_S):
            self._process.kill()
        self._thread.join()
        status = self._process.wait()
        if self.error == _LOST:
            self.error += f", with {described_status(status)}"

    def _listen(self, notify: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                if not line.endswith(b"\n"):
                    return  # it was killed as it wrote
                said = json.loads(line)
                if isinstance(said, str):
                    notify(said)
                else:
                    self.error, self.code = said["error"], ExitCode(said["code"])

"""Modules of ours as programs: this interpreter, and the folders that this process imports from.

Its member "parent" is that process' id. The program ends when that does, and answers on what was its stdout.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NamedTuple


class ChildProgram(NamedTuple):
    """What `subprocess` takes to start a program.

    Attributes:
        command: The program and its arguments.
        environment: Its environment variables.
    """

    command: list[str]
    environment: dict[str, str]

    def start(self, stderr: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """Starts the program, whose stdin and stdout are pipes: an interrupt from the keyboard is not for it.

        Args:
            stderr: Takes what it writes there; by default what takes this process'.
        """
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=stderr, env=self.environment, start_new_session=True
        )


def as_program(module: str) -> ChildProgram:
    """Returns the program that runs `module`, which has this process' environment and import paths."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return ChildProgram([sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path})


#: `prctl(2)`: the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start_program(module: str, order: Mapping[str, Any], stderr: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Starts `module` with an order, and returns its process, whose stdout is a pipe; it ends with this thread.

    Args:
        module: The program's.
        order: JSON types; the parent is added.
        stderr: Takes what it writes there; by default what takes this process'.
    """
    process = as_program(module).start(stderr)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # it ended at once, which its outcome says
        stdin.write(json.dumps({"parent": os.getpid(), **order}).encode() + b"\n")
    return process


def take_order() -> dict[str, Any] | None:
    """Returns the order on stdin; None where the parent ended before this process could ask to end with it."""
    die_with_parent()
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    return order if os.getppid() == order["parent"] else None


def interrupt_by_sigterm() -> None:
    """Has SIGTERM end this process as Ctrl-C would; one from the keyboard is for the parent, which ends this one."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def take_stdout() -> int:
    """Returns an open file that is stdout; what is written to that from now on, as by a library, goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt(f"by signal {signum}")

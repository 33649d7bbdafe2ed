"""Runs modules of this package as programs, with this interpreter and this process's import paths.

`start_program` writes an order to the program's stdin, one line of JSON; its field "parent" is the parent's process id.
The program ends with its parent, and answers on the original stdout. `described_status` tells how a process ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, NamedTuple

from a3gnn.option_names import as_flags
from a3gnn.threads import wait_policy

#: `prctl(2)`: the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


#: Explanation of a process that this signal ended, for messages.
_KILLED = (
    "which the kernel sends when memory runs out (see dmesg), and which schedulers send, too; if memory ran out, set "
    "a lower memory limit or a smaller batch_size"
)


class ChildProgram(NamedTuple):
    """The arguments for `subprocess` to start a program."""

    command: list[str]  # the program and its arguments
    environment: dict[str, str]  # its environment variables

    def start(self, stderr: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """Starts the program with pipes as stdin and stdout, in a session without interrupts from the keyboard.

        Args:
            stderr: Takes its stderr; by default this process's stderr.
        """
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=stderr, env=self.environment, start_new_session=True
        )


def as_program(module: str) -> ChildProgram:
    """Returns the program that runs `module` with this process's environment and import paths."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return ChildProgram([sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path})


def start_program(module: str, order: Mapping[str, Any], stderr: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Starts `module` with an order, and returns its process, whose stdout is a pipe; it ends with this thread.

    Args:
        module: Name of the module to run.
        order: JSON types; the parent's process id is added.
        stderr: Takes its stderr; by default this process's stderr.
    """
    process = as_program(module).start(stderr)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # if it ended at once, its outcome shows it
        stdin.write(json.dumps({"parent": os.getpid(), **order}).encode() + b"\n")
    return process


def said(process: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Yields the JSON values that `process` writes to its stdout, one per line, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        if not line.endswith(b"\n"):
            return  # it was killed as it wrote
        yield json.loads(line)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills `process` if it still runs, and closes its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what it did not read is lost
                pipe.close()


def take_order() -> dict[str, Any] | None:
    """Returns the order on stdin; None if the parent ended before `die_with_parent` took effect."""
    die_with_parent()
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    return order if os.getppid() == order["parent"] else None


def carry_out(answer: Callable[[dict[str, Any], Callable[[object], None]], None]) -> None:
    """Carries out the order on stdin, and ends this process without unloading torch, which takes a second.

    Args:
        answer: Takes the order, and a function that writes a JSON value to the original stdout, as a line. If the
            order's field "flags" is true, messages name options as the command line does.
    """
    wait_policy.adopt()
    order = take_order()
    if order is None:
        return
    stdout = take_stdout()

    def say(value: object) -> None:
        os.write(stdout, json.dumps(value).encode() + b"\n")

    with as_flags(order.get("flags", False)):
        answer(order, say)
    sys.stderr.flush()
    os._exit(0)


def die_with_parent(wanted: bool = True) -> None:
    """Asks the kernel to kill this process when its parent ends, however it ends (Linux); False takes that back.

    For the kernel the parent is the thread that started this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if wanted else 0, 0, 0, 0)


def interrupt_by_sigterm() -> None:
    """Makes SIGTERM interrupt this process as Ctrl-C does; it ignores Ctrl-C, because the parent handles that."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def take_stdout() -> int:
    """Returns a new file descriptor of stdout; later writes to stdout, such as a library's, go to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def described_status(status: int) -> str:
    """Returns one line on how a process with exit status `status` ended; a negative status is minus the signal."""
    if status >= 0:
        return f"status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        name = str(-status)
    return f"signal {name}, {_KILLED}" if -status == signal.SIGKILL else f"signal {name}"


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt(f"by signal {signum}")

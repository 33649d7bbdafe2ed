"""Modules of ours as programs: this interpreter, and the folders that this process imports from."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import IO, NamedTuple


class Program(NamedTuple):
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


def as_program(module: str) -> Program:
    """Returns the program that runs `module`, which has this process' environment and import paths."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return Program([sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path})

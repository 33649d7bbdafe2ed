"""Modules of ours as programs: this interpreter, and the folders that this process imports from."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class Program(NamedTuple):
    """What `subprocess` takes to start a program.

    Attributes:
        command: The program and its arguments.
        environment: Its environment variables.
    """

    command: list[str]
    environment: dict[str, str]


def as_program(module: str) -> Program:
    """Returns the program that runs `module`, which has this process' environment and import paths."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return Program([sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path})

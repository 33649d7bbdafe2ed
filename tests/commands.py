"""Commands in the tests' own process, which has torch imported already; a process takes seconds to start."""

from __future__ import annotations

import contextlib
import io
import signal
from typing import NamedTuple

import pytest

from a3gnn.cli.main import main


class Ended(NamedTuple):
    """How a command ended, and what it printed; the fields of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def a3gnn(*arguments: object) -> Ended:
    """Runs `a3gnn ARGUMENTS` as its entry point does, up to the exit."""
    stdout, stderr, before = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr), pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, before)
    return Ended(int(ended.value.code or 0), stdout.getvalue(), stderr.getvalue())

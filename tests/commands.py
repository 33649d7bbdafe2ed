"""Commands in the tests' own process, which has torch imported already, or in one of their own, which takes seconds.

Tunes and profiles need the latter: their trials and verifications are quick only where a process starts with
`A3GNN_QUICK` (`a3gnn.launch`), and take minutes in the tests' own.
"""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from a3gnn.cli.main import main

ROOT = Path(__file__).parents[1]


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


def process(*arguments: object, cwd: Path = ROOT) -> Ended:
    """Runs `a3gnn ARGUMENTS` in a process of its own, in the repository's folder or another."""
    command = [sys.executable, "-m", "a3gnn", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=600)
    return Ended(run.returncode, run.stdout, run.stderr)

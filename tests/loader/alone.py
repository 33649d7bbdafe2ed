"""Tests in processes of their own, because what earlier tests left in the heap decides what fits.

They are forks of one process, `python -m tests.loader.alone`, that has imported what tests import, which takes seconds.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ALONE = "A3GNN_TEST_ALONE"
#: Pytest rewrites no assertions of what was imported before it, and says so.
_OPTIONS = ("-q", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_IMPORTED = ("torch_geometric.nn", "a3gnn.loader.loader", "tests.conftest")


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Runs `test` in a process of its own."""
    folder = Path(test.__code__.co_filename).parent

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if _ALONE in os.environ:
            test(*args, **kwargs)
            return
        node = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")  # with its parameters
        forks = _forks()
        assert forks.stdin is not None
        assert forks.stdout is not None
        print(folder / node.rpartition("/")[2], file=forks.stdin, flush=True)
        status, said = json.loads(forks.stdout.readline())
        assert status == 0, said[-4000:]

    return run


@functools.cache
def _forks() -> subprocess.Popen[str]:
    """Starts the process that forks; it ends when its stdin is closed, at this one's exit."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", __name__]
    started = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=os.environ | {_ALONE: "1"}, **pipes)
    atexit.register(started.communicate)
    return started


def _serve() -> None:
    """Runs the test of each line of stdin in a fork, and prints its exit status and what it printed, as JSON."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as log:
            child = os.fork()
            if child == 0:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                os._exit(pytest.main([*_OPTIONS, line.strip()]))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            log.seek(0)
            print(json.dumps([status, log.read().decode()]), flush=True)


if __name__ == "__main__":
    _serve()

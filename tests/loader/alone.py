"""Tests in processes of their own, because what earlier tests left in the heap decides what fits."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ALONE = "A3GNN_TEST_ALONE"


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Runs `test` in a process of its own."""
    folder = Path(test.__code__.co_filename).parent

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if _ALONE in os.environ:
            test(*args, **kwargs)
            return
        node = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")  # with its parameters
        own = str(folder / node.rpartition("/")[2])
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", own]
        ended = subprocess.run(command, env=os.environ | {_ALONE: "1"}, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout[-4000:]

    return run

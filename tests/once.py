"""What is made once for all of pytest-xdist's workers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Returns a folder that the first worker to ask for it makes and fills; the others wait, and find it.

    Args:
        factory: Pytest's own.
        name: Of the folder, below that of the run.
        make: Fills the folder, which is there; where it fails, the next worker that asks tries again.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    done = Path(f"{folder}.done")
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            done.touch()
    return folder

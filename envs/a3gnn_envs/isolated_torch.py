"""`isolated_torch`: training that leaves the process as it was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def isolated_torch() -> Iterator[None]:
    """Uses one torch thread, and afterwards restores it and the global generators, which SB3 seeds."""
    threads = torch.get_num_threads()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - SB3 draws from the legacy generator
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002

"""`start_ranks`: the same command by several processes of this machine."""

from __future__ import annotations

import os
import sys

from a3gnn.errors import UsageError
from a3gnn.launch import launch
from a3gnn.option_names import option


def start_ranks(ranks: int | None) -> None:
    """Puts `torchrun` with so many processes of this command in this one's place, unless it has started this already.

    Each process has an equal part of the cores, unless OMP_NUM_THREADS says how many threads it has.

    Args:
        ranks: How many; None for as many as there are.

    Raises:
        UsageError: `torchrun` has started another number.
    """
    started = launch()
    if ranks is None:
        return
    if started is not None:
        if started.size != ranks:
            raise UsageError(
                f"{option('ranks')} must be the processes that torchrun started, {started.size}, got {ranks}; leave it "
                "out under torchrun"
            )
        return
    from a3gnn.threads.pool import usable_cores

    threads = str(max(1, usable_cores() // ranks))
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "a3gnn"]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *words, *sys.argv[1:]], {"OMP_NUM_THREADS": threads, **os.environ})

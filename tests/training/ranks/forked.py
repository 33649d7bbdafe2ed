"""Runs a script as several ranks: `python forked.py RANKS SCRIPT ARGUMENT...`, without torchrun.

torchrun starts each rank as a program, which imports for seconds. Here one process imports, and its forks are the
ranks. The first rank that fails ends the others. A rank ends before Python takes itself down: a group that FSDP or
DistributedDataParallel still hold then aborts a few of a hundred processes, which are done.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import traceback
from contextlib import suppress

#: What the scripts import, and what PyTorch imports late.
IMPORTED = (
    "a3gnn.training.trainer",
    "a3gnn.apply.train",
    "a3gnn.hitgnn.algorithms.built_in",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
    "torch_geometric.nn",
)


def main() -> int:
    ranks, arguments = int(sys.argv[1]), sys.argv[2:]
    gc.disable()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    os.environ |= shared | {"LOCAL_WORLD_SIZE": str(ranks)}
    left = set()
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            run(rank, arguments)
        left.add(pid)
    while left:
        pid, status = os.wait()
        left.discard(pid)
        if status:
            for other in left:
                os.kill(other, signal.SIGKILL)
            return 1
    return 0


def run(rank: int, arguments: list[str]) -> None:
    """Runs the script in this fork, and ends it."""
    status = 1
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.argv[:] = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())

"""Every case in real processes: torchrun --nproc-per-node 4 split_ranks.py FOLDER, for 2, 3 and 4 ranks by gloo."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import distributed

from a3gnn.launch import Launch
from a3gnn.ranks.group import TorchRanks
from tests.hitgnn.algorithms.split_cases import SEEDS, TASKS, by_ranks


def run(folder: Path) -> None:
    """Writes what rank 0 of each group has found."""
    rank = int(os.environ["RANK"])
    for size in SEEDS:
        if rank < size:
            distributed.init_process_group(
                "gloo", init_method=f"file://{folder}/group{size}", rank=rank, world_size=size
            )
            found = {case: tuple(by_ranks(TorchRanks(Launch(rank, size, rank, size)), case)) for case in TASKS}
            if not rank:
                torch.save(found, folder / f"{size}.pt")
            distributed.destroy_process_group()


if __name__ == "__main__":
    run(Path(sys.argv[1]))

"""Trains on shares under a memory limit beside memory of the loop's own; prints what was cut, or the error.

python -m tests.loader.spikes KIND [EPOCHS], of: plain 0, at NUMBER (a spike after that batch), every NUMBER, leak, leak
whole.
"""

import sys

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from a3gnn import Loader, accelerate
from a3gnn.errors import MemoryLimitError
from a3gnn.process.memory_guard import host_bytes

MIB = 1 << 20


def run(kind: str, number: str = "0", epochs: str = "4") -> str:
    torch.manual_seed(0)
    nodes = 20_000
    data = Data(torch.randn(nodes, 64), torch.randint(0, nodes, (2, 10 * nodes)), y=torch.randint(0, 8, (nodes,)))
    model = accelerate(GraphSAGE(64, 64, 2, 8))
    loader = Loader(data, [10, 10], batch_size=2048, shuffle=True, memory_limit=host_bytes() + 150 * MIB, model=model)
    done, kept = 0, []
    try:
        for _ in range(int(epochs)):
            for batch in loader:
                for share in [batch] if number == "whole" else batch.shares():
                    out = model(share.x, share.edge_index)[: share.batch_size]
                    (cross_entropy(out, share.y[: share.batch_size]) * share.seed_share).backward()
                done += 1
                if kind == "leak":
                    kept.append(torch.ones(MIB))
                elif kind != "plain" and (done == int(number) if kind == "at" else done % int(number) == 0):
                    torch.ones(60 * MIB)  # 240 MiB for a moment
    except MemoryLimitError as error:
        return str(error)
    assert loader.limited is not None
    return f"{loader.limited.cut} of {loader.limited.batches}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(run(*sys.argv[1:]))
